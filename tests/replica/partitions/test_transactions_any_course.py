"""Any course of transactions in one partition: several producers, markers, zombies, lost leaderships, restarts.

The oracle is the transactions' coordinator: it knows which batch belongs to which transaction, how each was decided,
and whether that decision's marker is in the log. From Kafka's rules alone follows what a reader may see: batches below
the first one whose transaction has no marker yet, of these all that belong to no transaction or to a committed one, in
order. Readers filter as Java's `CompletedFetch` does. Nothing of the product says what is right here.
"""

from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.messages import Entry, EntryKind
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.replica.partitions.topic_logs import TopicLog
from muster_coordinator.storage.contract import NO_RECOVERY_POINT
from muster_coordinator.storage.partition_log import PartitionLog
from muster_coordinator.topics.machine import Accepted, Duplicate, Refused, Written
from muster_coordinator.topics.partition import TopicPartition

from tests.sim.disk import SimDisk
from tests.storage.log_kit import FOLDER, START_MS
from tests.topics.leader import NOW
from tests.topics.read_committed import batches, delivered

ROLL = (900, 10**12)
PLAIN = -1
"""Transaction of a batch outside of any."""


class Batch(NamedTuple):
    """A batch of the log, as the coordinator knows it."""

    base: int
    records: int
    transaction: int


class Sent(NamedTuple):
    """What a proposal is."""

    transaction: int
    marker: bool
    producer: int
    sequence: int
    records: int


class Producer:
    """A client with a transactional id; `version` of its transactions."""

    def __init__(self, number: int, version: int) -> None:
        self.id = 1_000 + number
        self.version = version
        self.epoch = 0
        self.sequence = 0
        self.transaction = PLAIN
        self.deciding: TransactionMarker | None = None
        """Its marker, sent until it is in the log."""
        self.ended: list[tuple[TransactionMarker, bytes]] = []
        """Earlier markers, and the last batch of each transaction: what zombies send."""
        self.last = b""


