"""auto.create.topics.enable=true on real processes: a producer's and a consumer's first word makes the topic."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tests.cluster import MusterCluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    folder: Path = tmp_path_factory.mktemp("auto") / "data"
    settings = {"auto.create.topics.enable": "true", "num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
    with MusterCluster(folder, replicas=3, partitions=4, settings=settings) as it:
        yield it


def partitions(cluster: MusterCluster, name: str) -> int:
    """Through "all topics", which never makes one."""
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics.get(name)
    return len(found.partitions) if found is not None else 0


def test_a_librdkafka_producer_makes_its_topic_and_a_consumer_reads_it(cluster: MusterCluster) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for n in range(20):
        producer.produce("made-by-a-producer", str(n), on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(20) == 0
    assert failed == []
    assert partitions(cluster, "made-by-a-producer") == 3
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["made-by-a-producer"])
    got = consumer.consume(20, timeout=20)
    consumer.close()
    assert sorted(int(message.value()) for message in got) == list(range(20))


def test_an_aiokafka_producer_makes_its_topic(cluster: MusterCluster) -> None:
    async def send() -> int:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap)
        await producer.start()
        try:
            sent = await producer.send_and_wait("made-by-aiokafka", b"x")
            return int(sent.offset)
        finally:
            await producer.stop()

    assert asyncio.run(send()) == 0
    assert partitions(cluster, "made-by-aiokafka") == 3


def test_an_aiokafka_consumer_makes_its_topic_and_is_assigned_it(cluster: MusterCluster) -> None:
    async def assigned() -> int:
        consumer = AIOKafkaConsumer(
            "made-by-a-consumer", bootstrap_servers=cluster.bootstrap, group_id="a", enable_auto_commit=False
        )
        await consumer.start()
        try:
            async with asyncio.timeout(20):
                while len(consumer.assignment()) < 3:
                    await consumer.getmany(timeout_ms=100)
                    await consumer._client.force_metadata_update()
            return len(consumer.assignment())
        finally:
            await consumer.stop()

    assert asyncio.run(assigned()) == 3


def test_a_consumer_that_forbids_it_makes_none(cluster: MusterCluster) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "b", "allow.auto.create.topics": False})
    consumer.subscribe(["forbidden"])
    said = consumer.poll(10)
    consumer.close()
    assert said is not None
    assert said.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert partitions(cluster, "forbidden") == 0
