"""A majority of the folders is lost for good, on real processes: `muster recover` says what is missing, and is right by
what clients had been told; the cluster serves again, and its lost replicas are replaced by new ones (ADR 40)."""

import json
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli.exits import Exit

from tests.cluster import MusterCluster, wait_until
from tests.integration.test_replaced_replica import all_changed, data_of
from tests.watermarks import watermarks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TOPIC, PARTITIONS = "kept", 2
OFFSETS_PARTITIONS = 5
GROUPS = [f"group-{number}" for number in range(6)]
SETTINGS = {"muster.segment.flush.ms": "500", "muster.leadership.takeback.ms": "1000"}
SURVIVOR = 0
LOST = (1, 2)


def recover(cluster: MusterCluster, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    config = cluster.folder / f"replica-{SURVIVOR}" / "server.properties"
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "recover", "--config", str(config), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, input=typed)


class Acknowledged:
    """What clients have been told: (partition, offset) -> value of each record, group -> its commits."""

    def __init__(self, bootstrap: str) -> None:
        self.records: dict[tuple[int, int], str] = {}
        self.commits: dict[str, list[int]] = {group: [] for group in GROUPS}
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
        self.idle = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        """Sends nothing while the survivor is down."""
        self._bootstrap = bootstrap
        self._sent = 0
        self.idle.produce(TOPIC, "idle", partition=0, on_delivery=self._delivered)
        assert self.idle.flush(60) == 0

    def produce(self, count: int) -> None:
        """One after the other, each acknowledged."""
        for _ in range(count):
            value = f"{self._sent:06d}"
            self._sent += 1
            self.producer.produce(TOPIC, value, partition=self._sent % PARTITIONS, on_delivery=self._delivered)
            assert self.producer.flush(60) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.records[message.partition(), message.offset()] = message.value().decode()

    def commit(self, offset: int) -> None:
        for group in GROUPS:
            consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, "enable.auto.commit": False})
            answered = consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
            consumer.close()
            assert answered[0].error is None
            self.commits[group].append(offset)


def committed(bootstrap: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        return int(consumer.committed([TopicPartition(TOPIC, 0)], timeout=60)[0].offset)
    finally:
        consumer.close()


def records(bootstrap: str) -> dict[tuple[int, int], str]:
    """All that the topic holds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", "enable.auto.commit": False})
    ends = {p: watermarks(consumer, TopicPartition(TOPIC, p))[1] for p in range(PARTITIONS)}
    found: dict[tuple[int, int], str] = {}
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])

    def all_read() -> bool:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            found[message.partition(), message.offset()] = message.value().decode()
        return len(found) >= sum(ends.values())

    wait_until("all records are read", all_read, 60)
    consumer.close()
    return found


class Reader:
    """A member of a group that commits what it has read, all the while."""

    def __init__(self, bootstrap: str) -> None:
        self.read: set[str] = set()
        self._over = threading.Event()
        self._bootstrap = bootstrap
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        consumer = Consumer({
            "bootstrap.servers": self._bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 200,
        })  # fmt: skip
        consumer.subscribe([TOPIC])
        while not self._over.is_set():
            self.read |= {one.value().decode() for one in consumer.consume(100, 0.2) if one.error() is None}
        consumer.close()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(90)
        assert not self._thread.is_alive()


def ends_of_offsets(bootstrap: str) -> dict[str, int]:
    """Of each offsets partition: the offset behind its last committed record, by its leader."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", "enable.auto.commit": False})
    ends = {}
    for number in range(OFFSETS_PARTITIONS):
        of = TopicPartition("__consumer_offsets", number)
        ends[f"__consumer_offsets-{number}"] = watermarks(consumer, of)[1]
    consumer.close()
    return ends


def offsets_partition(group: str) -> str:
    """As Kafka's clients and brokers agree: Java's hash of the group's id."""
    value = 0
    for letter in group.encode("utf-16-be")[1::2]:
        value = (31 * value + letter) & 0xFFFFFFFF
    return f"__consumer_offsets-{(value & 0x7FFFFFFF) % OFFSETS_PARTITIONS}"


def test_a_lost_majority_is_told_exactly_and_the_cluster_serves_again(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=OFFSETS_PARTITIONS, settings=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, -1)], operation_timeout=20)[TOPIC].result(20)
        told = Acknowledged(cluster.bootstrap)
        reader = Reader(cluster.bootstrap)
        try:
            _lose_and_recover(cluster, told, tmp_path)
            _goes_on(cluster, told, reader)
            _join(cluster, reader)
            _comes_back(cluster, tmp_path / "old-1")
        finally:
            reader.stop()


