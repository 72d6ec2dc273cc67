"""Transactional producers of confluent-kafka (librdkafka) and aiokafka: what is committed is read, nothing else.

Each consumes, transforms and produces, with the offsets inside the transaction, and aborts some: a reader of committed
data gets each input once, and the group's offset is what was output. `MUSTER_TEST_AGAINST=kafka` asks a real Kafka.
"""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests import kafka_tools
from tests.clients.server import Server
from tests.cluster import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

PATIENCE_S = 40
INPUTS = 30


def fill(server: Server, topic: str) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(INPUTS):
        producer.produce(topic, value=str(number).encode(), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def committed_values(server: Server, topic: str, partitions: int, expected: int) -> list[str]:
    """What a reader of committed data gets, until it is as much as is expected and stands at the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": server.unique("reader"),
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[str] = []
    ended: set[int] = set()
    until = time.monotonic() + PATIENCE_S
    while (len(found) < expected or len(ended) < partitions) and time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            value = message.value()
            assert value is not None
            found.append(value.decode())
            ended.discard(message.partition() or 0)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition() or 0)
    consumer.close()
    return found


def test_librdkafka_consumes_transforms_and_produces_each_input_once(server: Server) -> None:
    source = server.create(server.unique("in"), 1)
    target = server.create(server.unique("out"), 3)
    fill(server, source)
    group = server.unique("copier")
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": server.unique("tx")})
    producer.init_transactions(PATIENCE_S)
    consumer.subscribe([source])
    done = batch = 0
    until = time.monotonic() + 2 * PATIENCE_S
    while done < INPUTS and time.monotonic() < until:
        messages = [one for one in consumer.consume(5, 1.0) if one.error() is None]
        if not messages:
            continue
        batch += 1
        producer.begin_transaction()
        for message in messages:
            value = message.value()
            assert value is not None
            producer.produce(target, value=b"seen-" + value, partition=int(value) % 3)
        last = messages[-1]
        offset = last.offset()
        assert offset is not None
        producer.send_offsets_to_transaction(
            [TopicPartition(source, 0, offset + 1)], consumer.consumer_group_metadata(), PATIENCE_S
        )
        if batch % 3 == 2:
            producer.abort_transaction(PATIENCE_S)
            first = messages[0].offset()
            assert first is not None
            consumer.seek(TopicPartition(source, 0, first))
        else:
            producer.commit_transaction(PATIENCE_S)
            done += len(messages)
    assert done == INPUTS
    (stored,) = consumer.committed([TopicPartition(source, 0)], PATIENCE_S)
    consumer.close()
    assert stored.offset == INPUTS
    found = committed_values(server, target, 3, INPUTS)
    assert sorted(found) == sorted(f"seen-{number}" for number in range(INPUTS))


@pytest.mark.java
def test_javas_producer_and_kafkas_own_tools(server: Server) -> None:
    """Java uses transaction version 2 where it is told so; kafka-transactions and kafka-dump-log show what there is."""
    target = server.create(server.unique("out"), 3)
    name = server.unique("tx")
    kafka_tools.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", server.bootstrap, "--topic", target, "--num-records", "300", "--record-size", "10"),
        *("--throughput", "1000", "--transactional-id", name, "--transaction-duration-ms", "40"),
    )
    assert len(committed_values(server, target, 3, 300)) == 300

    def ended() -> str:
        """What it says once the markers are written: the producer was answered before."""
        said = kafka_tools.run(
            "org.apache.kafka.tools.TransactionsCommand",
            *("--bootstrap-server", server.bootstrap, "describe", "--transactional-id", name),
        )
        return said if "CompleteCommit" in said else ""

    said = wait_until("the last transaction is complete", ended, PATIENCE_S, 1)
    listed = kafka_tools.run(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", server.bootstrap, "list"
    )
    assert name in listed
    if not server.is_muster:
        return
    epoch = int(said.splitlines()[-1].split()[3])
    assert epoch > 1, "transaction version 2: each transaction has its own epoch"
    files = ",".join(str(file) for file in server.segments("__transaction_state"))
    dumped = kafka_tools.run(kafka_tools.DUMP_LOG, "--transaction-log-decoder", "--files", files)
    assert name in dumped
    assert '"transactionStatus":4' in dumped, "CompleteCommit"
    assert '"clientTransactionVersion":2' in dumped


def test_librdkafka_is_fenced_by_the_next_incarnation(server: Server) -> None:
    target = server.create(server.unique("out"), 1)
    name = server.unique("tx")
    old = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": name})
    old.init_transactions(PATIENCE_S)
    old.begin_transaction()
    old.produce(target, value=b"lost", partition=0)
    old.flush(PATIENCE_S)
    new = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": name})
    new.init_transactions(PATIENCE_S)
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].fatal()
    new.begin_transaction()
    new.produce(target, value=b"kept", partition=0)
    new.commit_transaction(PATIENCE_S)
    assert committed_values(server, target, 1, 1) == ["kept"]


def test_aiokafka_commits_and_aborts_with_offsets(server: Server) -> None:
    source = server.create(server.unique("in"), 1)
    target = server.create(server.unique("out"), 2)
    fill(server, source)
    group = server.unique("copier")

    async def copy() -> int:
        producer = AIOKafkaProducer(bootstrap_servers=server.bootstrap, transactional_id=server.unique("tx"))
        await producer.start()
        try:
            for number in range(6):
                await producer.begin_transaction()
                for partition in range(2):
                    await producer.send_and_wait(target, f"{number}-{partition}".encode(), partition=partition)
                if number % 2:
                    await producer.abort_transaction()
                    continue
                await producer.send_offsets_to_transaction({AioPartition(source, 0): number + 1}, group)
                await producer.commit_transaction()
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap, group_id=group, enable_auto_commit=False)
        await consumer.start()
        try:
            return int(await consumer.committed(AioPartition(source, 0)) or -1)
        finally:
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(copy(), 2 * PATIENCE_S)) == 5
    found = committed_values(server, target, 2, 6)
    assert sorted(found) == sorted(f"{number}-{partition}" for number in (0, 2, 4) for partition in range(2))
