"""A producer with a transactional id is told at once, and in words, that there are no transactions here."""

import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer

from tests import kafka_tools
from tests.clients.server import Server

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60)]

WORDS = "transactions are not supported"
AT_ONCE_S = 10
"""Far below the minute after which clients give up on what they retry."""


@pytest.fixture(autouse=True)
def without_transactions(server: Server) -> None:
    if not server.is_muster:
        pytest.skip("Kafka has transactions")


def test_librdkafka_gives_up_at_once_and_shows_the_words(server: Server) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": server.unique("tx")})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(AT_ONCE_S)
    assert refused.value.args[0].fatal()
    assert WORDS in refused.value.args[0].str()


def test_kafka_python_gives_up_at_once_and_speaks_of_no_right(server: Server) -> None:
    producer: Any = KafkaProducer(bootstrap_servers=server.bootstrap, transactional_id=server.unique("tx"))
    started = time.monotonic()
    with pytest.raises(Exception, match="UnsupportedVersion"):
        producer.init_transactions()
    assert time.monotonic() - started < AT_ONCE_S
    producer.close(timeout=1)


def test_aiokafka_gives_up_at_once(server: Server) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=server.bootstrap, transactional_id=server.unique("tx"))
        try:
            await asyncio.wait_for(producer.start(), AT_ONCE_S)
            await asyncio.wait_for(producer.begin_transaction(), AT_ONCE_S)
        finally:
            await asyncio.wait_for(producer.stop(), AT_ONCE_S)

    with pytest.raises(Exception, match=r"UnsupportedVersion|tx") as refused:
        asyncio.run(start())
    assert not isinstance(refused.value, TimeoutError)


@pytest.mark.java
def test_java_gives_up_at_once_and_shows_the_words(server: Server) -> None:
    arguments = ["--topic", "any", "--num-records", "1", "--record-size", "10", "--throughput", "-1"]
    said = kafka_tools.run(
        "org.apache.kafka.tools.ProducerPerformance",
        "--bootstrap-server",
        server.bootstrap,
        *arguments,
        "--transactional-id",
        server.unique("tx"),
        fails=True,
    )
    assert WORDS in said
    assert "Authorization" not in said