def _lose_and_recover(cluster: MusterCluster, told: Acknowledged, tmp_path: Path) -> None:
    told.produce(40)
    told.commit(100)
    wait_until("the survivor holds what the idle producer sent", lambda: _holds(cluster), 30)
    cluster.kill(SURVIVOR)
    told.produce(30)
    told.commit(200)
    name = str(cluster.status(LOST[0])["cluster_id"])
    ends = ends_of_offsets(cluster.bootstrap)

    alive = recover(cluster, "--execute", "--cluster-id", name)
    assert (alive.returncode, "it is not lost" in alive.stderr) == (Exit.REFUSED, True), alive.stderr
    cluster.kill(1)
    cluster.freeze(2)
    frozen = recover(cluster, "--execute", "--cluster-id", name)
    assert (frozen.returncode, "does not say who it is" in frozen.stderr) == (Exit.REFUSED, True), frozen.stderr
    cluster.kill(2)
    data_of(cluster, 1).rename(tmp_path / "old-1")
    shutil.rmtree(data_of(cluster, 2))

    looked = recover(cluster, "-o", "json")
    assert looked.returncode == 0, looked.stderr
    document = json.loads(looked.stdout)
    table = recover(cluster)
    assert f"{TOPIC}-0" in table.stdout, table.stdout
    wrong = recover(cluster, "--execute", typed="another\n")
    assert (wrong.returncode, "nothing was changed" in wrong.stderr) == (Exit.REFUSED, True), wrong.stderr
    assert json.loads(recover(cluster, "-o", "json").stdout) == document
    done = recover(cluster, "--execute", typed=f"{name}\n")
    assert done.returncode == 0, done.stderr
    cluster.start_replica(SURVIVOR)
    _judge(cluster, told, {row["partition"]: row for row in document["groups"]}, ends)


def _holds(cluster: MusterCluster) -> bool:
    rows = cluster.admin(SURVIVOR, "/v1/partitions")[1]["partitions"]
    return any((row["topic"], row["partition"]) == (TOPIC, 0) and row["applied"] > 1 for row in rows)


def _judge(cluster: MusterCluster, told: Acknowledged, rows: dict[str, dict[str, Any]], ends: dict[str, int]) -> None:
    """Was `muster recover` right, by what clients had been told?"""
    kept, missing = records(cluster.bootstrap), 0
    for (partition, offset), value in told.records.items():
        row = rows[f"{TOPIC}-{partition}"]
        assert row["certain_end_offset"] <= row["log_end_offset"]
        if offset < row["log_end_offset"]:
            assert kept.get((partition, offset)) == value, "below the end everything is kept"
        else:
            assert (partition, offset) not in kept, "from the end on everything is lost"
            missing += 1
    assert missing >= 30, "what was acknowledged while the survivor was down is lost, and was said to be"
    lost = Counter(offsets_partition(group) for group in GROUPS if not _has_last(cluster, told, group))
    assert lost.total() == len(GROUPS), "the commits of the time when the survivor was down"
    for partition, commits in lost.items():
        said = ends[partition] - rows[partition]["log_end_offset"]
        assert said >= commits, "each lost commit is a record that was said to be missing"


def _has_last(cluster: MusterCluster, told: Acknowledged, group: str) -> bool:
    found = committed(cluster.bootstrap, group)
    assert found in told.commits[group], "a group keeps a commit of its own, and the one before the last at least"
    return found == told.commits[group][-1]


def _goes_on(cluster: MusterCluster, told: Acknowledged, reader: Reader) -> None:
    fresh = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    delivered: list[str] = []

    def done(error: Any, message: Any) -> None:
        assert error is None, error
        delivered.append(message.value().decode())

    for number in range(50):
        fresh.produce(TOPIC, f"alone {number}", partition=number % PARTITIONS, on_delivery=done)
    assert fresh.flush(60) == 0
    assert len(delivered) == 50
    wait_until("the reader has read what came after the recovery", lambda: reader.read >= set(delivered), 90)
    # A producer that lost nothing goes on, each record once.
    before = len(records(cluster.bootstrap))
    told.idle.produce(TOPIC, "idle again", partition=0, on_delivery=done)
    assert told.idle.flush(60) == 0
    assert delivered[-1] == "idle again"
    assert len(records(cluster.bootstrap)) == before + 1
    # One that was promised records which are lost is told so, and its next ones do not take their places.
    told.producer.produce(TOPIC, "behind a gap", partition=0)
    with pytest.raises(KafkaException) as fatal:
        wait_until("it is told", lambda: told.producer.poll(0.1) < 0, 60)
    assert fatal.value.args[0].code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(records(cluster.bootstrap)) == before + 1


def _join(cluster: MusterCluster, reader: Reader) -> None:
    for replica in LOST:
        cluster.start_replica(replica, wait_ready=False)
    for replica in LOST:
        cluster.wait_ready(replica, 60)
    wait_until("every group has its new members", lambda: all_changed(cluster), 60, every=0.5)
    cluster.kill(SURVIVOR)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    delivered: list[Any] = []
    for number in range(20):
        producer.produce(
            TOPIC,
            f"joined {number}",
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: delivered.append(error),
        )
    assert producer.flush(60) == 0
    assert delivered == [None] * 20
    wait_until("the reader goes on", lambda: reader.read >= {f"joined {number}" for number in range(20)}, 90)
    cluster.start_replica(SURVIVOR)


def _comes_back(cluster: MusterCluster, old: Path) -> None:
    """The volume of a lost replica is mounted late."""
    cluster.kill(1)
    shutil.rmtree(data_of(cluster, 1))
    old.rename(data_of(cluster, 1))
    cluster.start_replica(1, wait_ready=False)
    process = cluster._restarted[1]
    wait_until("it has met the others, and ended", lambda: process.poll() is not None, 30)
    cluster.start_replica(1, wait_ready=False)

    def says_so() -> bool:
        try:
            return any("was recovered without this data folder" in one for one in cluster.status(1)["not_ready"])
        except (OSError, AssertionError):
            return False

    wait_until("it says why it stays out", says_so, 30)
    assert cluster.probe(1, "/readyz") == 503
