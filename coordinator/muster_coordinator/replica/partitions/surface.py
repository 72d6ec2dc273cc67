"""What `api`, `admin` and `app` may use of a replica. Implemented by `replica.node.Node`; faked in their tests.

No call blocks, or raises because of a client's input. `done` callbacks are called exactly once, on the loop, possibly
before the call returns. A request whose deadline has passed is not proposed.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import Command, CommandResult
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, Heartbeat, TxnOffsetCommit
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.ports import Loop, Rand
from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.replica.multiraft.leaders import Leadership
from muster_coordinator.replica.multiraft.status import GroupStatus
from muster_coordinator.storage.aborted import Aborted
from muster_coordinator.topics.machine import ActiveProducer, ProduceResult, Refused
from muster_coordinator.topics.stores import TopicStore
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.requests import Answer
from muster_coordinator.transactions.requests import Request as TransactionRequest


class ReadResult(NamedTuple):
    """One partition's part of a Fetch: whole batches, from the one that has the offset on."""

    code: Code
    records: bytes = b""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    aborted: tuple[Aborted, ...] = ()
    """Aborted transactions among the records; for readers of isolation level 1."""
    preferred_replica: int = -1
    """A follower that the client had better ask (KIP-392); then there are no records."""
    unproven: bool = False
    """The result says that an offset does not exist. A deposed leader cannot know that: answer only after
    `LocalLog.confirm`."""


class OffsetResult(NamedTuple):
    """Answer to ListOffsets for one partition."""

    code: Code
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1


class EpochEnd(NamedTuple):
    """Answer to OffsetForLeaderEpoch for one partition."""

    code: Code
    epoch: int = -1
    end_offset: int = -1


