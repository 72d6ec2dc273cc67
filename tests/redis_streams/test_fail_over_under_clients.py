"""Real clients of real replicas while another Redis becomes the primary, by Sentinels or in a Redis Cluster: each
record once, one assignment."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.cluster import MusterCluster, wait_until
from tests.redis_streams.cluster_servers import Cluster
from tests.redis_streams.sentinel_servers import Sentinels
from tests.redis_streams.test_topics_in_redis import PATIENCE_S, make_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
PARTITIONS = 3
STREAM = "muster:{orders:0}"


@pytest.fixture(scope="module", params=[Sentinels, Cluster], ids=["Sentinels", "Cluster"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sentinels | Cluster]:
    with request.param(tmp_path_factory.mktemp("redis") / "world") as started:
        yield started


@pytest.fixture(scope="module")
def cluster(world: Sentinels | Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    settings = {
        **world.keys,
        "topics.mode": "redis",
        "redis.durability": "wait",
        "redis.timeout.ms": "2000",
        "group.initial.rebalance.delay.ms": "0",
    }
    with MusterCluster(tmp_path_factory.mktemp("muster") / "disk", partitions=2, settings=settings) as started:
        yield started


class Clients:
    """An idempotent producer, and a consumer of a group; what each was told."""

    def __init__(self, cluster: MusterCluster, topic: str) -> None:
        self.topic = topic
        common = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        self.producer = Producer(
            {**common, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 1_000 * PATIENCE_S}
        )
        self.consumer = Consumer(
            {**common, "group.id": topic, "auto.offset.reset": "earliest", "session.timeout.ms": 45_000}
        )
        self.acknowledged: list[tuple[int, int | None, bytes]] = []
        """(partition, offset, value)"""
        self.read: list[tuple[int, int, bytes]] = []
        self.failed: list[KafkaError] = []
        self.assignments = 0
        self.sent = 0

        def assigned(*_: object) -> None:
            self.assignments += 1

        self.consumer.subscribe([topic], on_assign=assigned)

    def send(self) -> None:
        """A record to each partition."""
        for partition in range(PARTITIONS):
            value = b"%d" % self.sent
            self.sent += 1

            def told(error: KafkaError | None, message: object, value: bytes = value, place: int = partition) -> None:
                if error:
                    self.failed.append(error)
                else:
                    self.acknowledged.append((place, message.offset(), value))  # type: ignore[attr-defined]

            self.producer.produce(self.topic, value, partition=partition, on_delivery=told)
        self.producer.poll(0)

    def receive(self) -> int:
        """What has come by now; returns how many there are."""
        message = self.consumer.poll(0.02)
        while message is not None:
            if message.error() is None:
                self.read.append((message.partition() or 0, message.offset() or 0, message.value() or b""))
            message = self.consumer.poll(0)
        return len(self.read)


def test_a_group_and_an_idempotent_producer_live_through_a_primary_that_is_killed(
    world: Sentinels | Cluster, cluster: MusterCluster
) -> None:
    make_topic(cluster, "orders", PARTITIONS)
    clients = Clients(cluster, "orders")

    def lives(until: int) -> bool:
        clients.send()
        return clients.receive() > 0 and len(clients.acknowledged) >= until

    wait_until("records", lambda: lives(300), PATIENCE_S, every=0)
    for _ in range(2):
        world.wait_whole()
        before = world.owner(STREAM)
        before.kill()
        world.wait_other_than(before, STREAM)
        before.start()  # in the Cluster nobody else confirms what the next primary writes
        goal = len(clients.acknowledged) + 300
        wait_until("records by the next primary", lambda goal=goal: lives(goal), PATIENCE_S, every=0)
    assert clients.producer.flush(PATIENCE_S) == 0
    assert clients.failed == []
    wait_until("all is read", lambda: clients.receive() >= clients.sent, PATIENCE_S, every=0)
    read, acknowledged = (
        sorted((place, value) for place, _, value in some) for some in (clients.read, clients.acknowledged)
    )
    places = sorted((place, value, offset) for place, offset, value in clients.read)
    again = [one for one, behind in pairwise(places) if one[:2] == behind[:2]]
    assert again == [], f"{len(again)} records were read once more"
    assert read == acknowledged, "each record once"
    # Of a batch whose successor was acknowledged first librdkafka knows that it is there, and not where.
    where = {one for one in clients.acknowledged if one[1] is not None}
    assert where <= set(clients.read), "where it was acknowledged"
    for partition in range(PARTITIONS):
        lie = [(offset, int(value)) for place, offset, value in clients.read if place == partition]
        assert lie == sorted(lie), "as they lie"
        assert [value for _, value in lie] == list(range(partition, clients.sent, PARTITIONS)), "as they were sent"
    assert clients.assignments == 1
    clients.consumer.close()
