"""Transactions of unmodified clients: what was committed is read, what was aborted is not, and offsets go with them.

Readers are of three libraries too, since each of them filters aborted records by itself.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests import kafka_tools
from tests.clients.server import Server
from tests.clients.transactional import Failed, open_producer
from tests.cluster import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

PARTITIONS = 3
READ_S_MAX = 45
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


def by_librdkafka(server: Server, topic: str, isolation: str) -> list[str]:
    """All values below what this level may read, in the order of each partition."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    level = IsolationLevel.READ_COMMITTED if isolation == COMMITTED else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(PARTITIONS)}
    found = admin.list_offsets(asked, isolation_level=level)
    ends = {one.partition: future.result(READ_S_MAX).offset for one, future in found.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": server.unique("reader"),
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    values: list[str] = []
    left = {p for p, end in ends.items() if end > 0}
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in left])
        deadline = time.monotonic() + READ_S_MAX
        while left:
            assert time.monotonic() < deadline, f"{left} of {ends} not read"
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                values.append(message.value().decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
    finally:
        consumer.close()
    return sorted(values)


def by_aiokafka(server: Server, topic: str, isolation: str) -> list[str]:
    async def read() -> list[str]:
        consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap, isolation_level=isolation)
        await consumer.start()
        try:
            partitions = [AioPartition(topic, p) for p in range(PARTITIONS)]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            for partition in partitions:
                consumer.seek(partition, 0)
            values = []
            deadline = time.monotonic() + READ_S_MAX
            while any([await consumer.position(p) < ends[p] for p in partitions]):
                assert time.monotonic() < deadline, "not read to the end"
                batches = await consumer.getmany(timeout_ms=300)
                values += [record.value.decode() for batch in batches.values() for record in batch]
            return sorted(values)
        finally:
            await consumer.stop()

    return asyncio.run(read())


def by_java(server: Server, topic: str, isolation: str) -> list[str]:
    """Until nothing came for ten seconds. On a busy machine its group may take longer to begin: nothing at all is asked
    for again, with more patience."""
    for quiet_ms in ("10000", "40000"):
        said = kafka_tools.run(
            kafka_tools.CONSUMER,
            *("--bootstrap-server", server.bootstrap, "--topic", topic, "--from-beginning"),
            *("--isolation-level", isolation, "--timeout-ms", quiet_ms),
            fails=True,
        )
        found = sorted(line for line in said.splitlines() if line.startswith("v-"))
        if found:
            break
    return found


READERS = {"librdkafka": by_librdkafka, "aiokafka": by_aiokafka, "java": by_java}
TRANSACTIONS = (("committed", True), ("aborted", False), ("committed-again", True), ("aborted-again", False))


def values(word: str) -> list[str]:
    return [f"v-{word}-{n}" for n in range(2 * PARTITIONS)]


def test_what_was_committed_is_read_and_what_was_aborted_is_not(server: Server, client: str) -> None:
    topic = server.create(server.unique("tx"), PARTITIONS)
    with open_producer(client, server.bootstrap, server.unique(client)) as producer:
        for word, commits in TRANSACTIONS:
            producer.begin()
            for n, value in enumerate(values(word)):
                producer.send(topic, n % PARTITIONS, value)
            producer.commit() if commits else producer.abort()
        producer.begin()
        producer.send(topic, 0, "v-open-0")
        wanted = {
            COMMITTED: sorted(v for word, commits in TRANSACTIONS if commits for v in values(word)),
            UNCOMMITTED: sorted(["v-open-0", *(v for word, _ in TRANSACTIONS for v in values(word))]),
        }
        readers = ("librdkafka", "aiokafka") if client != "java" else tuple(READERS)
        for name in readers:
            for isolation, expected in wanted.items():
                assert READERS[name](server, topic, isolation) == expected, (name, isolation)
        producer.abort()
    assert by_librdkafka(server, topic, COMMITTED) == wanted[COMMITTED]


def stable_offset(server: Server, group: str, topic: str) -> int | None:
    """As a fetch with `require_stable` says; None while it may not tell."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
    future = admin.list_consumer_group_offsets(asked, require_stable=True, request_timeout=5)[group]
    try:
        (row,) = future.result(READ_S_MAX).topic_partitions
    except KafkaException:  # a time-out is how librdkafka says that it was asked to come again
        return None
    return None if row.error is not None else row.offset


def test_offsets_of_a_transaction_are_committed_and_aborted_with_it(server: Server, client: str) -> None:
    topic, group = server.create(server.unique("tx"), PARTITIONS), server.unique("group")
    with open_producer(client, server.bootstrap, server.unique(client)) as producer:
        producer.begin()
        producer.send(topic, 0, "v-1")
        producer.offset(group, topic, 0, 41)
        producer.commit()
        wait_until("the offset is committed", lambda: stable_offset(server, group, topic) == 41, READ_S_MAX)
        producer.begin()
        producer.send(topic, 0, "v-2")
        producer.offset(group, topic, 0, 77)
        assert stable_offset(server, group, topic) is None
        producer.abort()
        wait_until("the offset of before is there", lambda: stable_offset(server, group, topic) == 41, READ_S_MAX)


def test_who_comes_with_the_same_name_fences_the_one_before_and_ends_its_transaction(
    server: Server, client: str
) -> None:
    topic, name = server.create(server.unique("tx"), PARTITIONS), server.unique(client)
    with open_producer(client, server.bootstrap, name) as before:
        before.begin()
        before.send(topic, 1, "v-zombie")
        with open_producer(client, server.bootstrap, name) as after:
            after.begin()
            after.send(topic, 1, "v-heir")
            after.commit()
            with pytest.raises(Failed):
                before.commit()
            with contextlib.suppress(Failed):
                before.send(topic, 1, "v-zombie-again")
    assert by_librdkafka(server, topic, COMMITTED) == ["v-heir"]


def test_a_transaction_that_nobody_ends_is_aborted_at_its_timeout(server: Server) -> None:
    topic = server.create(server.unique("tx"), PARTITIONS)
    with open_producer("librdkafka", server.bootstrap, server.unique("late"), timeout_ms=5_000) as late:
        late.begin()
        late.send(topic, 2, "v-late")
        with open_producer("librdkafka", server.bootstrap, server.unique("quick")) as quick:
            quick.begin()
            quick.send(topic, 2, "v-quick")
            quick.commit()
        wait_until(
            "the open transaction holds nobody up any more",
            lambda: by_librdkafka(server, topic, COMMITTED) == ["v-quick"],
            READ_S_MAX,
        )
        with pytest.raises(Failed):
            late.commit()


@pytest.mark.java
def test_kafkas_tool_lists_and_describes_them(server: Server) -> None:
    topic, name = server.create(server.unique("tx"), PARTITIONS), server.unique("told")
    tool: Callable[..., str] = lambda *words: kafka_tools.run(  # noqa: E731
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", server.bootstrap, *words
    )
    with open_producer("librdkafka", server.bootstrap, name) as producer:
        producer.begin()
        producer.send(topic, 0, "v-1")
        (listed,) = [line.split() for line in tool("list").splitlines() if line.startswith(name)]
        assert listed[-1] == "Ongoing", json.dumps(listed)
        described = tool("describe", "--transactional-id", name)
        assert f"{topic}-0" in described
        assert "Ongoing" in described
        producers = tool("describe-producers", "--topic", topic, "--partition", "0")
        assert len(producers.strip().splitlines()) == 2, producers
        producer.commit()
        wait_until("it is told as ended", lambda: "CompleteCommit" in tool("list"), READ_S_MAX, 1)
