"""`muster dev` as a person uses it: it forms, says ready, survives a killed replica, drains on Ctrl-C, finds its data
again."""

import os
import resource
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator import exits
from muster_coordinator.cli.demo.cluster import DemoCluster

from tests.cluster import MusterCluster, free_port_base, wait_until
from tests.raw_client import Disconnected, RawClient
from tests.raw_group import NONE, commit, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    folder = tmp_path_factory.mktemp("dev") / "cluster"
    with MusterCluster(folder, partitions=8, settings={"group.initial.rebalance.delay.ms": "0"}) as started:
        yield started


@pytest.fixture
def topic(cluster: MusterCluster) -> str:
    """A topic of the test's own; its group has the same name."""
    name = f"flights-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, replication_factor=3)])[name].result(30)
    return name


def produce(cluster: MusterCluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 1})
    failed: list[str] = []
    for n in range(count):
        producer.produce(
            topic, b"%d" % n, partition=n % PARTITIONS, on_delivery=lambda e, _: failed.append(str(e)) if e else None
        )
    assert producer.flush(30) == 0
    assert not failed, failed[:3]


def consume(cluster: MusterCluster, topic: str, count: int) -> list[int]:
    """`count` records as a member of the group, committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
        }
    )
    consumer.subscribe([topic])
    seen: list[int] = []

    def poll() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen.append(int(message.value()))
        return len(seen) >= count

    try:
        wait_until(f"{count} records", poll, 30, every=0)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return seen


def committed(cluster: MusterCluster, topic: str) -> int:
    """Sum of the group's committed offsets."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    try:
        partitions = consumer.committed([TopicPartition(topic, n) for n in range(PARTITIONS)], timeout=30)
        return sum(max(0, p.offset) for p in partitions)
    finally:
        consumer.close()


def test_a_group_consumes_and_its_offsets_survive_a_stop_and_a_start(cluster: MusterCluster, topic: str) -> None:
    produce(cluster, topic, 30)
    assert sorted(consume(cluster, topic, 30)) == list(range(30))
    assert committed(cluster, topic) == 30
    assert cluster.stop() == exits.OK
    for replica in range(cluster.replicas):
        assert not (cluster.folder / f"replica-{replica}" / "pid").exists()
    cluster.start(fresh=False)
    assert committed(cluster, topic) == 30


def test_a_killed_replica_is_reported_and_comes_back_by_hand(cluster: MusterCluster, topic: str) -> None:
    victim = 1
    cluster.kill(victim)
    wait_until("the death is reported", lambda: "replica 1 ended by signal 9" in cluster.output.read_text(), 10)
    produce(cluster, topic, 6)
    cluster.start_replica(victim)
    assert sorted(cluster.alive()) == [0, 1, 2]

    def caught_up() -> bool:
        return all(cluster.status(n)["ready"] for n in range(cluster.replicas))

    wait_until("all are ready", caught_up, 30)
    assert cluster.status(victim)["incarnation"] >= 2


def test_drain_takes_every_leadership_away_and_undrain_lets_them_return(cluster: MusterCluster, topic: str) -> None:
    wait_until("replica 0 is ready", lambda: cluster.status(0)["ready"], 30)
    code, _ = cluster.admin(0, "/v1/drain", post={})
    assert code == 202
    wait_until("replica 0 is drained", lambda: cluster.status(0)["drain"]["phase"] == "drained", 30)
    wait_until("it leads nothing", lambda: cluster.status(0)["leaderships"] == 0, 10)
    assert cluster.status(0)["draining"]
    assert committed(cluster, topic) == 0
    code, _ = cluster.admin(0, "/v1/undrain", post={})
    assert code == 200
    assert not cluster.status(0)["draining"]


def test_a_transfer_moves_one_partition(cluster: MusterCluster) -> None:
    _, document = cluster.admin(2, "/v1/partitions")
    leader = next(row["leader"] for row in document["partitions"] if row["group"] == 1)
    code, moved = cluster.admin(leader, "/v1/transfer", post={"partition": 0})
    assert code == 200, moved
    assert moved["leader"] != leader


