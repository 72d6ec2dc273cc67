"""Five real processes in three racks, two of which joined later: topics with 1, 3 and 5 replicas are placed through any
of them, by Kafka's clients, and served whoever is asked first (ADR 44)."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import NewTopic as KafkaPythonTopic
from muster_coordinator.cli.exits import Exit

from tests import kafka_tools
from tests.cluster import MusterCluster, wait_until
from tests.integration.test_replaced_replica import SETTINGS, data_of, folder_of, muster
from tests.live_files import live_paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

RACKS = ("a", "b", "c", "a", "b")
JOINED = (3, 4)
PLACED = {"one": 1, "three": 3, "five": 5}
"""Topic -> replicas of each of its partitions."""
PARTITIONS = 6
ONLY_REPLICA_OF_ONE = re.compile(r"has the only replica of .*\bone \(partitions ")
"""Other tests make topics of one replica too."""


def address(cluster: MusterCluster, broker: int) -> str:
    return f"127.0.0.1:{cluster.client_port(broker)}"


def racks(cluster: MusterCluster) -> list[dict[int, Any]]:
    """As each broker tells them."""
    return [{one["broker"]: one["rack"] for one in cluster.status(n)["brokers"]} for n in range(len(RACKS))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    folder = tmp_path_factory.mktemp("placed") / "cluster"
    with MusterCluster(folder, partitions=6, settings=SETTINGS, room_for=len(JOINED)) as started:
        for broker in range(started.replicas):
            started.kill(broker)
            started.configure(broker, {"broker.rack": RACKS[broker]})
            started.start_replica(broker)
        for broker in JOINED:
            started.add_replica(broker, settings={"broker.rack": RACKS[broker]})
        wait_until("all racks are told", lambda: racks(started) == [dict(enumerate(RACKS))] * len(RACKS), 30)
        make(started)
        yield started
        assert started.stop() == 0


def make(cluster: MusterCluster) -> None:
    """Each topic through another broker, one of them by kafka-python."""
    for through, name in ((4, "one"), (0, "five")):
        admin = AdminClient({"bootstrap.servers": address(cluster, through)})
        admin.create_topics([NewTopic(name, PARTITIONS, PLACED[name])], operation_timeout=30)[name].result(30)
    other = KafkaAdminClient(bootstrap_servers=address(cluster, 3))
    other.create_topics([KafkaPythonTopic("three", PARTITIONS, PLACED["three"])], timeout_ms=30_000)
    other.close()


def told(cluster: MusterCluster, topic: str, by: int) -> dict[int, tuple[int, list[int]]]:
    """Partition -> leader and replicas, as this broker has it."""
    found = AdminClient({"bootstrap.servers": address(cluster, by)}).list_topics(topic, timeout=20).topics[topic]
    return {number: (one.leader, list(one.replicas)) for number, one in found.partitions.items()}


def folders(cluster: MusterCluster, topic: str, partition: int) -> set[int]:
    brokers = range(len(RACKS))
    return {n for n in brokers if live_paths(data_of(cluster, n) / "segments", f"*/{topic}-{partition}")}


def test_replicas_are_in_all_racks_and_only_where_every_broker_says(cluster: MusterCluster) -> None:
    held: Counter[int] = Counter()
    for topic, factor in PLACED.items():

        def led(topic: str = topic) -> bool:
            views = [told(cluster, topic, by) for by in range(len(RACKS))]
            return all(view == views[0] for view in views) and all(one[0] == one[1][0] for one in views[0].values())

        wait_until(f"all say that the first of {topic} leads", led, 30)
        for partition, (_, replicas) in told(cluster, topic, 2).items():
            assert len(set(replicas)) == len(replicas) == factor
            assert len({RACKS[replica] for replica in replicas}) == min(factor, 3)
            assert folders(cluster, topic, partition) == set(replicas)
            held.update(replicas)
    assert min(held[joined] for joined in JOINED) >= max(held[founder] for founder in (0, 1)), (
        "those that had nothing got the most of their racks"
    )


def test_clients_are_served_that_know_only_a_broker_without_a_replica(cluster: MusterCluster) -> None:
    admin = AdminClient({"bootstrap.servers": address(cluster, 0)})
    far = NewTopic("far", 2, replica_assignment=[[4], [3]])
    admin.create_topics([far], operation_timeout=30)["far"].result(30)
    assert folders(cluster, "far", 0) == {4}
    for topic, by in (("far", 0), ("far", 2), ("one", 2), ("three", 3), ("five", 4)):
        partitions = len(told(cluster, topic, by))
        producer = Producer({"bootstrap.servers": address(cluster, by), "enable.idempotence": True})
        failed: list[str] = []
        for n in range(60):
            producer.produce(
                topic,
                f"{by}-{n}",
                partition=n % partitions,
                on_delivery=lambda error, _, failed=failed: failed.append(str(error)) if error else None,
            )
        assert (producer.flush(30), failed) == (0, [])
        consumer = Consumer({
            "bootstrap.servers": address(cluster, by),
            "group.id": f"readers-{topic}-{by}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        })  # fmt: skip
        consumer.subscribe([topic])
        read: list[str] = []

        def all_read(consumer: Consumer = consumer, read: list[str] = read, by: int = by) -> bool:
            messages = consumer.consume(100, 0.5)
            read.extend(str(one.value().decode()) for one in messages if one.error() is None)
            return len([one for one in read if one.startswith(f"{by}-")]) >= 60

        wait_until(f"{topic} is read through {by}", all_read, 30)
        consumer.commit(asynchronous=False)
        consumer.close()
        assert sorted(one for one in read if one.startswith(f"{by}-")) == sorted(f"{by}-{n}" for n in range(60))


@pytest.mark.java
def test_kafkas_tool_shows_and_asks_for_the_same(cluster: MusterCluster) -> None:
    def topics(*arguments: str, by: int, fails: bool = False) -> str:
        return kafka_tools.run(kafka_tools.TOPICS, "--bootstrap-server", address(cluster, by), *arguments, fails=fails)

    shown = topics("--describe", "--topic", "three", by=4)
    assert "ReplicationFactor: 3" in shown
    for partition, (leader, replicas) in told(cluster, "three", 0).items():
        of_it = ",".join(map(str, replicas))
        assert f"Partition: {partition}\tLeader: {leader}\tReplicas: {of_it}\t" in shown
    create = ["--create", "--topic", "tool", "--partitions", "2"]
    assert "1, 3 or 5 replicas, not 6" in topics(*create, "--replication-factor", "6", by=3, fails=True)
    by_hand = ["--create", "--topic", "tool", "--replica-assignment", "4:3:2,1:0:2"]
    topics(*by_hand, by=3)
    assert [one[1] for one in told(cluster, "tool", 1).values()] == [[4, 3, 2], [1, 0, 2]]
    topics("--alter", "--topic", "tool", "--partitions", "4", by=4)
    assert [len(one[1]) for one in told(cluster, "tool", 1).values()] == [3, 3, 3, 3]
    wrong = topics("--alter", "--topic", "tool", "--partitions", "5", "--replica-assignment", "0:1", by=4, fails=True)
    assert "Exception" in wrong


def test_what_cannot_be_is_told_by_kafkas_codes(cluster: MusterCluster) -> None:
    admin = AdminClient({"bootstrap.servers": address(cluster, 4)})

    def code(future: Any) -> str:
        with pytest.raises(KafkaException) as caught:
            future.result(30)
        return str(caught.value.args[0].name())

    wanted = {
        "six": (NewTopic("six", 1, 6), "INVALID_REPLICATION_FACTOR"),
        "seven": (NewTopic("seven", 1, 7), "INVALID_REPLICATION_FACTOR"),
        "nobody": (NewTopic("nobody", 1, replica_assignment=[[9]]), "INVALID_REPLICA_ASSIGNMENT"),
        "twice": (NewTopic("twice", 1, replica_assignment=[[1, 1, 2]]), "INVALID_REPLICA_ASSIGNMENT"),
        "uneven": (NewTopic("uneven", 2, replica_assignment=[[1], [0, 1, 2]]), "INVALID_REPLICA_ASSIGNMENT"),
    }
    for name, (asked, expected) in wanted.items():
        assert code(admin.create_topics([asked])[name]) == expected, name
    admin.create_topics([NewTopic("two", 1, 2)])["two"].result(30)
    assert [len(one[1]) for one in told(cluster, "two", 4).values()] == [3], "an even number gets one more (ADR 84)"
    more = NewPartitions("one", PARTITIONS + 1, replica_assignment=[[0, 1, 2]])
    assert code(admin.create_partitions([more])["one"]) == "INVALID_REPLICA_ASSIGNMENT"


def test_a_lost_broker_costs_what_had_its_only_replica_there_and_says_so(cluster: MusterCluster) -> None:
    """It kills a broker, and brings it back, leaderships too."""
    broker = 3
    alone = [number for number, (_, replicas) in told(cluster, "one", 0).items() if replicas == [broker]]
    assert alone
    folder = folder_of(cluster, broker)
    cluster.kill(broker)
    try:
        producer = Producer({"bootstrap.servers": address(cluster, 0), "message.timeout.ms": 60_000})
        failed: list[str] = []
        for topic in ("three", "five"):
            for partition in range(PARTITIONS):
                producer.produce(
                    topic, b"on", partition=partition, on_delivery=lambda e, _: failed.append(str(e)) if e else None
                )
        assert (producer.flush(60), failed) == (0, [])
        wait_until("it has no leader", lambda: all(told(cluster, "one", 0)[number][0] == -1 for number in alone), 30)

        def refused() -> str:
            done = muster(cluster, "replace", str(broker), "--folder", folder)
            assert done.returncode != Exit.OK, done.stdout
            return done.stderr + done.stdout

        wait_until("its replacement is refused in words", lambda: ONLY_REPLICA_OF_ONE.search(refused()), 30, every=0.5)
    finally:  # the other tests need it
        cluster.start_replica(broker)
    wait_until("it leads again", lambda: all(told(cluster, "one", 0)[number][0] == broker for number in alone), 30)

    def first_ones_lead() -> bool:
        return all(leader == replicas[0] for topic in PLACED for leader, replicas in told(cluster, topic, 0).values())

    wait_until("the first replicas lead again", first_ones_lead, 60)
