"""A real Kafka cleans a log, and we clean a copy of it: what stays is the same, batch by batch and record by record."""

import struct
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from muster_coordinator.records.batch import DELETE_HORIZON, BatchHeader, iter_records, parse_header
from muster_coordinator.records.control import decode_control
from muster_coordinator.records.inflate import record_block
from muster_coordinator.storage.aborted import OpenTransactions
from muster_coordinator.topics.cleaning.batches import LastOfProducer
from muster_coordinator.topics.cleaning.rounds import Round
from muster_coordinator.topics.cleaning.transactions import AbortedTransaction

from tests.cluster import wait_until
from tests.kafka_broker import KafkaBroker
from tests.records.made import split_batches

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.timeout(300)]
AHEAD_MS = 1_800_000
"""Of the clock: a segment that begins with a marker, whose time is the broker's, is rolled by the next record. Were the
records behind the clock, none of them would be late enough to roll it. More than any run of this test takes, and less
than the hour that message.timestamp.after.max.ms allows."""
STEP_MS = 100
SEGMENT_MS = 1_000
RETENTION_MS = 1_000_000_000


def produce(broker: KafkaBroker) -> None:
    """Five producers by turns: plain, idempotent with each codec, transactional with aborts."""
    common = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
    plain = [Producer({**common, "acks": "all"})]
    plain += [
        Producer({**common, "enable.idempotence": True, "compression.type": codec})
        for codec in ("gzip", "snappy", "lz4", "zstd")
    ]
    transactional = Producer({**common, "transactional.id": "copier"})
    transactional.init_transactions()
    start_ms = int(time.time() * 1_000) + AHEAD_MS
    for n in range(60):
        at_ms = start_ms + n * STEP_MS
        if n % 6 == 5:
            transactional.begin_transaction()
            for key in (n % 4, n % 7):
                transactional.produce("t", key=f"k{key}", value=f"t{n}" * 9, timestamp=at_ms)
            if n % 4 == 1:
                transactional.flush()
                transactional.abort_transaction()
            else:
                transactional.commit_transaction()
            continue
        producer = plain[n % 5]
        for step in range(1 + n % 4):
            value = None if (n + step) % 9 == 0 else f"value {n} " * 20
            producer.produce("t", key=f"k{(n * step + n) % 11}", value=value, timestamp=at_ms)
        producer.flush()


def batches_of(folder: Path) -> list[bytes]:
    return [batch for path in sorted(folder.glob("*.log")) for batch in split_batches(path.read_bytes())]


def cleaned_to(data: Path, topic: str) -> int:
    """The first dirty offset, as Kafka's cleaner has written it down."""
    path = data / "cleaner-offset-checkpoint"
    rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return next((int(offset) for name, _, offset in rows if name == topic), 0)


def history(batches: list[bytes]) -> tuple[list[AbortedTransaction], dict[int, LastOfProducer]]:
    """Aborted transactions and what each producer wrote last, by reading the log."""
    first: dict[int, int] = {}
    aborted, producers = [], {}
    for batch in batches:
        header = parse_header(batch)
        if header.producer_id < 0:
            continue
        if header.is_control:
            end = decode_control(next(iter_records(batch)))
            begun = first.pop(header.producer_id, None)
            if end is not None and not end.commit and begun is not None:
                aborted.append(AbortedTransaction(begun, header.producer_id, header.base_offset))
            before = producers.get(header.producer_id)
            same = before is not None and before.epoch == header.producer_epoch
            producers[header.producer_id] = LastOfProducer(header.producer_epoch, before.last_offset if same else -1)
        else:
            if header.is_transactional:
                first.setdefault(header.producer_id, header.base_offset)
            producers[header.producer_id] = LastOfProducer(header.producer_epoch, header.next_offset - 1)
    return aborted, producers


def shown(batches: list[bytes], end: int) -> list[tuple]:
    """What a reader can tell of the batches below `end`. One without records and without producer is none: Kafka
    writes it for the end of a round, and we for what is removed."""
    found = []
    for batch in batches:
        header = parse_header(batch)
        if header.base_offset >= end or (header.count == 0 and header.producer_id < 0):
            continue
        fields = header._replace(batch_length=0, crc=0, leader_epoch=0, base_timestamp_ms=0)
        has_horizon = header.attributes & DELETE_HORIZON != 0
        records = [(record.offset, record.key, record.value) for record in iter_records(batch, record_block(batch))]
        times = [] if has_horizon else [record.timestamp_ms for record in iter_records(batch, record_block(batch))]
        found.append((tuple(fields), records, times))
    return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    properties = {
        "log.cleaner.backoff.ms": "200",
        "log.retention.check.interval.ms": "600000",
        "log.initial.task.delay.ms": "100",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), properties) as broker:
        yield broker


