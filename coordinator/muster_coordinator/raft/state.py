"""All that one core remembers. `core.RaftCore` is this plus the surface; the other modules are functions over it.

Problem: election, replication, reads and transfer all turn on the same few numbers, and each deserves a file of its
own.
Mechanism: one slotted object without behaviour beyond answering questions about itself. Durable are only `term`,
`vote`, the log and, as a hint, `commit`; everything else dies with the process.
"""

from collections import deque
from collections.abc import Sequence

from muster_coordinator.ports import Rand
from muster_coordinator.raft.log import RaftLog
from muster_coordinator.raft.members import Members
from muster_coordinator.raft.messages import (
    NOBODY,
    Entry,
    HardState,
    Message,
    MsgType,
    ReadGrant,
    Role,
    SoftState,
)
from muster_coordinator.raft.progress import Progress
from muster_coordinator.raft.quorum import Config
from muster_coordinator.raft.reads import ReadQueue
from muster_coordinator.raft.timing import Flow, Timing

FOLLOWER = Role.FOLLOWER
PRE_CANDIDATE = Role.PRE_CANDIDATE
CANDIDATE = Role.CANDIDATE
LEADER = Role.LEADER


class RaftState:
    """Times are milliseconds of the host's monotonic clock; broker ids are ints; `NOBODY` stands for none."""

    __slots__ = (
        "after_persist",
        "applied",
        "asked",
        "ballot",
        "commit",
        "config",
        "election_deadline_ms",
        "election_timeout_ms",
        "electors",
        "flow",
        "given_hard",
        "given_soft",
        "grants",
        "handed",
        "heartbeat_deadline_ms",
        "heartbeat_due",
        "hesitates",
        "hurried_until_ms",
        "is_plain",
        "is_voter",
        "leader",
        "leader_contact_ms",
        "log",
        "lost_reads",
        "may_change",
        "may_lead",
        "members",
        "messages",
        "node",
        "own_heartbeats",
        "peers",
        "progresses",
        "quorum_deadline_ms",
        "quorum_since_ms",
        "rand",
        "reads",
        "release_told",
        "resigns",
        "role",
        "round",
        "send_due",
        "snapshot_offer",
        "suspended",
        "term",
        "term_start_index",
        "timing",
        "told_in_term",
        "transfer_deadline_ms",
        "transfer_target",
        "unapplied",
        "unapplied_bytes",
        "uncommitted_bytes",
        "unsettled",
        "vote",
    )

    def __init__(
        self,
        node: int,
        members: Members,
        may_change: bool,
        log: RaftLog,
        hard_state: HardState,
        applied: int,
        rand: Rand,
        timing: Timing,
        flow: Flow,
        own_heartbeats: bool,
    ) -> None:
        assert may_change or node in members.newest.config.voters, "where members are fixed, a core is one of them"
        assert log.compacted_index <= applied <= log.last_index, "applied lies inside the log"
        assert hard_state.term >= log.last_term, "the term is durable before its entries"
        self.node = node
        self.members = members
        self.may_change = may_change
        """False: the members are fixed, CONF entries are refused, and so is whoever is no member."""
        self.take_config(members.newest.config)
        self.log = log
        self.rand = rand
        self.timing = timing
        self.flow = flow
        self.own_heartbeats = own_heartbeats
        self.may_lead = True
        """False while this voter holds the log and its votes, but no state to serve from."""
        self.hesitates = False
        """True while others should rather lead: this voter campaigns later than they, but it does."""
        self.suspended = 0
        """The token under which this voter, which lost something it had promised, stands aside; 0 while it does not."""
        self.release_told = False
        """Its leader has made good for what it lost, and that is not stored yet."""
        self.told_in_term = 0
        """The term whose leader said that it knows of suspended voters."""
        self.term = hard_state.term
        self.vote = hard_state.vote
        self.commit = max(min(hard_state.commit, log.last_index), applied)
        self.given_hard = hard_state
        self.role = FOLLOWER
        self.leader = NOBODY
        self.given_soft = SoftState(FOLLOWER, self.term, NOBODY)
        self._start_volatile(applied)

    def _start_volatile(self, applied: int) -> None:
        self.applied = applied
        self.handed = applied
        """Given out for applying up to here."""
        self.unapplied: deque[tuple[int, int]] = deque()  # (last index, bytes) of what was given out
        self.unapplied_bytes = 0
        self.ballot: dict[int, bool] = {}
        self.election_timeout_ms = 0
        self.election_deadline_ms = 0
        """0 until the first `advance`, which arms it: a core is made without knowing the time."""
        self.leader_contact_ms = 0
        self.hurried_until_ms = 0
        self.heartbeat_deadline_ms = 0
        self.quorum_since_ms = 0
        self.quorum_deadline_ms = 0
        self.progresses: dict[int, Progress] = {}
        self.term_start_index = 0
        """While leading: index of the no-op that began the term."""
        self.resigns = False
        """Leading, and not a voter of the configuration that is committed: it hands over, or else steps down."""
        self.asked: list[int] = []
        """While it `resigns`: the heirs that it has asked to take over."""
        self.uncommitted_bytes = 0
        self.reads = ReadQueue()
        self.round = 0
        self.transfer_target = NOBODY
        self.transfer_deadline_ms = 0
        self.snapshot_offer: tuple[int, int, int] | None = None
        """(leader, index, term) of a checkpoint this follower should fetch; None otherwise."""
        self.messages: list[Message] = []
        self.after_persist: list[Message] = []
        self.grants: list[ReadGrant] = []
        self.lost_reads: list[int] = []
        self.send_due = False
        self.heartbeat_due = False

    def take_config(self, config: Config) -> None:
        """`config` is in effect. What follows from it and is asked all the time is worked out here."""
        node = self.node
        self.config = config
        self.peers: tuple[int, ...] = tuple(member for member in config.everyone() if member != node)
        """Everybody else that gets entries."""
        self.electors: tuple[int, ...] = tuple(voter for voter in config.electors() if voter != node)
        """Everybody else whose vote counts."""
        self.is_voter = node in config.voters or node in config.outgoing
        self.unsettled = bool(config.outgoing) or node not in config.voters
        """Once this configuration is committed, its leader has something to do (`raft.change.settle`)."""
        self.is_plain = not config.learners and not self.unsettled
        """One majority, of this member and its peers, decides everything."""

    @property
    def first_index(self) -> int:
        """First entry that is not compacted."""
        return self.log.compacted_index + 1

    @property
    def last_index(self) -> int:
        """Last entry, durable or not."""
        return self.log.last_index

    @property
    def committed_in_term(self) -> bool:
        """Leading, and an entry of the own term is committed: reads are answerable, configurations changeable."""
        return self.role is LEADER and self.commit >= self.term_start_index

    def append_own(self, items: Sequence[tuple[int, bytes]], size: int) -> int:
        """The leader's way into the log; returns the first index."""
        log = self.log
        first = log.last_index + 1
        term = self.term
        log.append([Entry(term, first + i, kind, data) for i, (kind, data) in enumerate(items)], size)
        self.uncommitted_bytes += size
        self.send_due = True
        return first

    def send(self, kind: MsgType, to: int, *, index: int = 0, reject: bool = False, context: int = 0) -> None:
        """Queue a message in the own term that may leave at once."""
        self.messages.append(Message(kind, self.node, to, self.term, index=index, reject=reject, context=context))
