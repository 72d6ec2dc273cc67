"""Requests and answers of groups without API versions: the shard's interface, whatever version the client uses.

`api` translates between them and Kafka's messages; where versions differ in *meaning*, there is an explicit field.
Immutable; lists are tuples. Types that are made tens of thousands of times a second are named tuples, which take a
third of the time of a frozen dataclass. Errors are `errors.Code` numbers. Values are not validated here but in the
shard.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.records.control import TransactionMarker


@dataclass(frozen=True, slots=True)
class Protocol:
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    group: str
    member: str
    instance: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """v0 has no such field: the API layer sets the session timeout."""
    protocol_type: str
    protocols: tuple[Protocol, ...]
    reason: str
    requires_known_member: bool
    """v4+ (KIP-394): a dynamic member without an id is refused with 79 and gets an id to join with."""
    supports_skip_assignment: bool
    """v9+ (KIP-814): the answer may tell the leader not to compute an assignment."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member: str
    instance: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupAnswer:
    error: int
    member: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    group: str
    generation: int
    member: str
    instance: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupAnswer:
    error: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    group: str
    generation: int
    member: str
    instance: str | None


class HeartbeatAnswer(NamedTuple):
    error: int


@dataclass(frozen=True, slots=True)
class Leaver:
    member: str
    instance: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """v0-2 have one member; the API layer moves its error to the top of the answer."""

    group: str
    leavers: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class LeaveGroupAnswer:
    error: int
    leavers: tuple[tuple[str, str | None, int], ...]
    """(member, instance, error), with the ids of the request."""


