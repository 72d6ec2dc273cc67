"""Consumers read from the replica in their own rack (KIP-392): the Java client and librdkafka with `client.rack`.

The witness is each broker's own count of bytes that it sent to clients: what a consumer reads has left the follower in
its rack, and not the leader. When that follower is gone the leader serves, and when it is back it serves again.
"""

import base64
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.applications.clusters import cluster_for
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.watermarks import watermarks

pytestmark = [pytest.mark.applications, pytest.mark.timeout(900)]

TOPIC, RECORDS, RECORD_BYTES = "far", 1_500, 2_000
TOTAL = RECORDS * RECORD_BYTES
READS_S_MAX = 180
SENT = re.compile(r"^muster_client_sent_bytes_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    """Each broker is in a rack of its own."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with cluster_for(tmp_path_factory.mktemp("racks") / "data", replica_selector_class=selector) as found:
        for replica in range(3):
            found.configure(replica, {"broker.rack": f"rack-{replica}"})
            found.kill(replica)
            found.start_replica(replica)
        admin = AdminClient({"bootstrap.servers": found.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 3)], operation_timeout=30)[TOPIC].result(40)
        send(found, RECORDS)
        yield found


def send(cluster: MusterCluster, count: int) -> None:
    rand = Random(392)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    for _ in range(count):
        producer.produce(TOPIC, base64.b64encode(rand.randbytes(RECORD_BYTES * 3 // 4)))
        producer.poll(0)
    assert producer.flush(60) == 0


def leader_of(cluster: MusterCluster) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def led() -> list[int]:
        leader = admin.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions[0].leader
        return [leader] if leader >= 0 else []

    found: list[int] = wait_until("somebody leads", led, READS_S_MAX, 0.5)
    return found[0]


def sent(cluster: MusterCluster, *replicas: int) -> dict[int, float]:
    return {n: sum(map(float, SENT.findall(cluster.metrics(n)))) for n in replicas or range(3)}


class Reader:
    """A consumer of the partition from its beginning, in a rack."""

    def __init__(self, client: str, bootstrap: str, rack: str) -> None:
        self.records = 0
        self._member: Member | None = None
        if client == "java":
            assign = {"assign": [[TOPIC, 0]], "properties": {"client.rack": rack}}
            self._member = Member("java", bootstrap=bootstrap, group=f"java-in-{rack}", **assign)
            return
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"in-{rack}",
                "client.rack": rack,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def wait(self, records: int) -> None:
        def read() -> bool:
            if self._member is not None:
                self.records = len(self._member.records)
                assert self._member.ended() is None, self._member.ended()
            else:
                self.records += sum(m.error() is None for m in self._consumer.consume(500, 0.5))
            return self.records >= records

        wait_until(f"{records} records are read", read, READS_S_MAX, 0.1)

    def close(self) -> None:
        if self._member is not None:
            self._member.dispose()
        else:
            self._consumer.close()


@contextmanager
def reader(*about: Any) -> Iterator[Reader]:
    with closing(Reader(*about)) as one:
        yield one


def whole(cluster: MusterCluster) -> int:
    """Records of the partition."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "log_level": 0})
    try:
        return watermarks(consumer, TopicPartition(TOPIC, 0))[1]
    finally:
        consumer.close()


@pytest.mark.parametrize("client", ["librdkafka", pytest.param("java", marks=pytest.mark.java)])
def test_each_consumer_is_served_by_the_broker_in_its_rack(cluster: MusterCluster, client: str) -> None:
    records = whole(cluster)
    for rack in range(3):
        before = sent(cluster)
        with reader(client, cluster.bootstrap, f"rack-{rack}") as one:
            one.wait(records)
        grew = {n: now - before[n] for n, now in sent(cluster).items()}
        told = f"{client} in rack {rack}, leader {leader_of(cluster)}: {grew}"
        assert grew[rack] >= TOTAL, told
        assert all(grew[n] < TOTAL / 5 for n in range(3) if n != rack), told


@pytest.mark.parametrize("client", ["librdkafka", pytest.param("java", marks=pytest.mark.java)])
def test_the_leader_serves_while_the_near_broker_is_gone(cluster: MusterCluster, client: str) -> None:
    near = next(n for n in range(3) if n != leader_of(cluster))
    records = whole(cluster)
    with reader(client, cluster.bootstrap, f"rack-{near}") as one:
        one.wait(records)
        cluster.kill(near)
        send(cluster, 100)
        one.wait(records + 100)
        cluster.start_replica(near)
        before = sent(cluster, near)[near]

        def serves() -> bool:
            send(cluster, 50)
            one.wait(whole(cluster))
            return sent(cluster, near)[near] - before > 100_000

        wait_until("the near broker serves again", serves, READS_S_MAX, 1)
