"""The classic group: its durable state, decoded, and the validation that depends on that state alone.

It is a value: applying a record makes another one. Volatile state of a leader (parked requests, deadlines) is in
`live_group`. While a join phase runs, a group *acts* as PreparingRebalance whatever is stored, so the validators take
the acting state from their caller.

Rules: protocol notes 3.2 (states), 3.4 (member validation), 4.2 (commit validation).
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property

from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import OffsetCommit, TxnOffsetCommit
from muster_coordinator.groups.state.member import Member


class State(Enum):
    """States, with Kafka's names as DescribeGroups and ListGroups return them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """Reported to clients, never stored: a dead group is removed."""


class ClassicGroup:
    """One classic group at one point of the log; immutable."""

    def __init__(
        self,
        *,
        state: State,
        generation: int,
        protocol_type: str | None = None,
        protocol: str | None = None,
        leader: str | None = None,
        state_timestamp_ms: int = -1,
        members: Iterable[Member] = (),
    ) -> None:
        self.state = state
        self.generation = generation
        self.protocol_type = protocol_type
        """None for a group that never had a member."""
        self.protocol = protocol
        self.leader = leader
        self.state_timestamp_ms = state_timestamp_ms
        """The record's wall-clock time when the group entered this state; -1 when not recorded."""
        self.members: Mapping[str, Member] = {m.id: m for m in members}
        assert state is State.EMPTY or state is State.PREPARING or self.members, "a generation without members"
        assert state is not State.EMPTY or not self.members, "an empty group with members"

    @cached_property
    def instances(self) -> dict[str, str]:
        """Instance id → member id of the static members."""
        return {m.instance: m.id for m in self.members.values() if m.instance is not None}

    def validate_commit(self, request: OffsetCommit | TxnOffsetCommit, state: State) -> Code:
        """The error of a commit, or NONE. `state`: the acting state (protocol notes 4.2, invariants G7-G9).

        Only members of the stored generation may commit: one that is parked in a join phase has no generation yet.
        Inside a transaction, a commit that names no member is accepted in any state, since producers of versions 0 to 2
        cannot name one; and no sync is waited for, since the generation is final by then.
        """
        transactional = isinstance(request, TxnOffsetCommit)
        if request.generation < 0 and state is State.EMPTY:
            return Code.NONE
        if request.generation >= 0 or request.member or request.instance is not None:
            refused = validate_member(self.members, self.instances, request.member, request.instance)
            if refused is not Code.NONE:
                return refused
            if request.generation != self.generation:
                return Code.ILLEGAL_GENERATION
        elif state is not State.EMPTY and not transactional:
            return Code.UNKNOWN_MEMBER_ID
        return Code.REBALANCE_IN_PROGRESS if state is State.COMPLETING and not transactional else Code.NONE


def validate_member(
    members: Mapping[str, Member], instances: Mapping[str, str], member: str, instance: str | None
) -> Code:
    """V(member, instance) of protocol notes 3.4: error 25, 82 or NONE."""
    if instance is not None:
        holder = instances.get(instance)
        if holder is None:
            return Code.UNKNOWN_MEMBER_ID
        if holder != member:
            return Code.FENCED_INSTANCE_ID
    return Code.NONE if member in members else Code.UNKNOWN_MEMBER_ID