class PartitionCommit(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class TopicCommit(NamedTuple):
    topic: str
    topic_id: bytes
    """16 bytes from the cluster image; 16 zero bytes when topics are not ours (topics.mode none)."""
    partitions: tuple[PartitionCommit, ...]


class OffsetCommit(NamedTuple):
    group: str
    generation: int
    member: str
    instance: str | None
    topics: tuple[TopicCommit, ...]
    """Known topics and partitions only; the API layer answers the others."""
    retention_ms: int = -1
    commit_timestamp_ms: int = -1
    unknown_group_is_69: bool = True
    """v9+: an unknown group with a generation answers 69; before: 22."""


class TxnOffsetCommit(NamedTuple):
    """Offsets that a producer commits inside its transaction (KIP-98, KIP-447); answered by an OffsetCommitAnswer."""

    group: str
    generation: int
    member: str
    instance: str | None
    """v0-2 name no member: generation -1, "" and None, which a group accepts in any state."""
    topics: tuple[TopicCommit, ...]
    """As in OffsetCommit."""
    producer_id: int
    producer_epoch: int
    verification: int = 0
    """What `GroupShard.begin_verification` returned, once the transaction's coordinator has agreed."""


class WriteMarker(NamedTuple):
    """The end of a transaction that committed offsets here; concerns all groups of the partition."""

    marker: TransactionMarker
    group: str = ""


class WriteMarkerAnswer(NamedTuple):
    error: int


class OffsetCommitAnswer(NamedTuple):
    topics: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    """(topic, ((partition, error), ...)) for every partition of the request."""


class TopicIds(NamedTuple):
    """Topic ids in this replica's cluster image; they tell a topic from an earlier one of the same name."""

    names: Mapping[bytes, str]
    """Topic id → name of every topic."""
    deleted: frozenset[bytes]
    """Ids of topics that are known to be deleted."""


class OffsetFetch(NamedTuple):
    group: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None
    """None: all topics that have a committed offset."""
    require_stable: bool
    ids: TopicIds | None = None
    """None: offsets are answered without regard to the topic id of their commit."""


class FetchedOffset(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error: int


class OffsetFetchAnswer(NamedTuple):
    error: int
    topics: tuple[tuple[str, tuple[FetchedOffset, ...]], ...]
    unknown_id: bool = False
    """An offset was left out because its topic id is unknown to the image, which may be behind."""


@dataclass(frozen=True, slots=True)
class OffsetDelete:
    group: str
    topics: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteAnswer:
    error: int
    topics: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    group: str


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member: str
    instance: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupAnswer:
    error: int
    group: str
    state: str
    """Empty, PreparingRebalance, CompletingRebalance, Stable, Dead; Dead also when there is no such group."""
    known: bool = True
    """False: the group does not exist (v6+ answers 69, older versions Dead with error 0)."""
    generation: int = -1
    """Not in Kafka's answer, but in /v1 and metrics; likewise the next two."""
    rebalanced_at_ms: int | None = None
    """The coordinator's wall clock when the last rebalance ended; None during a rebalance, or if there was none."""
    rebalance_reason: str | None = None
    """Reason of the last rebalance, if this coordinator was leader when it began."""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ListGroups:
    """The groups of one partition. Filters: lower-case state names, lower-case types; empty = all."""

    states: tuple[str, ...]
    types: tuple[str, ...]


class ListedGroup(NamedTuple):
    """A tuple, as a hundred thousand are made for one answer."""

    group: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class ListGroupsAnswer:
    error: int
    groups: tuple[ListedGroup, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    group: str


@dataclass(frozen=True, slots=True)
class DeleteGroupAnswer:
    error: int


GroupRequest = (
    JoinGroup | SyncGroup | Heartbeat | LeaveGroup | OffsetCommit | OffsetFetch | OffsetDelete
    | DescribeGroup | ListGroups | DeleteGroup | TxnOffsetCommit | WriteMarker
)  # fmt: skip
GroupAnswer = (
    JoinGroupAnswer | SyncGroupAnswer | HeartbeatAnswer | LeaveGroupAnswer | OffsetCommitAnswer | OffsetFetchAnswer
    | OffsetDeleteAnswer | DescribeGroupAnswer | ListGroupsAnswer | DeleteGroupAnswer | WriteMarkerAnswer
)  # fmt: skip

READS = (OffsetFetch, DescribeGroup, ListGroups)
"""Answered after one ReadIndex round (decision 36)."""

DENIALS = frozenset((
    Code.ILLEGAL_GENERATION, Code.INCONSISTENT_GROUP_PROTOCOL, Code.UNKNOWN_MEMBER_ID, Code.NON_EMPTY_GROUP,
    Code.GROUP_ID_NOT_FOUND, Code.FENCED_INSTANCE_ID, Code.GROUP_SUBSCRIBED_TO_TOPIC,
    Code.INVALID_PRODUCER_EPOCH, Code.INVALID_TXN_STATE, Code.TRANSACTION_COORDINATOR_FENCED,
))  # fmt: skip
"""Errors that the state of the group, or of a producer, causes. A client acts on them: it gives up its partitions, its
member id, its transaction, or ends."""


def denies(answer: GroupAnswer) -> bool:
    """Whether the answer has one of DENIALS. A replica that lost leadership without knowing may be wrong about those,
    so a ReadIndex round must confirm the leadership before the answer leaves (decision 36)."""
    if isinstance(answer, OffsetCommitAnswer):
        topics = answer.topics
        return bool(topics) and bool(topics[0][1]) and topics[0][1][0][1] in DENIALS
    return answer.error in DENIALS


def refusal(request: GroupRequest, code: Code) -> GroupAnswer:
    """An answer with error `code`, in the field where clients of this request read it (protocol notes 2.3)."""
    match request:
        case JoinGroup():
            return JoinGroupAnswer(error=code, member=request.member)
        case SyncGroup():
            return SyncGroupAnswer(error=code)
        case Heartbeat():
            return HeartbeatAnswer(code)
        case LeaveGroup():
            return LeaveGroupAnswer(code, ())
        case OffsetCommit() | TxnOffsetCommit():
            return OffsetCommitAnswer(
                tuple((t.topic, tuple((p.partition, int(code)) for p in t.partitions)) for t in request.topics)
            )
        case OffsetFetch():
            return OffsetFetchAnswer(code, ())
        case OffsetDelete():
            return OffsetDeleteAnswer(code, ())
        case DescribeGroup():
            return DescribeGroupAnswer(error=code, group=request.group, state="")
        case ListGroups():
            return ListGroupsAnswer(code, ())
        case DeleteGroup():
            return DeleteGroupAnswer(code)
        case WriteMarker():
            return WriteMarkerAnswer(code)