class LocalLog(Protocol):
    """One log-bearing partition hosted here: a topic's or an offsets partition. All epochs are Raft terms.

    This is the port of a topic store, partition by partition; `store` says what it cannot do (`topics.stores`), and
    whatever else is asked of it gets one of Kafka's codes, as said at each call. Ownership is a Raft group's for every
    store, so `serving`, `term` and `confirm` mean the same for all of them."""

    group: GroupNo
    store: TopicStore
    reads_at_once: bool
    """Whether `store` has READS_AT_ONCE; by itself, since Fetch looks at it for each partition. Else Fetch calls
    `read_later`, and never `read` or `read_following`."""

    def serving(self, current_leader_epoch: int) -> Code:
        """NONE when this replica leads and its term's no-op is applied and the epoch (-1 = unknown) fits;
        else 6, 74, 75 (KIP-320), or 78 while leading but not yet applied (decision 5)."""

    def term(self) -> int: ...
    def size_bytes(self) -> int:
        """Size of all segments, appended data that is not written to files included."""

    def read(self, offset: int, max_bytes: int, *, whole_first_batch: bool, committed: bool = False) -> ReadResult:
        """OFFSET_OUT_OF_RANGE only by protocol notes 13.1 row 9. `whole_first_batch` is KIP-74's progress rule.
        `committed`: nothing at or beyond the last stable offset, and with the aborted transactions (isolation 1)."""

    def read_following(
        self, offset: int, max_bytes: int, *, whole_first_batch: bool, committed: bool = False
    ) -> ReadResult:
        """As `read`, where this replica follows a leader that it has heard within an election timeout (KIP-392); else
        NOT_LEADER_OR_FOLLOWER. An offset beyond what is applied here is no error: nothing of it is known yet."""

    def read_later(self, offset: int, max_bytes: int, *, committed: bool, done: Callable[[ReadResult], None]) -> None:
        """As `read` with `whole_first_batch`, where that cannot be answered in the same turn. The caller may need less
        than it asked for: it cuts between batches. What is told as missing is proven, so `unproven` is never set. A
        store that does not answer in time is KAFKA_STORAGE_ERROR, never an empty result; the store bounds that time."""

    def confirm(self, done: Callable[[bool], None]) -> None:
        """Call `done(True)` after one ReadIndex round: data that is not applied here now was not acknowledged anywhere
        before this call. `done(False)`: that cannot be shown, because another replica leads or may lead."""

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` whenever the log end, the log start or leadership changes; the returned function ends that.
        Of a store that is read later, what changed since the last read is not told: read once more after this."""

    def when_room(self, size_bytes: int, deadline_ms: int, go: Callable[[bool], None]) -> None:
        """Call `go(True)` when a batch of `size_bytes` may be produced, usually at once; in the order of the calls.
        `go(False)`: the WAL has no room now, or had none before the deadline."""

    def produce(
        self,
        batch: bytes,
        *,
        configs: Mapping[str, str],
        deadline_ms: int,
        done: Callable[[ProduceResult], None],
        behind: int | None = None,
        verification: int | None = None,
    ) -> bool:
        """Offsets partitions refuse (17 is the API's check). 7 when not committed by the deadline. `behind` and
        `verification` as in `topics.machine.TopicMachine.offer`. True: the batch is in the leader's log, whatever
        becomes of it."""

    def verify(self, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | Refused | None:
        """See `topics.machine.TopicMachine.verify`."""

    def producers(self) -> tuple[ActiveProducer, ...]:
        """The producers that are known here, as applied; on any replica."""

    def list_offset(self, timestamp_ms: int, *, committed: bool = False, done: Callable[[OffsetResult], None]) -> None:
        """-1 latest (after a ReadIndex round), -2/-4 earliest, -3 maximum timestamp, >= 0 by time (in a worker).
        `committed`: the last stable offset counts as the end (isolation level 1)."""

    def epoch_end(self, epoch: int) -> EpochEnd:
        """To be answered only after `confirm`: a newer leader's log may go on where this one ends."""

    def delete_records(self, offset: int, *, deadline_ms: int, done: Callable[[OffsetResult], None]) -> None:
        """Propose MoveLogStart to `offset` (-1: the high watermark); `done` gets the log start then in force. 1 beyond
        the high watermark, 6 when not leader, 7 when not committed by the deadline (protocol notes 14)."""

    def write_marker(self, marker: TransactionMarker, *, deadline_ms: int, done: Callable[[Code], None]) -> None:
        """End a producer's transaction in this partition (WriteTxnMarkers). NONE: the marker is durable on a quorum and
        applied here, or was already. It may be sent again as often as it takes.

        47: the marker is older than what the producer has written here since. 52: a later coordinator has written one.
        Both are final. 6: this replica does not lead. 19: certainly not written. 7 and 20: it may be written, or
        not."""

    def open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has, with this epoch, an open transaction in this leader's log, batches and markers in
        flight included."""


class Surface(Protocol):
    """The part of a replica that `api`, `admin` and `app` use."""

    loop: Loop
    rand: Rand
    broker: BrokerId

    def image(self) -> ClusterImage | None:
        """The cluster image; None until the cluster is formed and entries of the controller log are applied here."""

    def when_image_current(self, call: Callable[[bool], None]) -> None:
        """Call `call(True)` once the image here has every change that was answered before this call; `call(False)` if
        that cannot be shown within `limits.CURRENT_IMAGE_WAIT_MS`, or twice that if a request for the read index is
        under way. For commits, whose clients may know a topic before this replica does."""

    def when_topics_current(self, call: Callable[[bool], None]) -> None:
        """The same for all other requests, with a queue of its own, so that commits do not wait behind clients that
        poll for topics which do not exist."""

    def leadership(self, group: GroupNo) -> Leadership: ...
    def elect_preferred(self, group: GroupNo) -> None:
        """Ask the group's leader to hand over to its preferred replica, when that is fit. Nothing is answered, and the
        message may be lost: `leadership` shows what became of it. Only from `MEMBERS_LEVEL` on."""

    def group_status(self, group: GroupNo) -> GroupStatus | None:
        """A Raft group as seen from here; None without a voter of it here."""

    def lack_of_room(self, group: GroupNo, broker: BrokerId) -> str:
        """Why a copy of the group to that broker would get no room; "": nothing that is known here says so. Who leads
        the controller's group knows of every broker; others know that a disk is low where they lead that broker."""

    def free_bytes(self) -> int:
        """Free bytes on the data folder's disk, as last measured; -1: unknown."""

    def alive(self, broker: BrokerId) -> bool:
        """Self, or a peer whose link is up."""

    def alive_lately(self, broker: BrokerId) -> bool:
        """Alive, or its link broke, or this replica started, less than `limits.BROKER_LISTED_MS` ago: clients are told
        its address if it is registered."""

    def when_leader_known(self, group: GroupNo, wait_ms: int, call: Callable[[], None]) -> None:
        """Call once a leader of `group` is known or `wait_ms` passed (decision 18)."""

    def group_request(
        self,
        partition: int,
        request: GroupRequest,
        context: RequestContext,
        done: Callable[[GroupAnswer], None],
    ) -> None:
        """Always answered: with 16 if this replica does not lead, with 15 after parking for too long (decision 5)."""

    def transactional_commit(
        self,
        partition: int,
        request: TxnOffsetCommit,
        context: RequestContext,
        verify: Callable[[Callable[[Code], None]], None],
        done: Callable[[GroupAnswer], None],
    ) -> None:
        """As `group_request`. `verify(agreed)` asks the coordinator of the transaction whether this offsets partition
        is in it, with a code of AddPartitionsToTxn for `agreed`; it is called only before the first write of a
        transaction. What that coordinator lacks for the moment is answered 14."""

    def heartbeat_at_once(self, partition: int, request: Heartbeat, times: int) -> Code | None:
        """The answer that `group_request` would give at once to this heartbeat, which was received `times` times in a
        row. None: nothing was done, use `group_request` (docs/adr/0012)."""

    def local_log(self, group: GroupNo) -> LocalLog | None:
        """None: no replica of that group here."""

    def offsets_led(self) -> tuple[int, ...]:
        """Offsets partitions led and ready here, for ListGroups."""

    def transaction_request(self, group: GroupNo, request: TransactionRequest, done: Callable[[Answer], None]) -> None:
        """Ask the transaction coordinator that leads this Raft group; answered with 16 if it is not here."""

    def transactions_led(self) -> tuple[GroupNo, ...]:
        """Partitions of the transaction log that are led and ready here."""

    def transactions(self, group: GroupNo) -> Iterator[tuple[str, Transaction]]:
        """All ids of one of them, lazily; the iterator ends when leadership is lost."""

    def submit(self, command: Command, *, deadline_ms: int, done: Callable[[CommandResult], None]) -> None:
        """Have the controller's leader, on any replica, propose a command. 41 if there is no leader, 7 if the command's
        fate is unknown at the deadline."""

    def producer_id(self, done: Callable[[int], None]) -> None:
        """A new producer id from this broker's block; -1 if none is available now (answer 14)."""


def partition_of(group_id: str, offsets_partitions: int) -> int:
    """Kafka's partition of a group: Java's String.hashCode over UTF-16 units, abs (min int gives 0), modulo N.

    This is the only place with the hash (decision 13). The image's `Routing` may place a group elsewhere, and goes
    first.
    """
    units = group_id.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    if value >= 0x80000000:
        value = 0x100000000 - value
    return 0 if value == 0x80000000 else value % offsets_partitions
