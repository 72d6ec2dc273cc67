"""Embedded topics against real processes: refusals of bad batches, idempotence, cheap idling, lookups by time."""

import re
import time

import pytest
from confluent_kafka import Consumer, Producer
from muster_coordinator.records.batch import encode_batch

from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import records_of
from tests.integration.second_client import SecondClient
from tests.integration.test_many_raft_groups import create_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

CORRUPT, TOO_LARGE, OUT_OF_ORDER = 2, 10, 45


def leader_port(cluster: MusterCluster, topic: str) -> int:
    client = SecondClient(cluster.port)

    def find() -> int | None:
        """A leader is known a moment before it serves: 6 or 78 until then."""
        answer = client.ask("Metadata", 9, topics=[{"name": topic}])
        leader = answer.topics[0].partitions[0].leader_id
        port = next((int(b.port) for b in answer.brokers if b.node_id == leader), None)
        return port if port is not None and serves(port, topic) else None

    try:
        return int(wait_until("the topic has a leader", find, 10))
    finally:
        client.close()


def serves(port: int, topic: str) -> bool:
    client = SecondClient(port)
    try:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
        answer = client.ask("ListOffsets", 5, isolation_level=0, topics=[{"name": topic, "partitions": [partition]}])
        return bool(answer.topics[0].partitions[0].error_code == 0)
    finally:
        client.close()


def produce(client: SecondClient, topic: str, batch: bytes) -> tuple[int, int]:
    """(error, base offset)."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = client.ask("Produce", 9, transactional_id=None, acks=-1, timeout_ms=5000, topic_data=data)
    got = answer.responses[0].partition_responses[0]
    return int(got.error_code), int(got.base_offset)


def test_bad_batches_are_refused_with_the_codes_clients_know(cluster: MusterCluster) -> None:
    create_topic(cluster, "refusals")
    client = SecondClient(leader_port(cluster, "refusals"))
    good = bytes(encode_batch([(None, b"good")], timestamp_ms=1_700_000_000_000))
    broken = bytearray(good)
    broken[-1] ^= 1
    large = bytes(encode_batch([(None, bytes(1_100_000))], timestamp_ms=1_700_000_000_000))
    assert produce(client, "refusals", bytes(broken))[0] == CORRUPT
    assert produce(client, "refusals", large)[0] == TOO_LARGE
    producer_id = client.ask(
        "InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1
    ).producer_id

    def numbered(sequence: int) -> bytes:
        return bytes(
            encode_batch(
                [(None, str(sequence).encode())],
                timestamp_ms=1_700_000_000_000,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
            )
        )

    assert produce(client, "refusals", numbered(0)) == (0, 0)
    assert produce(client, "refusals", numbered(1)) == (0, 1)
    assert produce(client, "refusals", numbered(1)) == (0, 1), "a repeat gets the offset it got then"
    assert produce(client, "refusals", numbered(5))[0] == OUT_OF_ORDER
    assert produce(client, "refusals", good) == (0, 2)
    client.close()
    assert records_of(cluster.bootstrap, "refusals", 0) == ["0", "1", "good"]


def test_an_idle_consumer_costs_two_fetches_a_second_per_leader(cluster: MusterCluster) -> None:
    """Long polls wait at the server: librdkafka asks for 500 ms, so at most 2.2 a second."""
    create_topic(cluster, "idle")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "idle", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["idle"])
        wait_until("it is assigned", lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), 30)
        wait_until("nothing arrives", lambda: consumer.poll(0.5) is None, 5)
        seconds = 5.0
        before, begun = fetches(cluster), time.monotonic()
        while time.monotonic() - begun < seconds:
            assert consumer.poll(0.2) is None
        rate = (fetches(cluster) - before) / (time.monotonic() - begun)
    finally:
        consumer.close()
    assert 0 < rate <= 2.2, f"{rate:.2f} fetches a second"


def fetches(cluster: MusterCluster) -> float:
    """Fetch requests that all replicas have served."""
    total = 0.0
    for replica in range(3):
        found = re.search(r'^muster_requests_total\{api="FETCH"\} ([0-9.e+]+)$', cluster.metrics(replica), re.MULTILINE)
        total += float(found[1]) if found else 0.0
    return total


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_stored_as_sent_and_read_back(cluster: MusterCluster, codec: str) -> None:
    topic = f"codec-{codec}"
    create_topic(cluster, topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "linger.ms": 50})
    values = [f"value {n} " + "x" * 50 for n in range(200)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0
    assert records_of(cluster.bootstrap, topic, 0) == values
    client = SecondClient(leader_port(cluster, topic))
    now_ms = int(time.time() * 1000)
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": now_ms - 3_600_000}
    answer = client.ask("ListOffsets", 5, isolation_level=0, topics=[{"name": topic, "partitions": [partition]}])
    client.close()
    assert answer.topics[0].partitions[0].offset == 0, "a look-up by time reads compressed batches too"
