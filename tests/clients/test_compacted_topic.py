"""Consumers of committed records read a topic that was cleaned, over transactions too, from its beginning and from the
middle of what is gone: each gets what stays, and gets on over batches without records."""

import asyncio
import time
from collections.abc import Callable

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests import kafka_tools
from tests.clients.server import Server
from tests.cluster import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(240)]
AHEAD_MS = 600_000
"""Records are ahead of the clock: a segment that begins with a marker, whose time is the server's, is then ended by a
record."""
LAG_MS = 10**15
"""Of min.compaction.lag.ms while records are written. One round then cleans nearly all there is: were a part cleaned
before the end, the rest would be cleaned some time later, while readers are compared."""
KEYS = 5
ROUNDS = 60
READ_S = 60
CLEANED_S = 120
"""The cleaner looks every 15 s; the machine may be busy."""
CLEANED_AGAIN_MAX = 4
"""A segment that was not durable when the cleaner came first is cleaned when it comes again: then readers are compared
again."""
Read = list[tuple[int, bytes, bytes | None]]
"""(offset, key, value)"""


def by_librdkafka(server: Server, topic: str, offset: int, last: int) -> Read:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: Read = []
    deadline = time.monotonic() + READ_S
    while (not found or found[-1][0] < last) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def by_kafka_python(server: Server, topic: str, offset: int, last: int) -> Read:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=server.bootstrap, enable_auto_commit=False, isolation_level="read_committed"
    )
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    found: Read = []
    deadline = time.monotonic() + READ_S
    while (not found or found[-1][0] < last) and time.monotonic() < deadline:
        for records in consumer.poll(1_000).values():
            found += [(record.offset, record.key, record.value) for record in records]
    consumer.close()
    return found


def by_aiokafka(server: Server, topic: str, offset: int, last: int) -> Read:
    async def read() -> Read:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=server.bootstrap, enable_auto_commit=False, isolation_level="read_committed"
        )
        await consumer.start()
        found: Read = []
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, offset)
            while not found or found[-1][0] < last:
                record = await asyncio.wait_for(consumer.getone(), READ_S)
                found.append((record.offset, record.key, record.value))
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


def by_java(server: Server, topic: str, offset: int, last: int) -> Read:
    wanted = len(by_librdkafka(server, topic, offset, last))
    shown = kafka_tools.run(
        kafka_tools.CONSUMER,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--partition", "0", "--offset", str(offset)),
        *("--max-messages", str(wanted), "--timeout-ms", "30000", "--isolation-level", "read_committed"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true"),
    )
    found: Read = []
    for line in shown.splitlines():
        if line.startswith("Offset:"):
            place, key, value = line.split("\t")
            found.append((int(place.removeprefix("Offset:")), key.encode(), value.encode()))
    return found


def cleaned_topic(server: Server) -> tuple[str, Read, int]:
    """A topic, what was written to it, and its last offset; the leader has cleaned it."""
    topic = server.unique("table")
    configs = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    server.create(topic, 1, **configs, **{"min.compaction.lag.ms": str(LAG_MS)})
    plain = Producer({"bootstrap.servers": server.bootstrap})
    transactional = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": topic})
    transactional.init_transactions(60)
    written: Read = []
    start_ms = int(time.time() * 1_000) + AHEAD_MS
    for n in range(ROUNDS):
        taken: Read = []

        def told(error: KafkaError | None, message: Message, taken: Read = taken) -> None:
            assert error is None, error
            taken.append((message.offset(), message.key(), message.value()))

        within = n % 6 == 2
        producer = transactional if within else plain
        if within:
            transactional.begin_transaction()
        for key in range(KEYS):
            if (n + key) % 7 == 3:
                continue
            value = b"value %d of %d" % (n, key)
            at_ms = start_ms + n * 250
            producer.produce(topic, value, b"key-%d" % key, 0, on_delivery=told, timestamp=at_ms)
        assert producer.flush(30) == 0
        if within and n % 12 == 2:
            transactional.abort_transaction(60)
            continue
        if within:
            transactional.commit_transaction(60)
        written += taken
    written.sort()
    last = written[-1][0]

    entry = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)

    def cleaned() -> bool:
        return len(by_librdkafka(server, topic, 0, last)) < len(written) // 2

    wait_until("the leader has cleaned the topic", cleaned, CLEANED_S, 1)
    return topic, written, last


@pytest.fixture(scope="module")
def table(server: Server) -> tuple[str, Read, int]:
    return cleaned_topic(server)


@pytest.mark.parametrize(
    "read", [by_librdkafka, by_kafka_python, by_aiokafka, pytest.param(by_java, marks=pytest.mark.java)]
)
def test_every_client_gets_what_stays_and_gets_on(
    server: Server, table: tuple[str, Read, int], read: Callable[[Server, str, int, int], Read]
) -> None:
    topic, written, last = table
    for _ in range(CLEANED_AGAIN_MAX):
        before = by_librdkafka(server, topic, 0, last)
        found = read(server, topic, 0, last)
        gone = next(offset for offset in range(last // 3, last) if offset not in {offset for offset, _, _ in found})
        rest = read(server, topic, gone, last)
        if by_librdkafka(server, topic, 0, last) == before:
            break
    else:
        raise AssertionError("it was cleaned again each time")
    assert set(found) <= set(written)
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    assert {key: value for _, key, value in found} == {key: value for _, key, value in written}
    assert rest == [one for one in found if one[0] > gone]


def test_the_policy_and_its_lags_are_told(server: Server, table: tuple[str, Read, int]) -> None:
    resource = ConfigResource(ResourceType.TOPIC, table[0])
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    configs = admin.describe_configs([resource])[resource].result(30)
    assert configs["cleanup.policy"].value == "compact"
    assert configs["delete.retention.ms"].value == "86400000"
