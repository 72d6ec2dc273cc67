"""MirrorMaker 2 both ways between two clusters, by its default configuration: only the clusters, their addresses and
that both ways are enabled are told, and how often to look, which is minutes by default.

What is compared: records and their configurations on the other side, heartbeats, and the offsets that a group has
there: a checkpoint is never ahead of what the group has read, and with the group at the end it is the end. A group that
goes on over there after its own cluster is gone reads each record that it had not read, and few that it had.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.applications.clusters import cluster_for
from tests.applications.connect import Mirror
from tests.applications.reading import read_committed
from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.applications, pytest.mark.timeout(1_200)]

PARTITIONS, RECORDS = 3, 200
MIRRORED_S_MAX = 300


def properties(a: MusterCluster, b: MusterCluster) -> dict[str, str]:
    """No number of replicas is told: topics are asked for with 2, MirrorMaker's default."""
    often = ("refresh.topics", "refresh.groups", "sync.topic.configs", "emit.checkpoints", "sync.group.offsets")
    return {
        "clusters": "a, b",
        "a.bootstrap.servers": a.bootstrap,
        "b.bootstrap.servers": b.bootstrap,
        "a->b.enabled": "true",
        "b->a.enabled": "true",
        "sync.group.offsets.enabled": "true",
        **{f"{name}.interval.seconds": "2" for name in often},
    }


@contextlib.contextmanager
def mirror(folder: Path, a: MusterCluster, b: MusterCluster) -> Iterator[Mirror]:
    one = Mirror(folder, properties(a, b))
    one.start()
    try:
        yield one
    finally:
        one.kill()


def admin_of(cluster: MusterCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def create(cluster: MusterCluster, name: str, **configs: str) -> None:
    topic = NewTopic(name, PARTITIONS, -1, config=configs)
    admin = admin_of(cluster)  # kept until the answer has come
    admin.create_topics([topic], operation_timeout=20)[name].result(30)


def send(cluster: MusterCluster, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(first, first + count):
        producer.produce(
            topic, f"{topic}-{number}", str(number), partition=number % PARTITIONS, headers={"n": str(number)}
        )
    assert producer.flush(60) == 0


def consumer_of(cluster: MusterCluster, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )


def consume(cluster: MusterCluster, group: str, topic: str, count: int) -> list[bytes]:
    """As a group does: so many records or more, and what was read is committed."""
    consumer = consumer_of(cluster, group)
    found: list[bytes] = []

    def enough() -> bool:
        found.extend(m.value() or b"" for m in consumer.consume(count - len(found), 1) if m.error() is None)
        return len(found) >= count

    try:
        consumer.subscribe([topic])
        wait_until(f"{group} reads {count} of {topic}", enough, MIRRORED_S_MAX, 0)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def offsets(cluster: MusterCluster, group: str, topic: str) -> list[int]:
    """Committed ones; -1001 where there is none."""
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, p) for p in range(PARTITIONS)])]
    admin = admin_of(cluster)
    answer = admin.list_consumer_group_offsets(asked)[group].result(30)
    return [one.offset for one in sorted(answer.topic_partitions or [], key=lambda one: one.partition)]


def mirrored(cluster: MusterCluster, topic: str) -> list[tuple[int, int, bytes, bytes]]:
    if topic not in admin_of(cluster).list_topics(timeout=20).topics:
        return []
    return read_committed(cluster.bootstrap, topic)


def wait_mirrored(there: MusterCluster, remote: str, here: MusterCluster, topic: str, process: Mirror) -> None:
    wanted = read_committed(here.bootstrap, topic)

    def arrived() -> bool:
        assert process.runs(), process.told()
        return len(mirrored(there, remote)) >= len(wanted)

    try:
        wait_until(f"{topic} is {remote}", arrived, MIRRORED_S_MAX, 1)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{process.told()}") from None
    assert mirrored(there, remote) == wanted, "partition, order, key and value of each, and none twice"


