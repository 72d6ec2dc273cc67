"""A real Kafka cleans a log, and we clean a copy of it: what stays is the same, batch by batch and record by record."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from muster_coordinator.records.batch import DELETE_HORIZON, iter_records, parse_header
from muster_coordinator.records.control import decode_control
from muster_coordinator.records.inflate import record_block
from muster_coordinator.topics.cleaning.batches import LastOfProducer
from muster_coordinator.topics.cleaning.rounds import Round
from muster_coordinator.topics.cleaning.transactions import AbortedTransaction

from tests.cluster import wait_until
from tests.kafka_broker import KafkaBroker
from tests.records.made import split_batches

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.timeout(300)]
AHEAD_MS = 60_000
"""Of the clock: a segment that begins with a marker, whose time is the broker's, is rolled by the next record. Were the
records behind the clock, none of them would be late enough to roll it."""
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


def cleaned_to(data: Path) -> int:
    """The first dirty offset, as Kafka's cleaner has written it down."""
    path = data / "cleaner-offset-checkpoint"
    rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return next((int(offset) for topic, _, offset in rows if topic == "t"), 0)


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
                aborted.append(AbortedTransaction(begun, header.producer_id))
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


def test_what_stays_is_what_stays_in_a_real_kafka(tmp_path: Path) -> None:
    properties = {
        "log.cleaner.backoff.ms": "200",
        "log.retention.check.interval.ms": "600000",
        "log.initial.task.delay.ms": "100",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with KafkaBroker(tmp_path, properties) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        configs = {
            "segment.ms": str(SEGMENT_MS),
            "delete.retention.ms": str(RETENTION_MS),
            "min.cleanable.dirty.ratio": "0.01",
            "message.timestamp.type": "CreateTime",
        }
        admin.create_topics([NewTopic("t", 1, 1, config=configs)])["t"].result(30)
        produce(broker)
        folder = broker.data / "t-0"
        before = batches_of(folder)
        assert len(list(folder.glob("*.log"))) >= 3
        compact = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[compact])
        admin.incremental_alter_configs([resource])[resource].result(30)
        end = wait_until("Kafka has cleaned it", lambda: cleaned_to(broker.data), 120, 0.2)
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
