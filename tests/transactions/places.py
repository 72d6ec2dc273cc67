"""What a transaction writes to, as the product's own cores: a topic's partition, and a partition of the offsets topic.

Each place is a log with a leader that dies, with all or some of what is in flight. Beside the core stands the reader,
who knows Kafka's rules and the log's batches only: a record is decided by the next marker of its producer.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.groups.effects import AppliedBatch
from muster_coordinator.records.batch import encode_batch, iter_records, parse_header
from muster_coordinator.records.control import TransactionMarker, decode_control
from muster_coordinator.records.keys import OffsetCommitKey, decode_key
from muster_coordinator.records.offsets_log import decode_offset_value
from muster_coordinator.topics.machine import Accepted, Refused, Written
from muster_coordinator.topics.partition import TopicPartition

from tests.groups.host import Host, code_of, fetch
from tests.groups.offsets.test_txn_commits import end, txn
from tests.topics.batch_bytes import T0, stamped
from tests.topics.leader import NOW

Done = Callable[[], None]
Epoch = tuple[int, int]
"""(producer id, epoch)"""


class Row(NamedTuple):
    """One record of a transaction."""

    offset: int
    transaction: str


class Decisions:
    """Reads a log from its first batch on, and knows what each marker decided."""

    def __init__(self) -> None:
        self.fates: dict[str, set[bool]] = {}
        self.open: dict[int, list[Row]] = {}
        """By producer id."""
        self.committed: dict[int, str] = {}
        self.decided: dict[int, bool] = {}

    def record(self, producer_id: int, row: Row) -> None:
        self.open.setdefault(producer_id, []).append(row)

    def marker(self, producer_id: int, *, commit: bool) -> list[Row]:
        """The records that it decides."""
        rows = self.open.pop(producer_id, [])
        for row in rows:
            self.fates.setdefault(row.transaction, set()).add(commit)
            self.decided[row.offset] = commit
            if commit:
                self.committed[row.offset] = row.transaction
        return rows


class DataPlace:
    """A topic's partition, and a reader of committed records who never goes back."""

    def __init__(self) -> None:
        self.core = TopicPartition()
        self.decisions = Decisions()
        self.log: list[AppliedBatch] = []
        self.read: list[Row] = []
        self._flying: deque[tuple[Accepted, Done | None]] = deque()
        self._rows: list[Row] = []
        self._stable = 0
        self._term = 1
        self._sequences: dict[Epoch, int] = {}

    @property
    def busy(self) -> bool:
        return bool(self._flying)

    def verification(self, producer: Epoch) -> int | None:
        """Taken before the coordinator is asked; None: this producer's transaction is open here."""
        number = self.core.verify(NOW, *producer, self._sequences.get(producer, 0), implicit=False)
        assert not isinstance(number, Refused)
        return number

    def write(self, producer: Epoch, transaction: str, number: int | None) -> bool:
        """Is it accepted?"""
        sequence = self._sequences.get(producer, 0)
        batch = encode_batch(
            [(None, transaction.encode())],
            timestamp_ms=T0,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        result = self.core.offer(NOW, batch, configs={}, verification=number)
        if not isinstance(result, Accepted):
            return False
        self._sequences[producer] = sequence + 1
        self._flying.append((result, None))
        return True

    def mark(self, marker: TransactionMarker, done: Done) -> None:
        """`done` once the marker is in the log, or will never be needed (`marker_delivery`)."""
        result = self.core.offer_marker(NOW, marker, configs={})
        if isinstance(result, Accepted):
            self._flying.append((result, done))
        elif isinstance(result, Refused):
            if result.code is Code.INVALID_PRODUCER_EPOCH:
                done()
        elif isinstance(result, Written) and result.token < 0:
            done()

    def commit(self) -> None:
        accepted, done = self._flying.popleft()
        self._apply(accepted)
        self.core.applied(accepted.token)
        if done is not None:
            done()

    def _apply(self, accepted: Accepted) -> None:
        base = self.core.next_offset()
        entry = AppliedBatch(self._term, base, stamped(accepted.batch, base, self._term))
        self.log.append(entry)
        self.core.apply_batch(entry)
        header = parse_header(entry.batch)
        record = next(iter_records(entry.batch))
        if not header.is_control:
            assert record.value is not None
            row = Row(base, record.value.decode())
            self._rows.append(row)
            self.decisions.record(header.producer_id, row)
        elif (marker := decode_control(record)) is not None:
            self.decisions.marker(header.producer_id, commit=marker.commit)

    def die(self, lost: int) -> None:
        """The next leader has all but the last `lost` of what was in flight."""
        for _ in range(max(0, len(self._flying) - lost)):
            self._apply(self._flying.popleft()[0])
        gone = [parse_header(accepted.batch) for accepted, _ in self._flying]
        for header in gone:
            self._sequences.pop((header.producer_id, header.producer_epoch), None)
        self._flying.clear()
        self._term += 1
        self.core = TopicPartition()
        for entry in self.log:
            self.core.apply_batch(entry)
        for header in map(parse_header, [entry.batch for entry in self.log]):
            if not header.is_control:
                self._sequences[header.producer_id, header.producer_epoch] = header.base_sequence + 1

    def look(self) -> None:
        """Read on as far as it is stable."""
        stable = self.core.last_stable_offset()
        assert stable >= self._stable, f"the last stable offset went back from {self._stable} to {stable}"
        for row in self._rows:
            if self._stable <= row.offset < stable:
                assert row.offset in self.decisions.decided, f"{row} is open, and stable is {stable}"
                if self.decisions.decided[row.offset]:
                    self.read.append(row)
        self._stable = stable

    def finish(self) -> None:
        self.look()
        assert self._stable == self.core.next_offset(), "a transaction is open for ever"
        committed = [row for row in self._rows if row.offset in self.decisions.committed]
        assert self.read == committed, "the reader saw something else than what is committed, in its order"


class OffsetsPlace:
    """A partition of the offsets topic with one group."""

    def __init__(self) -> None:
        self.host = Host(followers=2)
        self.host.hold = True
        self.decisions = Decisions()
        self._marks: list[tuple[int, Done]] = []
        self._seen = 0
        self._values: dict[int, int] = {}
        """Offset of a record -> what it commits"""
        self._transactions: list[str] = []
        self._visible = (-1, -1)
        """(offset of the record, committed value)"""

    @property
    def busy(self) -> bool:
        return bool(self.host.in_flight)

    def verification(self, producer: Epoch) -> int | None:
        return self.host.leader.begin_verification(*producer)

    def write(self, producer: Epoch, transaction: str, number: int | None) -> bool:
        self._transactions.append(transaction)
        before = len(self.host.in_flight)
        value = len(self._transactions) - 1
        txn(self.host, value, producer=producer[0], epoch=producer[1], verification=number or 0)
        return len(self.host.in_flight) > before

    def mark(self, marker: TransactionMarker, done: Done) -> None:
        ticket = end(
            self.host,
            producer=marker.producer_id,
            epoch=marker.producer_epoch,
            commit=marker.end.commit,
            coordinator=marker.end.coordinator_epoch,
            version=marker.transaction_version,
        )
        self._marks.append((ticket, done))
        self._answer()

    def _answer(self) -> None:
        left, self._marks = self._marks, []
        for ticket, done in left:
            answer = self.host.answers.get(ticket)
            if answer is None:
                self._marks.append((ticket, done))
            elif code_of(answer) in (Code.NONE, Code.INVALID_PRODUCER_EPOCH):
                done()

    def commit(self) -> None:
        self.host.commit()
        self._walk()
        self._answer()

    def die(self, lost: int) -> None:
        self._marks.clear()
        self.host.crash(max(0, len(self.host.in_flight) - lost))
        self._walk()

    def _walk(self) -> None:
        for entry in self.host.log[self._seen :]:
            header = parse_header(entry.batch)
            for record in iter_records(entry.batch):
                if header.is_control:
                    marker = decode_control(record)
                    assert marker is not None
                    for row in self.decisions.marker(header.producer_id, commit=marker.commit):
                        if marker.commit and row.offset > self._visible[0]:
                            self._visible = (row.offset, self._values[row.offset])
                elif record.key is not None and isinstance(decode_key(record.key), OffsetCommitKey):
                    assert record.value is not None
                    value = decode_offset_value(record.value).offset
                    self._values[record.offset] = value
                    self.decisions.record(header.producer_id, Row(record.offset, self._transactions[value]))
        self._seen = len(self.host.log)

    def look(self) -> None:
        """Pending offsets are visible from their marker on, and never before."""
        assert fetch(self.host).offset == self._visible[1]
        stable = fetch(self.host, stable=True)
        pending = any(self.decisions.open.values())
        assert (stable.offset, stable.error) == (
            (-1, Code.UNSTABLE_OFFSET_COMMIT) if pending else (self._visible[1], 0)
        )

    def finish(self) -> None:
        self.look()
        assert not any(self.decisions.open.values()), "an offset is pending for ever"
        self.host.check_replicas()