class Course:
    """One partition through its lives."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk()
        self.wal: list[Entry] = []
        """Committed entries."""
        self.checkpoint: tuple[int, Any, int, int] = (0, TopicPartition().image().encode(), 0, 0)
        self.recovery = NO_RECOVERY_POINT
        self.flying: list[tuple[bytes, int, Sent]] = []
        self.producers = [Producer(number, 1 + number % 2) for number in range(4)]
        self.coordinator_epoch = 1
        self.transactions = 0
        self.log: list[Batch] = []
        self.committed: dict[int, bool] = {}
        self.ended: set[int] = set()
        self.log_start = 0
        self.stable = 0
        self.zombies_refused = 0
        self.open()

    # -- the replica -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        index, body, next_offset, log_start = self.checkpoint
        segments = PartitionLog.open(
            self.disk, FOLDER, self.recovery, log_start, segment_bytes=ROLL[0], segment_ms=ROLL[1]
        )
        self.state = PartitionState(
            segments, FOLDER, ROLL, segments_from=self.recovery.applied, next_offset=next_offset, log_start=log_start,
            dirty=lambda _state: None,
        )  # fmt: skip
        self.machine = TopicPartition()
        self.machine.restore(body)
        topic = SimpleNamespace(machine=self.machine, state=self.state)
        raft = SimpleNamespace(number=GroupNo(7))
        self.view = TopicLog(cast(Any, None), cast(Any, raft), cast(Any, topic), dict, self._damaged)
        for entry in self.wal[index:]:
            self.apply(entry)

    @staticmethod
    def _damaged(_group: GroupNo, error: Exception) -> None:
        raise error

    def apply(self, entry: Entry) -> int:
        if entry.kind == EntryKind.COMMAND:
            self.machine.apply_command(entry.data)
            self.state.move_start(self.machine.log_start_offset())
            return -1
        applied = self.state.append(entry)
        self.machine.apply_batch(applied)
        return applied.base_offset

    def commit_one(self) -> None:
        data, token, sent = self.flying.pop(0)
        entry = Entry(1, len(self.wal) + 1, EntryKind.NORMAL, data)
        self.wal.append(entry)
        base = self.apply(entry)
        self.machine.applied(token)
        if not sent.marker:
            self.log.append(Batch(base, sent.records, sent.transaction))
        elif sent.transaction != PLAIN:
            self.ended.add(sent.transaction)
            self.decided(sent)

    def decided(self, sent: Sent) -> None:
        producer = next(one for one in self.producers if one.id == sent.producer)
        if producer.deciding is None or producer.transaction != sent.transaction:
            return  # the marker had been sent twice
        if producer.deciding.producer_epoch != producer.epoch:
            producer.epoch, producer.sequence = producer.deciding.producer_epoch, 0
        producer.ended.append((producer.deciding, producer.last))
        producer.transaction, producer.deciding, producer.last = PLAIN, None, b""

    def lose_leadership(self) -> None:
        """What is in flight is gone; the clients send it again."""
        for _data, token, _sent in self.flying:
            self.machine.dropped(token)
        self.machine.resign()
        for _data, _token, sent in reversed(self.flying):
            for producer in self.producers:
                if producer.id == sent.producer and not sent.marker:
                    producer.sequence = sent.sequence
        self.flying.clear()

    def flush(self) -> None:
        job = self.state.log.flush_job(len(self.wal))
        job()
        self.state.log.flush_done()
        self.recovery = job.recovery_point

    def take_checkpoint(self) -> None:
        self.flush()
        at = self.machine.next_offset(), self.machine.log_start_offset()
        self.checkpoint = (len(self.wal), self.machine.image().encode(), *at)

    def restart(self) -> None:
        self.lose_leadership()
        before = self.machine.state_hash()
        if self.random.random() < 0.5:
            self.disk.crash(self.random)  # power loss: what was not synced may be gone, or there in part
            self.disk.restart()
        else:
            self.state.log.close()
        for name in self.disk.listdir(FOLDER):
            if not name.endswith(".log") and self.random.random() < 0.4:
                self.disk.unlink(f"{FOLDER}/{name}")
        self.open()
        assert self.machine.state_hash() == before

    # -- clients ---------------------------------------------------------------------------------------------------

    def offer(self, batch: bytes, sent: Sent, verification: int | None = None) -> Refused | Duplicate | Accepted:
        result = self.machine.offer(NOW, batch, configs={}, verification=verification)
        if isinstance(result, Accepted):
            self.flying.append((result.batch, result.token, sent))
        return result

    def produce(self) -> None:
        producer = self.random.choice(self.producers)
        if producer.deciding is not None:
            return
        if producer.transaction == PLAIN:
            self.transactions += 1
            producer.transaction = self.transactions
        records = self.random.randrange(1, 4)
        batch = encode_batch(
            [(b"k", b"v" * 30)] * records, timestamp_ms=START_MS, producer_id=producer.id,
            producer_epoch=producer.epoch, base_sequence=producer.sequence, transactional=True,
        )  # fmt: skip
        number = self.machine.verify(NOW, producer.id, producer.epoch, producer.sequence, implicit=False)
        assert not isinstance(number, Refused)
        sent = Sent(producer.transaction, False, producer.id, producer.sequence, records)
        assert isinstance(self.offer(batch, sent, number), Accepted)
        assert isinstance(self.machine.offer(NOW, batch, configs={}), Duplicate)
        producer.sequence += records
        producer.last = batch

    def produce_plain(self) -> None:
        records = self.random.randrange(1, 3)
        batch = encode_batch([(b"k", b"v" * 30)] * records, timestamp_ms=START_MS)
        assert isinstance(self.offer(batch, Sent(PLAIN, False, -1, 0, records)), Accepted)

    def decide(self) -> None:
        """A transaction ends, or its marker is sent again."""
        producer = self.random.choice(self.producers)
        if producer.transaction == PLAIN:
            return
        if producer.deciding is None:
            if any(not sent.marker and sent.producer == producer.id for _, _, sent in self.flying):
                return  # the client waits for its batches
            commit = self.random.random() < 0.5
            fence = self.random.random() < 0.15
            epoch = producer.epoch + (1 if producer.version == 2 or fence else 0)
            commit = commit and not fence
            self.committed[producer.transaction] = commit
            end = EndMarker(commit, self.coordinator_epoch)
            producer.deciding = TransactionMarker(producer.id, epoch, end, producer.version)
        else:
            end = EndMarker(producer.deciding.end.commit, self.coordinator_epoch)
            producer.deciding = producer.deciding._replace(end=end)
        result = self.machine.offer_marker(NOW, producer.deciding, configs={})
        if isinstance(result, Accepted):
            sent = Sent(producer.transaction, True, producer.id, 0, 1)
            self.flying.append((result.batch, result.token, sent))
        else:
            assert isinstance(result, Written)
            assert result.token in [token for _, token, _ in self.flying], "else it would be decided"

    def zombie_marker(self) -> None:
        """The marker of an earlier transaction comes again: from a coordinator that is none any more, or late."""
        producer = self.random.choice(self.producers)
        if not producer.ended:
            return
        marker, _last = self.random.choice(producer.ended)
        newest = producer.ended[-1][0]
        if marker.transaction_version < 2 and marker.end.coordinator_epoch == newest.end.coordinator_epoch:
            return  # before version 2 nothing but the coordinator's epoch tells a late marker (KIP-890)
        result = self.machine.offer_marker(NOW, marker, configs={})
        if not isinstance(result, Written):
            assert isinstance(result, Refused), "nothing that is over is written again"
            assert result.code in (Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_COORDINATOR_FENCED)
            self.zombies_refused += 1

    def late_batch(self) -> None:
        """A batch of a transaction that is over reaches the leader."""
        producer = self.random.choice(self.producers)
        late = [last for _marker, last in producer.ended if last]
        if late and producer.transaction == PLAIN:
            result = self.machine.offer(NOW, self.random.choice(late), configs={})
            assert isinstance(result, Refused | Duplicate), "it would hang for ever"

    def delete_records(self) -> None:
        start = self.random.randrange(self.log_start, self.machine.next_offset() + 1)
        command = self.machine.delete_records(min(start, self.log_start + 40), configs={})
        if isinstance(command, bytes):
            entry = Entry(1, len(self.wal) + 1, EntryKind.COMMAND, command)
            self.wal.append(entry)
            self.apply(entry)
            self.log_start = self.machine.log_start_offset()

    # -- readers ---------------------------------------------------------------------------------------------------

    def end_of_stable(self) -> int:
        first = [one.base for one in self.log if one.transaction != PLAIN and one.transaction not in self.ended]
        return max(min(first, default=self.machine.next_offset()), self.log_start)

    def visible(self, offset: int, end: int) -> list[int]:
        return [
            one.base
            for one in self.log
            if one.base + one.records > offset
            and one.base < end
            and (one.transaction == PLAIN or self.committed[one.transaction])
        ]

    def check(self, *, whole: bool = False) -> None:
        end = self.end_of_stable()
        assert self.machine.last_stable_offset() == end
        assert end >= self.stable, "the last stable offset went back"
        self.stable = end
        offset = self.log_start if whole else self.random.randrange(self.log_start, self.machine.next_offset() + 1)
        started, seen = offset, []
        while True:
            most = self.random.choice((1, 200, 700, 5_000))
            result = self.view.read(offset, most, whole_first_batch=True, committed=True)
            assert (result.code, result.last_stable_offset) == (Code.NONE, end)
            found = batches(result.records)
            if not found:
                break
            seen += [one.base_offset for one in delivered(result.records, [one[:2] for one in result.aborted])]
            offset = found[-1][0].next_offset
        assert offset >= end
        assert seen == (self.visible(started, end) if started < end else [])

    def step(self) -> None:
        (does,) = self.random.choices(
            (
                self.produce, self.produce_plain, self.decide, self.zombie_marker, self.late_batch, self.commit_one,
                self.lose_leadership, self.flush, self.take_checkpoint, self.restart, self.delete_records,
                self.new_coordinator,
            ),
            (20, 3, 18, 6, 4, 28, 1, 2, 1, 1, 0.5, 1),
        )  # fmt: skip
        if does != self.commit_one or self.flying:
            does()

    def new_coordinator(self) -> None:
        self.coordinator_epoch += 1


@pytest.mark.parametrize("seed", range(12))
def test_no_reader_of_committed_data_sees_an_aborted_record_or_a_hole(seed):
    course = Course(seed)
    for _ in range(700):
        course.step()
        course.check()
    while course.flying:
        course.commit_one()
    course.check(whole=True)
    course.restart()
    course.check(whole=True)
    assert len(course.ended) > 25
    assert set(course.committed.values()) == {True, False}
    assert course.zombies_refused > 3


def test_one_course():
    """The seed on which mutants are judged."""
    test_no_reader_of_committed_data_sees_an_aborted_record_or_a_hole(3)
