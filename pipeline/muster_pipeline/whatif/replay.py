"""One group's history under one assignor: which partitions move, how evenly they are shared, how long they stop.

Each step gives the assignor the members of a recorded generation, with the partitions that they owned under the replay,
in the form that its own client sends. An eager assignor stops every partition of the group for the whole rebalance; a
cooperative one stops only those that change owners, and needs a second rebalance for them. Recorded follow-up
rebalances must therefore be left out of the history. The stall counts partition-milliseconds: stopped partitions, each
for the recorded duration of the rebalance; without a known duration the stall is unknown.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from muster_coordinator.groups.assignors.consumer_protocol import encode_sticky_user_data
from muster_coordinator.groups.assignors.membership import Member, Subscription, TopicPartition, Topology
from muster_coordinator.groups.assignors.registry import Assignor

from muster_pipeline.transforms.balance import score
from muster_pipeline.whatif import limits
from muster_pipeline.whatif.history import History, HistoryMember, Owned, Step

Owners = dict[Owned, str]
"""Partition → identity of its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One step of one replay."""

    group_id: str
    assignor: str
    generation: int
    at_ms: int
    members: int
    partitions: int
    rebalances: int
    """1, or more if a cooperative assignor had to follow up."""
    moved: int
    """Partitions with another owner than before, of those owned before and after."""
    kept: int
    gained: int
    lost: int
    stopped: int
    """Partitions that stood still, each counted once a rebalance."""
    stall_ms: int | None
    """Partition-milliseconds; None if the duration of this rebalance is not known."""
    balance_score: int
    partitions_max: int
    partitions_min: int


def replay(history: History, assignor: Assignor, duration_ms: Mapping[int, int]) -> list[Outcome]:
    """`duration_ms`: of recorded rebalances, by log offset of the record that completed them."""
    owners: Owners = {}
    generation = 0
    found = []
    for step in history.steps:
        before = owners
        owners, generation, stops = _settle(step, assignor, before, generation)
        found.append(_outcome(history.group_id, assignor.name, step, before, owners, stops, duration_ms))
    return found


def recorded(history: History, duration_ms: Mapping[int, int], cooperative_offsets: Container[int]) -> list[Outcome]:
    """The recorded history as outcomes. `cooperative_offsets`: log offsets of generations of a cooperative assignor."""
    owners: Owners = {}
    found = []
    for step in history.steps:
        before, owners = owners, _recorded_owners(step)
        lost = _stops(before, owners, cooperative=step.log_offset in cooperative_offsets)
        found.append(_outcome(history.group_id, "recorded", step, before, owners, [lost], duration_ms))
    return found


def _settle(step: Step, assignor: Assignor, before: Owners, generation: int) -> tuple[Owners, int, list[int]]:
    """(owners after the step, the replay's generation, partitions stopped in each rebalance)."""
    topology = Topology(dict(step.partition_counts))
    present = {member.identity for member in step.members}
    owners = {one: owner for one, owner in before.items() if owner in present}
    stops: list[int] = []
    for _ in range(limits.SETTLE_STEPS_MAX):
        members = [_member(member, assignor, owners, generation) for member in step.members]
        plan = assignor.assign(members, topology)
        identity = {member.member_id: member.identity for member in step.members}
        after = {(one.topic, one.partition): identity[member] for member, parts in plan.items() for one in parts}
        stops.append(_stops(before if not stops else owners, after, cooperative=assignor.cooperative))
        generation += 1
        taken_away = owners.keys() - after.keys()
        owners = after
        if not assignor.cooperative or not taken_away:
            break
    return owners, generation, stops


def _member(member: HistoryMember, assignor: Assignor, owners: Owners, generation: int) -> Member:
    """The member's JoinGroup as its client would write it under this assignor."""
    mine = tuple(TopicPartition(*one) for one in sorted(owners) if owners[one] == member.identity)
    claimed = bool(mine) or generation > 0
    is_sticky = assignor.name == "sticky"
    user_data = encode_sticky_user_data(mine, generation) if is_sticky and mine else None
    return Member(
        member.member_id,
        Subscription(
            topics=member.topics,
            user_data=user_data,
            owned=mine if assignor.cooperative else (),
            generation_id=generation if assignor.cooperative and claimed else -1,
            rack_id=member.rack_id,
        ),
        member.instance_id,
    )


def _stops(before: Owners, after: Owners, *, cooperative: bool) -> int:
    """Partitions that had an owner and were not consumed: all (eager), or those that lost their owner (cooperative)."""
    if not cooperative:
        return len(before)
    return sum(after.get(one) != owner for one, owner in before.items())


def _recorded_owners(step: Step) -> Owners:
    return {one: member.identity for member in step.members for one in member.recorded}


def _outcome(
    group_id: str,
    name: str,
    step: Step,
    before: Owners,
    after: Owners,
    stops: Sequence[int],
    duration_ms: Mapping[int, int],
) -> Outcome:
    both = before.keys() & after.keys()
    kept = sum(before[one] == after[one] for one in both)
    counts = dict.fromkeys((member.identity for member in step.members), 0)
    for owner in after.values():
        counts[owner] += 1
    took = duration_ms.get(step.log_offset)
    return Outcome(
        group_id=group_id,
        assignor=name,
        generation=step.generation,
        at_ms=step.at_ms,
        members=len(step.members),
        partitions=len(after),
        rebalances=len(stops),
        moved=len(both) - kept,
        kept=kept,
        gained=len(after.keys() - both),
        lost=len(before.keys() - both),
        stopped=sum(stops),
        stall_ms=None if took is None else took * sum(stops),
        balance_score=score(list(counts.values())),
        partitions_max=max(counts.values(), default=0),
        partitions_min=min(counts.values(), default=0),
    )
