"""The contract between one embedded topic partition (pure) and its host, and the results that `api` gets.

A topic partition is a Raft group whose NORMAL entries are producers' batches as received, and markers that end their
transactions, and whose COMMAND entries move log_start_offset and expire producers (decision 1). Its durable state is
small: the producer table and the log start; settings come from the cluster image. The host stores the batches in
`storage.partition_log.PartitionLog`, which the partition never uses.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from muster_coordinator.errors import Code
from muster_coordinator.groups.effects import AppliedBatch, CheckpointBody, CheckpointImage, Now
from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.topics.cleaning.batches import LastOfProducer


class RecordError(NamedTuple):
    """One bad record of a refused batch (Produce v8+ record_errors)."""

    record: int
    message: str


class Refused(NamedTuple):
    """The batch is not appended (protocol notes 12.2)."""

    code: Code
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()
    log_start_shown: bool = True
    """Whether the answer has the log start (protocol notes 12.2, rows 10, 11, 14-20, 23, 25) or -1 (rows 1-9, 12, 13,
    22)."""


class Duplicate(NamedTuple):
    """One of the producer's last five batches: answer as for the original (row 23), which may still be in flight."""

    base_offset: int
    """-1 while the original is in flight: answer when `token` is applied."""
    timestamp_ms: int
    token: int = -1


class Accepted(NamedTuple):
    """Propose `batch` (changed inside the CRC only where Kafka does) in this same turn; answer when it is applied."""

    batch: bytes
    token: int
    log_append_time_ms: int


class Written(NamedTuple):
    """The marker is in the log already: answer as for the one that was written, which may still be in flight."""

    token: int = -1
    """-1: it is applied."""


class ActiveProducer(NamedTuple):
    """One producer of the partition, as DescribeProducers tells of it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1: no batch of this epoch is known."""
    last_timestamp_ms: int
    coordinator_epoch: int
    """Of its last marker; -1: none."""
    transaction_first_offset: int
    """Of its open transaction; -1: none."""


class ProduceResult(NamedTuple):
    """The answer for one partition of a Produce."""

    code: Code
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()


def refusal(refused: Refused, log_start_offset: int) -> ProduceResult:
    """The answer to a refused batch."""
    return ProduceResult(
        refused.code,
        log_start_offset=log_start_offset if refused.log_start_shown else -1,
        message=refused.message,
        record_errors=refused.record_errors,
    )


class RetentionView(NamedTuple):
    """The fields of one segment that retention uses; the active segment may come last."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int


class TopicMachine(Protocol):
    """Implemented by `topics.partition.TopicPartition`."""

    def offer(
        self,
        now: Now,
        batch: bytes,
        *,
        configs: Mapping[str, str],
        behind: int | None = None,
        verification: int | None = None,
    ) -> Refused | Duplicate | Accepted:
        """Validate against applied and in-flight state. The host passes the token to `applied` or `dropped`.

        A producer that is unknown here may begin with any sequence (KIP-360). `behind`: an earlier batch of the
        producer, with this first sequence, was refused and has to come again. Then this one is out of order if the
        producer is unknown, or if the earlier one, which may be stored, would be known for a duplicate no longer.
        `verification`: what `verify` returned for it, once the transaction's coordinator has said yes.
        """

    def verify(self, now: Now, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | Refused | None:
        """Before a transactional batch is offered. None: the producer's transaction is open here, its coordinator need
        not be asked. Else the number to hand to `offer` if the coordinator says yes."""

    def offer_marker(
        self, now: Now, marker: TransactionMarker, *, configs: Mapping[str, str]
    ) -> Refused | Written | Accepted:
        """A marker of a transaction's coordinator; its token is handed back as that of a batch."""

    def open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has an open transaction here with this epoch, in-flight appends included."""

    def producers(self) -> tuple[ActiveProducer, ...]: ...
    def first_open_offset(self) -> int:
        """First offset of the oldest open transaction; -1 for none."""

    def applied(self, token: int) -> None: ...
    def dropped(self, token: int) -> None: ...
    def apply_batch(self, entry: AppliedBatch) -> None: ...
    def apply_command(self, data: bytes) -> None: ...
    def log_start_offset(self) -> int: ...
    def last_of_producers(self) -> Mapping[int, LastOfProducer]:
        """What each producer of the table wrote last."""
        ...

    def next_offset(self) -> int:
        """Offset of the next applied record: the high watermark that this replica may answer."""

    def last_stable_offset(self) -> int: ...
    def retention(self, now: Now, segments: tuple[RetentionView, ...], *, configs: Mapping[str, str]) -> bytes | None:
        """The COMMAND to propose if whole segments are to be dropped, else None. Called on the leader every
        `log.retention.check.interval.ms`."""

    def delete_records(self, offset: int, *, configs: Mapping[str, str]) -> bytes | Refused | None:
        """The COMMAND to propose for DeleteRecords; None when the log already begins there or later."""

    def expire_producers(self, now: Now) -> bytes | None: ...
    def resign(self) -> None:
        """Leadership is lost: drop the in-flight appends."""

    def image(self) -> CheckpointImage: ...
    def restore(self, body: CheckpointBody) -> None: ...
    def state_hash(self) -> str: ...