def test_metrics_show_the_group(cluster: MusterCluster, topic: str) -> None:
    produce(cluster, topic, 3)
    consume(cluster, topic, 1)

    def shown() -> bool:
        pages = [cluster.metrics(n) for n in range(cluster.replicas)]
        return any(f'muster_consumer_group_lag{{group="{topic}"}}' in page for page in pages)

    wait_until("the group has a series", shown, 30)


def muster(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster_coordinator.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_client_that_asks_while_the_cluster_forms_is_answered(tmp_path: Path) -> None:
    """librdkafka asks for brokers three times; if none was named in an answer it asks again after five minutes."""
    cluster = MusterCluster(tmp_path / "forms", partitions=2)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    asked = admin.create_topics([NewTopic("early", PARTITIONS, replication_factor=1)], request_timeout=40)["early"]
    with cluster:
        asked.result(20)


def test_an_unknown_key_stops_the_start_and_is_named(tmp_path: Path) -> None:
    ended = muster("dev", "--data", str(tmp_path / "d"), "--port", str(free_port_base()), "--set", "group.max.siz=1")
    assert ended.returncode == exits.CONFIG
    assert "unknown key group.max.siz" in ended.stderr


def test_a_folder_in_use_and_another_partition_count_are_refused(cluster: MusterCluster) -> None:
    config = cluster.folder / "replica-0" / "server.properties"
    ended = muster("server", "--config", str(config))
    assert ended.returncode == exits.UNAVAILABLE
    assert "in use by another process" in ended.stderr
    assert cluster.stop() == exits.OK
    text = config.read_text()
    try:
        config.write_text(text.replace("offsets.topic.num.partitions=8", "offsets.topic.num.partitions=9"))
        ended = muster("server", "--config", str(config))
        assert ended.returncode == exits.CORRUPTION
        assert "formed with 8 offsets partitions, the configuration says 9" in ended.stderr
    finally:
        config.write_text(text)
        cluster.start(fresh=False)


def test_a_single_replica_stops_at_once_and_restarts_by_itself(tmp_path: Path) -> None:
    port = free_port_base()
    log = tmp_path / "dev.log"
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "dev", "--data", str(tmp_path / "one")]
    command += ["--replicas", "1", "--port", str(port), "--partitions", "2", "--restart"]
    with log.open("wb") as output:
        supervisor = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until("ready", lambda: "ready bootstrap=" in log.read_text(), 60)
        pid_file = tmp_path / "one" / "replica-0" / "pid"
        first = int(pid_file.read_text())
        os.kill(first, signal.SIGKILL)
        wait_until("another process", lambda: pid_file.exists() and int(pid_file.read_text()) != first, 30)
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(20) == exits.OK
    finally:
        if supervisor.poll() is None:
            supervisor.kill()
            supervisor.wait()


def test_a_disk_that_fails_ends_the_process_with_its_own_code(tmp_path: Path) -> None:
    """No promise is made on a write that failed: the commit is not answered, the process is gone."""
    with MusterCluster(tmp_path / "disk", replicas=1, partitions=2, settings={"topics.mode": "none"}) as cluster:
        _, host, port = find_coordinator(cluster.bootstrap, "g")
        with RawClient(host, port) as client:
            assert commit(client, "g", "t", {0: 1}) == {0: NONE}
            resource.prlimit(cluster.pid(0), resource.RLIMIT_FSIZE, (1, 1))
            with pytest.raises(Disconnected):
                commit(client, "g", "t", {0: 2})
        reported = f"replica 0 ended with exit code {exits.STORAGE}"
        wait_until("the death is reported", lambda: reported in cluster.output.read_text(), 15)


def test_two_demos_that_choose_their_ports_at_once_both_get_a_cluster(tmp_path: Path) -> None:
    """Both have chosen before either has started a replica: one process, so that they would begin at the same base."""
    one, other = DemoCluster(tmp_path / "one", 3), DemoCluster(tmp_path / "other", 3)
    assert one.layout.port != other.layout.port
    with one, other:
        assert all(cluster.is_ready(replica) for cluster in (one, other) for replica in range(3))
