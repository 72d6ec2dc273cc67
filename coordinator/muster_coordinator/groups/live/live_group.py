"""What only the leader knows of a group, and loses with leadership (architecture "State changes only by apply").

Parked joins and syncs, session and rebalance deadlines, member ids that were handed out but never joined. The next
leader starts from the stored group alone and grants every member a full new session (decision 7).
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
    """A join phase that runs: the group acts as PreparingRebalance while there is one."""

    __slots__ = ("delay_ms", "initial", "leader", "member_added", "parked", "remaining_ms", "started_ms")

    def __init__(self, *, started_ms: int, leader: str | None, initial: bool = False) -> None:
        self.started_ms = started_ms
        self.leader = leader
        self.parked: dict[str, ParkedJoin] = {}
        self.initial = initial
        """Started from Empty: only time ends it, so that one rebalance takes in everybody who starts together."""
        self.delay_ms = 0
        self.remaining_ms = 0
        self.member_added = False
        """Somebody joined in the present window of an initial phase."""


class LiveGroup:
    """One group on its leader."""

    __slots__ = (
        "group",
        "id",
        "join_timer",
        "pending",
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
        """As stored: what was applied last."""
        self.roster = Roster(group.protocol_type, group.members.values())
        self.phase: JoinPhase | None = None
        self.pending: dict[str, Timer] = {}
        """Ids handed out with 79 that have not come back (KIP-394)."""
        self.sessions: dict[str, Timer] = {}
        self.syncs: dict[str, tuple[int, SyncGroup]] = {}
        """Member id -> its parked SyncGroup and the ticket of it."""
        self.sync_waits: set[str] = set()
        """Members of this generation that have not sent SyncGroup."""
        self.join_timer = Timer(TimerKind.JOIN, group_id)
        self.sync_timer = Timer(TimerKind.SYNC, group_id)
        self.pending_rebalance_timer = Timer(TimerKind.PENDING_REBALANCE, group_id)
        self.pending_rebalance: str | None = None
        """Why a rebalance must be started as soon as it can be."""
        self.rebalance_started_ms: int | None = None
        self.rebalance_reason: str | None = None
        """Why the last rebalance began. Not stored: another leader does not know it."""

    @property
    def state(self) -> State:
        """What the group acts as."""
        return self.group.state if self.phase is None else State.PREPARING

    def adopt(self, group: ClassicGroup) -> None:
        """A record of this group was applied: the roster is the stored members and whoever is parked since."""
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
        """Everybody is parked and no id that was handed out is still on its way."""
        return self.phase is not None and not self.pending and len(self.phase.parked) == len(self.roster.members)

    def idle(self) -> bool:
        """Nothing here that the stored group does not say."""
        return self.phase is None and not self.pending and self.pending_rebalance is None and not self.group.members
