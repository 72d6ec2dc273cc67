"""Volatile state of one group on its leader (architecture "State changes only by apply").

It holds parked JoinGroup and SyncGroup requests, session and rebalance deadlines, and member ids that were handed out
but have not joined. The next leader starts from the stored group alone and gives every member a full new session
(decision 7).
"""

from muster_coordinator.groups.live.deadlines import Timer, TimerKind
from muster_coordinator.groups.live.roster import Roster
from muster_coordinator.groups.requests import JoinGroup, SyncGroup
from muster_coordinator.groups.state.classic_group import ClassicGroup, State
from muster_coordinator.groups.state.member import Member


class ParkedJoin:
    """A JoinGroup that waits for the join phase to end."""

    __slots__ = ("member", "request", "ticket")

    def __init__(self, ticket: int, request: JoinGroup, member: Member) -> None:
        self.ticket = ticket
        self.request = request
        self.member = member


class JoinPhase:
    """A running join phase. While there is one, the group acts as PreparingRebalance."""

    __slots__ = ("delay_ms", "initial", "leader", "member_added", "parked", "remaining_ms", "started_ms")

    def __init__(self, *, started_ms: int, leader: str | None, initial: bool = False) -> None:
        self.started_ms = started_ms
        self.leader = leader
        self.parked: dict[str, ParkedJoin] = {}
        self.initial = initial
        """The phase started from Empty: only time ends it, so that one rebalance takes in all clients that start
        together."""
        self.delay_ms = 0
        self.remaining_ms = 0
        self.member_added = False
        """A member joined in the current window of an initial phase."""


class LiveGroup:
    """One group on its leader."""

    __slots__ = (
        "group",
        "id",
        "join_timer",
        "pending_members",
        "pending_rebalance",
        "pending_rebalance_timer",
        "phase",
        "rebalance_reason",
        "rebalance_started_ms",
        "roster",
        "sessions",
        "sync_timer",
        "sync_waits",
        "syncs",
    )  # fmt: skip

    def __init__(self, group_id: str, group: ClassicGroup) -> None:
        self.id = group_id
        self.group = group
        """The stored group: what was applied last."""
        self.roster = Roster(group.protocol_type, group.members.values())
        self.phase: JoinPhase | None = None
        self.pending_members: dict[str, Timer] = {}
        """Member ids handed out with error 79 that have not joined yet (KIP-394)."""
        self.sessions: dict[str, Timer] = {}
        self.syncs: dict[str, tuple[int, SyncGroup]] = {}
        """Member id → ticket and request of its parked SyncGroup."""
        self.sync_waits: set[str] = set()
        """Members of this generation that have not sent SyncGroup."""
        self.join_timer = Timer(TimerKind.JOIN, group_id)
        self.sync_timer = Timer(TimerKind.SYNC, group_id)
        self.pending_rebalance_timer = Timer(TimerKind.PENDING_REBALANCE, group_id)
        self.pending_rebalance: str | None = None
        """Reason of a rebalance that must start as soon as it can be stored; None: none is pending."""
        self.rebalance_started_ms: int | None = None
        self.rebalance_reason: str | None = None
        """Reason of the last rebalance. Not stored: a new leader does not know it."""

    @property
    def state(self) -> State:
        """The state that the group acts in."""
        return self.group.state if self.phase is None else State.PREPARING

    def adopt(self, group: ClassicGroup) -> None:
        """A record of this group was applied: the roster becomes the stored members plus the parked ones."""
        self.group = group
        phase = self.phase
        protocol_type = group.protocol_type
        if phase is not None and not group.members and phase.parked:
            protocol_type = self.roster.protocol_type
        self.roster = Roster(protocol_type, group.members.values())
        if phase is not None:
            for parked in phase.parked.values():
                self.roster.put(parked.member)

    def all_joined(self) -> bool:
        """Whether every member is parked, and no pending member id is still to join."""
        return (
            self.phase is not None and not self.pending_members and len(self.phase.parked) == len(self.roster.members)
        )

    def idle(self) -> bool:
        """Whether nothing is held here beyond the stored group."""
        return (
            self.phase is None
            and not self.pending_members
            and self.pending_rebalance is None
            and not self.group.members
        )
