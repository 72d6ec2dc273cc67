"""A host for shards without Raft: one log, one leader, followers that see nothing but the log.

By default a proposed batch is committed and applied at once; with `hold` it stays in flight until `commit` or `drop`.
After every call the host checks what must always hold (`check`), so any test is also a test of these.
"""

import random
from collections import deque

from muster_coordinator.errors import Code
from muster_coordinator.events import ASSIGNED, PREPARING, Event
from muster_coordinator.groups.config import ShardConfig
from muster_coordinator.groups.effects import Answer, Append, AppliedBatch, Effect, Now
from muster_coordinator.groups.faults import Unprovable
from muster_coordinator.groups.log.proof import proven_batch
from muster_coordinator.groups.requests import (
    DeleteGroup,
    DescribeGroup,
    GroupAnswer,
    GroupRequest,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    Leaver,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
    PartitionCommit,
    Protocol,
    SyncGroup,
    TopicCommit,
)
from muster_coordinator.groups.shard import GroupShard
from muster_coordinator.groups.state.classic_group import ClassicGroup, State
from muster_coordinator.records.batch import encode_batch, stamp
from muster_coordinator.records.control import EndMarker
from muster_coordinator.records.keys import encode_group_key
from muster_coordinator.records.offsets_log import GroupMetadataValue, encode_group_value

from tests.made_settings import shard_config
from tests.records.made import encode_end_marker

WALL = 1_700_000_000_000
NO_ID = bytes(16)


