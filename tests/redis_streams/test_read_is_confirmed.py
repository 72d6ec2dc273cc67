"""A consumer reads what replicas of Redis have confirmed, and nothing else (ADR 106): librdkafka on a real replica,
with `redis.durability=wait`, while the replicas of a real Redis are stopped, and when one of them is promoted."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.cluster import MusterCluster, wait_until, watch_stays
from tests.redis_streams.redis_server import RedisServer
from tests.redis_streams.sentinel_servers import Sentinels
from tests.redis_streams.test_topics_in_redis import PATIENCE_S, make_topic
from tests.watermarks import watermarks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
TOPIC = "confirmed"
STREAM = f"muster:{{{TOPIC}:0}}"
SHOWN, HIDDEN_S = 20, 2.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sentinels]:
    with Sentinels(tmp_path_factory.mktemp("redis") / "world") as started:
        yield started


@pytest.fixture(scope="module")
def cluster(world: Sentinels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    settings = {
        **world.keys,
        "topics.mode": "redis",
        "redis.durability": "wait",
        "redis.timeout.ms": "1000",
    }
    folder = tmp_path_factory.mktemp("muster") / "disk"
    with MusterCluster(folder, replicas=1, partitions=1, settings=settings) as started:
        make_topic(started, TOPIC, 1)
        yield started


class Clients:
    """A producer that tries until it is told, and a consumer that goes nowhere by itself when it is out of range."""

    def __init__(self, cluster: MusterCluster, world: Sentinels) -> None:
        common = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        self.producer = Producer(
            {**common, "enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 1_000 * PATIENCE_S}
        )
        self.consumer = Consumer({**common, "group.id": "unused", "auto.offset.reset": "error"})
        self.there = world.primary().connect().ask("XLEN", STREAM)
        self.consumer.assign([TopicPartition(TOPIC, 0, self.end())])
        self.read: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.wrong: list[KafkaError] = []

    def send(self, value: bytes) -> None:
        def told(error: KafkaError | None, _: object) -> None:
            if error:
                self.wrong.append(error)
            else:
                self.acknowledged.append(value)

        self.producer.produce(TOPIC, value, partition=0, on_delivery=told)

    def receive(self) -> list[bytes]:
        self.producer.poll(0)
        message = self.consumer.poll(0.1)
        while message is not None:
            error = message.error()
            if error is None:
                self.read.append(message.value() or b"")
            elif not error.retriable() and error.code() != KafkaError._TRANSPORT:
                self.wrong.append(error)
            message = self.consumer.poll(0)
        return self.read

    def end(self) -> int:
        return watermarks(self.consumer, TopicPartition(TOPIC, 0))[1]

    def send_unconfirmed(self, primary: RedisServer, value: bytes) -> None:
        """It is there, and neither in what the consumer is told nor before the end that it is told of."""
        redis = primary.connect()
        there, end = redis.ask("XLEN", STREAM), self.end()
        read = list(self.read)
        self.send(value)
        wait_until("the entry", lambda: redis.ask("XLEN", STREAM) == there + 1, PATIENCE_S)
        watch_stays("nothing is read", lambda: self.receive() == read and self.end() == end, HIDDEN_S)
        assert value not in self.acknowledged

    def close(self) -> None:
        self.consumer.close()


@pytest.fixture
def clients(cluster: MusterCluster, world: Sentinels) -> Iterator[Clients]:
    world.wait_whole()
    made = Clients(cluster, world)
    expected = [b"%d" % number for number in range(SHOWN)]
    for value in expected:
        made.send(value)
    wait_until("what is confirmed is read", lambda: made.receive() == expected, PATIENCE_S, every=0)
    yield made
    made.close()


def replicas(world: Sentinels) -> list[RedisServer]:
    return [server for server in world.servers if server is not world.primary()]


def test_what_no_replica_has_confirmed_is_read_when_one_has(clients: Clients, world: Sentinels) -> None:
    stopped = replicas(world)
    expected = [*clients.read, b"late"]
    for server in stopped:
        world.pause(server)
    try:
        clients.send_unconfirmed(world.primary(), b"late")
    finally:
        for server in stopped:
            world.go_on(server)
    wait_until("it is read", lambda: clients.receive() == expected, PATIENCE_S, every=0)
    wait_until("it is acknowledged", lambda: clients.receive() and b"late" in clients.acknowledged, PATIENCE_S)
    assert (clients.read, clients.wrong) == (expected, [])


def test_a_position_is_in_range_of_the_next_primary_which_lacks_what_was_not_confirmed(
    clients: Clients, world: Sentinels
) -> None:
    before, behind = world.primary(), replicas(world)
    expected = [*clients.read, b"lost and sent again", b"after"]
    for server in behind:
        world.pause(server)
    try:
        # What is in the buffers of a connection would be read when they go on.
        before.connect().ask("CLIENT", "KILL", "TYPE", "replica")
        clients.send_unconfirmed(before, b"lost and sent again")
        before.kill()
    finally:
        for server in behind:
            world.go_on(server)
    after = world.wait_other_than(before)
    clients.send(b"after")
    wait_until("each is read", lambda: len(clients.receive()) >= len(expected), PATIENCE_S, every=0)
    watch_stays("and once", lambda: clients.receive() == expected, HIDDEN_S)
    assert clients.wrong == []
    assert clients.producer.flush(PATIENCE_S) == 0
    assert set(expected) <= set(clients.acknowledged)
    assert after.connect().ask("XLEN", STREAM) == clients.there + len(expected)
    before.start()