def config(cluster: MusterCluster, topic: str, name: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = admin_of(cluster)
    return str(admin.describe_configs([resource])[resource].result(20)[name].value)


def test_two_clusters_mirror_each_other_and_a_group_goes_over(tmp_path: Path) -> None:
    with cluster_for(tmp_path / "a") as a, cluster_for(tmp_path / "b") as b:
        create(a, "orders", **{"retention.ms": "123456789", "cleanup.policy": "compact,delete"})
        create(b, "payments")
        send(a, "orders", 0, RECORDS)
        send(b, "payments", 0, RECORDS)
        with mirror(tmp_path, a, b) as process:
            wait_mirrored(b, "a.orders", a, "orders", process)
            wait_mirrored(a, "b.payments", b, "payments", process)
            for name, value in (("retention.ms", "123456789"), ("cleanup.policy", "compact,delete")):
                assert config(b, "a.orders", name) == value
            for cluster, topics in (
                (
                    a,
                    {
                        "b.payments",
                        "b.heartbeats",
                        "heartbeats",
                        "b.checkpoints.internal",
                        "mm2-offset-syncs.b.internal",
                    },
                ),
                (
                    b,
                    {"a.orders", "a.heartbeats", "heartbeats", "a.checkpoints.internal", "mm2-offset-syncs.a.internal"},
                ),
            ):
                names = set(admin_of(cluster).list_topics(timeout=20).topics)
                assert topics <= names, (topics - names, process.told())
                assert not {n for n in names if "a.b." in n or "b.a." in n} - {"a.b.heartbeats", "b.a.heartbeats"}, (
                    names
                )
            groups_are_translated(a, b, process)
            process.kill()
            process.start()
            send(a, "orders", RECORDS, RECORDS)
            send(b, "payments", RECORDS, RECORDS)
            wait_arrived(b, "a.orders", process)
            wait_arrived(a, "b.payments", process)
        goes_over(b)


def wait_arrived(there: MusterCluster, remote: str, process: Mirror) -> None:
    """After a kill MirrorMaker promises at least once: each record is there, in order, and few came twice."""
    wanted = {f"{remote.partition('.')[2]}-{number}".encode() for number in range(2 * RECORDS)}

    def arrived() -> bool:
        assert process.runs(), process.told()
        return {value for _, _, _, value in mirrored(there, remote)} >= wanted

    wait_until(f"{remote} has all", arrived, MIRRORED_S_MAX, 1)
    assert {value for _, _, _, value in mirrored(there, remote)} == wanted


def groups_are_translated(a: MusterCluster, b: MusterCluster, process: Mirror) -> None:
    """Both ways, while MirrorMaker looks on: a checkpoint is never ahead, and reaches the end with its group."""
    for here, there, topic, remote in ((a, b, "orders", "a.orders"), (b, a, "payments", "b.payments")):
        group = f"{topic}-readers"
        assert len(consume(here, group, topic, RECORDS // 2)) >= RECORDS // 2
        at = offsets(here, group, topic)
        wait_until(
            f"{group} has a checkpoint", lambda t=there, g=group, r=remote: max(offsets(t, g, r)) > 0, MIRRORED_S_MAX, 1
        )
        assert all(there_at <= here_at for there_at, here_at in zip(offsets(there, group, remote), at, strict=True))
        consume(here, group, topic, RECORDS - RECORDS // 2)
        ends = offsets(here, group, topic)
        assert sum(ends) == RECORDS

        def level(t: MusterCluster = there, g: str = group, r: str = remote, e: list[int] = ends) -> bool:
            assert process.runs(), process.told()
            return offsets(t, g, r) == e

        try:
            wait_until(f"{group} is as far over there", level, MIRRORED_S_MAX, 1)
        except AssertionError as error:
            found = offsets(there, group, remote), ends
            raise AssertionError(f"{error} {found}\n{process.told()}") from None


def goes_over(there: MusterCluster) -> None:
    """The group of the other cluster goes on here: nothing that it has not read is missed."""
    at = offsets(there, "orders-readers", "a.orders")
    assert sum(at) == RECORDS, "all that its group had read"
    read = consume(there, "orders-readers", "a.orders", RECORDS)
    assert {f"orders-{number}".encode() for number in range(RECORDS, 2 * RECORDS)} <= set(read)
