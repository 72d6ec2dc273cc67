"""Values that go in and out of the Raft core: entries, hard state, peer messages, `Ready`.

NamedTuples, because thousands are made a second. A message names its group only on the wire
(`replica.multiraft.raft_payload`): a core is one group.
"""

from enum import IntEnum, StrEnum
from typing import NamedTuple

NOBODY = -1
"""No vote given; no leader known."""
KNOWS_SUSPENSION = 1
"""`Message.context` of an APPEND or SNAPSHOT whose leader knows of suspended voters; tokens are larger."""
ACKNOWLEDGED_MAX = (1 << 63) - 1
"""`Message.hint` of an APPEND or SNAPSHOT that is to suspend its receiver: no log goes so far."""


class EntryKind(IntEnum):
    """Decision 1. Raft itself looks only at CONF."""

    NORMAL = 0
    """Exactly one RecordBatch v2; gets an offset at apply."""
    COMMAND = 1
    """Versioned replicated state that is no record."""
    NOOP = 2
    """First entry of a term."""
    CONF = 3
    """The members of the group from this entry on (`raft.members`)."""
    SKIP = 4
    """An earlier entry, which no replica could apply, is passed over (`replica.multiraft.skips`). Raft sees an entry as
    any."""


def kind_name(kind: int) -> str:
    """For people; the number of a kind that this release does not know."""
    return EntryKind(kind).name if kind in EntryKind._value2member_map_ else str(kind)


class Entry(NamedTuple):
    """One log entry."""

    term: int
    index: int  # type: ignore[assignment]  # shadows tuple.index, which nobody calls
    kind: int
    data: bytes


class HardState(NamedTuple):
    """What must be durable before any message that follows from it leaves."""

    term: int
    vote: int
    """Broker id voted for in `term`, or -1."""
    commit: int
    """A hint: losing it costs time, not safety; a change of it alone needs no sync of its own."""


class MsgType(IntEnum):
    """Peer messages. PRE_VOTE, VOTE, APPEND, SNAPSHOT and TIMEOUT_NOW have a reply; *_REPLY types are odd."""

    PRE_VOTE = 0
    PRE_VOTE_REPLY = 1
    VOTE = 2
    VOTE_REPLY = 3
    APPEND = 4
    APPEND_REPLY = 5
    HEARTBEAT = 6
    HEARTBEAT_REPLY = 7
    SNAPSHOT = 8
    """Leader offers the checkpoint (index, log_term): the follower fetches it by the bulk channel."""
    TIMEOUT_NOW = 10


class Message(NamedTuple):
    """One peer message; fields that a type does not use are zero. The unions mirror etcd's raftpb.Message."""

    type: int
    sender: int
    to: int
    term: int
    index: int = 0  # type: ignore[assignment]
    """APPEND: index before `entries`; APPEND_REPLY: last index matched, or the one refused; VOTE: candidate's last."""
    log_term: int = 0
    """APPEND: term at `index`; VOTE: candidate's last term; rejecting APPEND_REPLY: term of the hint."""
    commit: int = 0
    entries: tuple[Entry, ...] = ()
    reject: bool = False
    hint: int = 0
    """Rejecting APPEND_REPLY: where the leader should look next (raft rule 26). APPEND, SNAPSHOT: what the receiver has
    acknowledged to this leader, or `ACKNOWLEDGED_MAX`."""
    context: int = 0
    """HEARTBEAT and its reply: read round. VOTE/PRE_VOTE: 1 when forced by a leadership transfer. APPEND, SNAPSHOT: 0
    from a release that knows no suspended voters, `KNOWS_SUSPENSION`, or the token of the suspension that ends.
    APPEND_REPLY: the token of a suspended voter, else 0."""


class Role(IntEnum):
    """Who a core is in its term."""

    FOLLOWER = 0
    PRE_CANDIDATE = 1
    CANDIDATE = 2
    LEADER = 3


class SoftState(NamedTuple):
    """Volatile; given out when it changed."""

    role: Role
    term: int
    leader: int
    """Broker id, or -1 while unknown."""


class Refused(StrEnum):
    """Why `RaftCore.propose` took nothing."""

    NOT_LEADER = "not_leader"
    TERM_CHANGED = "term_changed"
    """Leader, but not any more in the term the proposal was checked in (decision 8)."""
    TRANSFERRING = "transferring"
    BUSY = "busy"
    """A flow limit is reached; try again when entries are applied."""
    UNSUPPORTED = "unsupported"
    """A CONF entry that is not `RaftCore.change_members`', or a change where the members are fixed."""
    CHANGING = "changing"
    """Another change is under way, or the leader has committed nothing in its term yet (rule 19)."""


class ReadGrant(NamedTuple):
    """A read round that a quorum confirmed: answer once `index` is applied here."""

    context: int
    index: int  # type: ignore[assignment]  # shadows tuple.index, which nobody calls


class Ready(NamedTuple):
    """All that a core wants done, with what may happen before what (etcd's asynchronous storage writes).

    * `messages` may leave at once, also before `entries` are durable here: appends and heartbeats of a leader.
    * `hard_state` and `entries` go into ONE WAL batch (atomic). `entries` supersede any stored at or above the
      first one's index.
    * `after_persist` (append acknowledgements, granted votes, vote requests with the own vote) only when that batch,
      and every earlier one, is durable. Then the host calls `persisted(persist_term, persist_index)`, in the order of
      the Readys, which also makes the own self-ack. The last of several that became durable together is enough.
    * `committed` is committed *and* durable here; apply in order.
    * `grants` may be answered as soon as `index` is applied.
    """

    soft_state: SoftState | None
    hard_state: HardState | None
    entries: tuple[Entry, ...]
    messages: tuple[Message, ...]
    after_persist: tuple[Message, ...]
    committed: tuple[Entry, ...]
    grants: tuple[ReadGrant, ...]
    lost_reads: tuple[int, ...]
    """Contexts whose reads can no longer be confirmed (leadership lost): ask again or fail."""
    must_sync: bool
    """False when nothing must become durable. A moved `commit` alone makes no hard state: it travels with the next."""
    persist_term: int
    """The log's era: the term in which it was last cut, 0 for never since start (see `log`)."""
    persist_index: int
    """Pass both to `persisted` when the batch is durable; an earlier era counts only below the cut (ABA, rule 24)."""