def create(broker: KafkaBroker, topic: str, **configs: str) -> None:
    common = {
        "segment.ms": str(SEGMENT_MS),
        "min.cleanable.dirty.ratio": "0.01",
        "message.timestamp.type": "CreateTime",
    }
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={**common, **configs})])[topic].result(30)


def alter(broker: KafkaBroker, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_what_stays_is_what_stays_in_a_real_kafka(broker: KafkaBroker) -> None:
    create(broker, "t", **{"delete.retention.ms": str(RETENTION_MS)})
    produce(broker)
    folder = broker.data / "t-0"
    before = batches_of(folder)
    assert len(list(folder.glob("*.log"))) >= 3
    alter(broker, "t", "cleanup.policy", "compact")
    end = wait_until("Kafka has cleaned it", lambda: cleaned_to(broker.data, "t"), 120, 0.2)
    after = batches_of(folder)
    assert 0 < end <= parse_header(before[-1]).next_offset
    aborted, producers = history(before)
    assert aborted, "an aborted transaction is in what is compared"
    round_ = Round(
        now_ms=int(time.time() * 1_000),
        delete_retention_ms=RETENTION_MS,
        memory_bytes=1 << 20,
        first_dirty=0,
        aborted=aborted,
        producers=producers,
    )
    below = [batch for batch in before if parse_header(batch).base_offset < end]
    for batch in below:
        assert round_.look(batch)
    round_.begin_segments()
    ours = [piece for batch in below for piece in round_.clean(batch)] + round_.end_segments()
    assert shown(ours, end) == shown(after, end)
    assert len(shown(ours, end)) < len(below)


LAG_MS = 10**15
"""Of min.compaction.lag.ms while records are written: nothing is cleaned meanwhile."""


class Transactional:
    """Three producers in transactions of their own at the same time, one of them taken over by a successor, and one
    transaction that is open while the log is cleaned. Each part ends with a plain record that stays, behind which the
    segment ends: what Kafka keeps for the end of a round only, it then does not need."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self.common = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
        self.topic = topic
        self.at_ms = int(time.time() * 1_000) + AHEAD_MS
        self.values = count()
        self.plain = Producer({**self.common, "acks": "all"})
        self.producers = {name: self.begin(name) for name in ("a", "b", "c")}
        self.hanging: Producer | None = None

    def begin(self, name: str) -> Producer:
        producer = Producer({**self.common, "transactional.id": f"{self.topic}-{name}"})
        producer.init_transactions()
        return producer

    def put(self, producer: Producer, key: str, value: str | None = "") -> None:
        text = f"{next(self.values)}" * 5 if value == "" else value
        producer.produce(self.topic, key=key, value=text, timestamp=self.at_ms)
        producer.flush()
        self.at_ms += STEP_MS

    def end_segment(self, key: str) -> None:
        self.put(self.plain, key)
        self.at_ms += 2 * SEGMENT_MS
        self.put(self.plain, "next")

    def part(self, number: int) -> None:
        if self.hanging is not None:
            self.put(self.hanging, "k1")
            self.hanging.abort_transaction()
            self.hanging = None
        open_ones: dict[str, int] = {}
        for n in range(12):
            name = "abc"[(n * 7 + number) % 3]
            if name not in open_ones:
                self.producers[name].begin_transaction()
                open_ones[name] = 0
            self.put(self.producers[name], f"k{(n * 5 + number) % 6}", None if n % 5 == 4 else "")
            open_ones[name] += 1
            if open_ones[name] == 1 + n % 3:
                del open_ones[name]
                if (n + number) % 2:
                    self.producers[name].abort_transaction()
                else:
                    self.producers[name].commit_transaction()
        for name in open_ones:
            if name == "b":  # Its successor fences it, and the coordinator aborts for it.
                self.producers[name] = self.begin(name)
            else:
                self.producers[name].commit_transaction()
        self.end_segment(f"end {number}")
        if number == 1:
            self.hanging = self.producers["c"]
            self.at_ms += 2 * SEGMENT_MS
            self.hanging.begin_transaction()
            self.put(self.hanging, "k0")
            self.end_segment("behind what is open")


def headless(ours: list[tuple], kafkas: list[bytes]) -> list[tuple]:
    """Ours, with the header alone of each marker of which Kafka has the header alone (ADR 75)."""
    bare = [(header, batch) for batch in kafkas if (header := parse_header(batch)).is_control and not header.count]
    wanted = {header.base_offset: shown([batch], header.next_offset)[0] for header, batch in bare}
    fields = BatchHeader._fields
    named = [fields.index(name) for name in ("base_offset", "last_offset_delta", "producer_id", "producer_epoch")]
    return [
        other if (other := wanted.get(one[0][0])) and all(one[0][at] == other[0][at] for at in named) else one
        for one in ours
    ]


def beyond(data: Path, before: int) -> int:
    """Where Kafka's cleaner ended, once that is above `before`."""
    to = cleaned_to(data, "u")
    return to if to > before else 0


def entries(folder: Path) -> set[tuple[int, int]]:
    """(producer, offset of the marker) of all in Kafka's index of aborted transactions."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.txnindex")))
    return {fields[1:4:2] for fields in struct.iter_unpack(">hqqqq", data)}


def test_rounds_over_transactions_leave_what_a_real_kafka_leaves(broker: KafkaBroker) -> None:
    """Four rounds with delete.retention.ms=0: what one round marks, the next one removes: tombstones and markers."""
    create(
        broker, "u", **{"cleanup.policy": "compact", "delete.retention.ms": "0", "min.compaction.lag.ms": str(LAG_MS)}
    )
    folder = broker.data / "u-0"
    writer = Transactional(broker, "u")
    all_of_it: list[bytes] = []
    ours: list[bytes] = []
    clean, markers = 0, []
    for number in range(4):
        writer.part(number)
        begins = parse_header(all_of_it[-1]).next_offset if all_of_it else 0
        fresh = [batch for batch in batches_of(folder) if parse_header(batch).base_offset >= begins]
        all_of_it += fresh
        ours += fresh
        alter(broker, "u", "min.compaction.lag.ms", "0")
        before = clean
        clean = wait_until("Kafka has cleaned it", partial(beyond, broker.data, before), 120, 0.2)
        alter(broker, "u", "min.compaction.lag.ms", str(LAG_MS))
        after = batches_of(folder)
        aborted, producers = history(all_of_it)
        bases = {parse_header(batch).base_offset for batch in ours}
        round_ = Round(
            now_ms=int(time.time() * 1_000),
            delete_retention_ms=0,
            memory_bytes=1 << 20,
            first_dirty=before,
            aborted=[one for one in aborted if one.last_offset in bases],
            producers=producers,
        )
        below = [batch for batch in ours if parse_header(batch).base_offset < clean]
        assert all(round_.look(batch) for batch in below if parse_header(batch).next_offset > before)
        round_.begin_segments()
        left = [piece for batch in below for piece in round_.clean(batch)] + round_.end_segments()
        assert headless(shown(left, clean), after) == shown(after, clean), f"round {number}, from {before} to {clean}"
        ours = left + ours[len(below) :]
        opened = OpenTransactions()
        noted = [opened.note(batch) for batch in ours if parse_header(batch).is_transactional]
        mine = {(one.producer_id, one.last_offset) for one in noted if one is not None}
        assert mine <= entries(folder)
        for producer, last in entries(folder) - mine:
            first = next(one.first_offset for one in aborted if (one.producer_id, one.last_offset) == (producer, last))
            headers = [parse_header(batch) for batch in ours]
            gone = [
                h for h in headers if h.producer_id == producer and first <= h.base_offset < last and h.is_transactional
            ]
            assert not gone, "Kafka tells of it for one more round, though nothing of it can be read"
        markers.append(sum(parse_header(batch).is_control for batch in left))
    written = sum(parse_header(batch).is_control for batch in all_of_it if parse_header(batch).base_offset < clean)
    assert markers[-1] < written, "markers are gone"
    assert writer.hanging is None