class Host:
    """One leader at a time; `followers` replay the log only."""

    def __init__(
        self, config: ShardConfig | None = None, *, followers: int = 1, seed: int = 7, faults_expected: bool = False
    ) -> None:
        self.faults_expected = faults_expected
        self.proven = 0
        self.config = config or shard_config(initial_rebalance_delay_ms=0)
        self.rand = random.Random(seed)
        self.log: list[AppliedBatch] = []
        self.next_offset = 0
        self.mono = 1_000_000
        self.wall = WALL
        self.term = 1
        self.leader = GroupShard(self.config, self.rand)
        self.followers = [GroupShard(self.config, self.rand) for _ in range(followers)]
        self.hold = False
        self.in_flight: deque[Append] = deque()
        self.answers: dict[int, GroupAnswer] = {}
        self.asked: dict[int, GroupRequest] = {}
        self.order: list[int] = []
        self._ticket = 0
        self.events: list[Event] = []
        """All that the leaders told."""
        self._counted = (0, 0)
        self._told_before = 0
        """Of these, by leaders before this one."""
        self.run(self.leader.lead(self.now, self.term))
        self.tick()

    @property
    def now(self) -> Now:
        return Now(self.mono, self.wall)

    # Requests.

    def send(self, request: GroupRequest) -> int:
        self._ticket += 1
        self.asked[self._ticket] = request
        if isinstance(request, Heartbeat):
            self._beat_both_ways(self._ticket, request)
        else:
            self.run(self.leader.handle(self.now, self._ticket, request))
        return self._ticket

    def _beat_both_ways(self, ticket: int, request: Heartbeat) -> None:
        """The short way says and does what the long one says and does, or nothing at all."""
        before = self._sessions()
        at_once = self.leader.heartbeat_at_once(self.mono, request)
        between = self._sessions()
        self.run(self.leader.handle(self.now, ticket, request))
        if at_once is None:
            assert between == before
        else:
            assert self.answers[ticket] == HeartbeatAnswer(at_once)
            assert between == self._sessions()

    def _sessions(self) -> dict[tuple[str, str], int | None]:
        """When each session of the leader ends."""
        lives = self.leader._core.lives.values()
        return {(live.id, member): timer.at_ms for live in lives for member, timer in live.sessions.items()}

    def ask(self, request: GroupRequest) -> GroupAnswer:
        ticket = self.send(request)
        assert ticket in self.answers, f"no answer yet to {request}"
        return self.answers[ticket]

    def open(self) -> set[int]:
        return self.asked.keys() - self.answers.keys()

    # The log.

    def run(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.ticket not in self.answers, "two answers to one ticket"
                assert effect.ticket in self.asked
                self.answers[effect.ticket] = effect.answer
                self.order.append(effect.ticket)
            else:
                try:
                    proven_batch(effect)
                    self.proven += 1
                    self.in_flight.append(effect)
                except Unprovable as error:
                    self.run(self.leader.unprovable(self.now, effect.token, error))
        while self.in_flight and not self.hold:
            self.commit()
        self.check()

    def commit(self) -> None:
        """The oldest batch in flight is committed, and applied everywhere."""
        append = self.in_flight.popleft()
        self._append(append)
        self.run(self.leader.applied(self.now, append.token))

    def _append(self, append: Append) -> None:
        self.apply(stamp(proven_batch(append), self.next_offset, self.term))

    def commit_all(self) -> None:
        while self.in_flight:
            self.commit()

    def drop(self, code: Code) -> None:
        """The oldest batch in flight is certainly not appended."""
        append = self.in_flight.popleft()
        self.run(self.leader.dropped(self.now, append.token, code))

    def apply(self, batch: bytes) -> None:
        """A batch that came through the log, wherever from."""
        entry = AppliedBatch(self.term, self.next_offset, batch)
        self.log.append(entry)
        self.next_offset += int.from_bytes(batch[23:27], "big") + 1
        for shard in (self.leader, *self.followers):
            shard.apply(self.now, entry)

    def apply_records(self, *records: tuple[bytes | None, bytes | None], producer_id: int = -1) -> None:
        self.apply(
            encode_batch(
                records,
                timestamp_ms=self.wall,
                base_offset=self.next_offset,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                transactional=producer_id >= 0,
            )
        )

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.apply(
            encode_end_marker(
                EndMarker(commit, 1),
                producer_id=producer_id,
                producer_epoch=0,
                timestamp_ms=self.wall,
                base_offset=self.next_offset,
            )
        )

    # Time.

    def seed_generation(self, group: str, generation: int) -> None:
        """The log of another broker left this group Empty at a generation."""
        value = GroupMetadataValue("consumer", generation, None, None, self.wall, ())
        self.apply_records((encode_group_key(group), encode_group_value(value)))

    def tick(self) -> None:
        """Everything that is due now, background jobs included."""
        for _ in range(10_000):
            due = self.leader.next_deadline_ms()
            if due is None or due > self.mono:
                return
            self.run(self.leader.on_timer(self.now))
            if self.hold and self.leader.next_deadline_ms() == due:
                return
        raise AssertionError("the shard is never done with this instant")

    def advance(self, ms: int) -> None:
        """Let time pass, never later than a deadline."""
        end = self.mono + ms
        while True:
            self.tick()
            due = self.leader.next_deadline_ms()
            if due is None or due > end:
                break
            self.wall += due - self.mono
            self.mono = due
        self.wall += end - self.mono
        self.mono = end

    # Leadership.

    def crash(self, committed: int = 0) -> None:
        """The leader is gone; a follower leads, and the old leader comes back empty.

        `committed` batches in flight got into the log before, but nobody was answered; the rest is lost.
        """
        for _ in range(min(committed, len(self.in_flight))):
            self._append(self.in_flight.popleft())
        self.in_flight.clear()
        self.answers.update({ticket: self.answers.get(ticket, LOST) for ticket in self.asked})
        old, self.leader = self.leader, self.followers.pop(0)
        del old
        reborn = GroupShard(self.config, self.rand)
        for entry in self.log:
            reborn.apply(self.now, entry)
        self.followers.append(reborn)
        self._lead()

    def hand_over(self) -> None:
        """The leader resigns properly."""
        self.run(self.leader.resign(self.now))
        assert not self.open(), "resign left tickets without an answer"
        self.in_flight.clear()
        self.followers.append(self.leader)
        self.leader = self.followers.pop(0)
        self._lead()

    def _lead(self) -> None:
        self.term += 1
        self._told_before = len(self.events)
        self._counted = self._rebalances()
        self.run(self.leader.lead(self.now, self.term))
        self.tick()

    # What always holds.

    def offset_count(self) -> int:
        """Of all groups, as the leader shows them."""
        return sum(view.offsets for view in self.leader.views())

    def check(self) -> None:
        core = self.leader._core
        assert self.faults_expected or not core.faults, core.faults
        self._check_events()
        for group_id, live in core.lives.items():
            queue = core.queues.get(group_id)
            if queue is not None and queue.exclusive:
                continue
            stored = core.state.groups.get(group_id)
            fresh = stored.decode() if stored is not None else ClassicGroup(state=State.EMPTY, generation=0)
            assert same_group(live.group, fresh), "the leader believes something else than the log says"
            assert live.group.members.keys() <= live.roster.members.keys()
            assert live.roster.members.keys() == live.sessions.keys(), "a member without a session"
            if live.phase is None:
                assert live.group.members == live.roster.members
            else:
                assert live.group.state in (State.EMPTY, State.PREPARING)
                assert live.phase.parked.keys() <= live.roster.members.keys()
                assert live.join_timer.at_ms is not None, "a join phase that nothing ends"
            if live.sync_waits:
                assert live.sync_timer.at_ms is not None
            assert not live.syncs or live.state is State.COMPLETING
        for group_id, queue in core.queues.items():
            assert not queue.free(), f"an idle queue of {group_id}"
            assert queue.exclusive or queue.shared or queue.timer.at_ms is not None, "somebody waits for nothing"

    def _check_events(self) -> None:
        """Each has the fields of its kind, and rebalances are told as often as they are counted."""
        for event in (taken := self.leader.take_events()):
            assert tuple(event.fields) == event.kind.fields, event
        self.events += taken
        if not self.faults_expected:
            told = [event.kind for event in self.events[self._told_before :]]
            started, completed = self._rebalances()
            assert (told.count(PREPARING), told.count(ASSIGNED)) == (
                started - self._counted[0],
                completed - self._counted[1],
            )

    def _rebalances(self) -> tuple[int, int]:
        stats = self.leader._core.stats
        return stats.rebalances_started, stats.rebalances_completed

    def told(self) -> list[tuple[str, dict[str, object]]]:
        """Names and fields of what happened since this was asked last."""
        events, self.events = self.events, []
        self._told_before = 0
        self._counted = self._rebalances()
        return [(event.kind.name, dict(event.fields)) for event in events]

    def check_replicas(self) -> None:
        """Every replica, and a shard restored from a checkpoint, says the same."""
        expected = self.leader.state_hash()
        for follower in self.followers:
            assert follower.state_hash() == expected
        restored = GroupShard(self.config, self.rand)
        restored.restore(self.leader.image().encode())
        assert restored.state_hash() == expected


LOST = JoinGroupAnswer(error=-999, member="lost with the leader")


def same_group(a: ClassicGroup, b: ClassicGroup) -> bool:
    keys = ("state", "generation", "protocol_type", "protocol", "leader", "state_timestamp_ms")
    return all(getattr(a, key) == getattr(b, key) for key in keys) and list(a.members.items()) == list(
        b.members.items()
    )


# Requests with sensible defaults.


def protocols(*names: str, data: bytes = b"meta-") -> tuple[Protocol, ...]:
    return tuple(Protocol(name, data + name.encode()) for name in names)


def join(
    group: str = "g",
    member: str = "",
    *,
    instance: str | None = None,
    names: tuple[str, ...] = ("range",),
    data: bytes = b"meta-",
    session: int = 10_000,
    rebalance: int = 60_000,
    protocol_type: str = "consumer",
    known: bool = False,
    skip: bool = True,
    client: str = "c",
) -> JoinGroup:
    return JoinGroup(
        group=group,
        member=member,
        instance=instance,
        client_id=client,
        client_host="/127.0.0.1",
        session_timeout_ms=session,
        rebalance_timeout_ms=rebalance,
        protocol_type=protocol_type,
        protocols=protocols(*names, data=data),
        reason="",
        requires_known_member=known,
        supports_skip_assignment=skip,
    )


def sync(
    member: str,
    generation: int = 1,
    *,
    group: str = "g",
    instance: str | None = None,
    plan: tuple[tuple[str, bytes], ...] = (),
    protocol_type: str | None = "consumer",
    protocol: str | None = "range",
) -> SyncGroup:
    return SyncGroup(
        group=group,
        generation=generation,
        member=member,
        instance=instance,
        protocol_type=protocol_type,
        protocol=protocol,
        assignments=plan,
    )


def beat(member: str, generation: int = 1, *, group: str = "g", instance: str | None = None) -> Heartbeat:
    return Heartbeat(group, generation, member, instance)


def leave(*leavers: str | tuple[str, str | None], group: str = "g") -> LeaveGroup:
    entries = [Leaver(who, None, "") if isinstance(who, str) else Leaver(*who, "") for who in leavers]
    return LeaveGroup(group, tuple(entries))


def commit(
    member: str = "",
    generation: int = -1,
    offset: int = 5,
    *,
    group: str = "g",
    instance: str | None = None,
    topic: str = "t",
    partition: int = 0,
    topic_id: bytes = NO_ID,
    metadata: str = "",
    epoch: int = -1,
    retention: int = -1,
    timestamp: int = -1,
    v9: bool = True,
) -> OffsetCommit:
    return OffsetCommit(
        group=group,
        generation=generation,
        member=member,
        instance=instance,
        topics=(TopicCommit(topic, topic_id, (PartitionCommit(partition, offset, epoch, metadata),)),),
        retention_ms=retention,
        commit_timestamp_ms=timestamp,
        unknown_group_is_69=v9,
    )


def code_of(answer: object) -> int:
    """The one error of an answer, wherever it is."""
    if hasattr(answer, "error"):
        return int(answer.error)
    codes = {code for _, partitions in answer.topics for _, code in partitions}
    assert len(codes) == 1
    return codes.pop()


def fetch(host: Host, group: str = "g", topic: str = "t", partition: int = 0, *, stable: bool = False):
    answer = host.ask(OffsetFetch(group, ((topic, (partition,)),), stable))
    return answer.topics[0][1][0]


def state(host: Host, group: str = "g") -> str:
    return host.ask(DescribeGroup(group)).state


def listed(host: Host, *states: str, types: tuple[str, ...] = ()):
    answer = host.ask(ListGroups(states, types))
    return {entry.group: entry for entry in answer.groups}


def delete(host: Host, group: str = "g") -> int:
    return host.ask(DeleteGroup(group)).error


class Member:
    """A client that does what a client does."""

    def __init__(self, host: Host, group: str = "g", **how: object) -> None:
        self.host = host
        self.group = group
        self.how = how
        self.id = ""
        self.generation = -1
        self.leads = False
        self.ticket = 0
        self.joined: JoinGroupAnswer | None = None

    @property
    def instance(self) -> str | None:
        return self.how.get("instance")

    def join(self, **how: object) -> "Member":
        """`how` changes this client for good, e.g. its subscription (`data`)."""
        self.how.update(how)
        self.ticket = self.host.send(join(self.group, self.id, **self.how))
        return self

    def took(self) -> "Member":
        """The answer to the join has come."""
        answer = self.host.answers[self.ticket]
        assert answer.error == 0, Code(answer.error)
        self.joined = answer
        self.id, self.generation, self.leads = answer.member, answer.generation, answer.leader == answer.member
        return self

    def sync(self, plan: tuple[tuple[str, bytes], ...] = ()) -> int:
        return self.host.send(
            sync(
                self.id,
                self.generation,
                group=self.group,
                instance=self.instance,
                plan=plan,
                protocol=self.joined.protocol if self.joined else None,
            )
        )

    def beat(self) -> int:
        return self.host.ask(beat(self.id, self.generation, group=self.group, instance=self.instance)).error


def stable(host: Host, count: int = 2, group: str = "g", **how: object) -> list[Member]:
    """A Stable group of `count` dynamic members; the first one leads."""
    members = [Member(host, group, **how).join() for _ in range(count)]
    host.advance(2 * host.config.initial_rebalance_delay_ms)
    settle(host, members)
    return members


def settle(host: Host, members: list[Member]) -> None:
    """All joins are answered: sync everybody, followers first."""
    for member in members:
        member.took()
    plan = tuple((m.id, b"plan-" + m.id.encode()) for m in members)
    tickets = [m.sync() for m in members if not m.leads]
    tickets += [m.sync(plan) for m in members if m.leads]
    for ticket in tickets:
        assert host.answers[ticket].error == 0, Code(host.answers[ticket].error)
