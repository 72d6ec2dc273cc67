"""Groups beside three real Kafka brokers that are killed, lead in turn and get partitions, under each client's members.

Muster coordinates, Kafka keeps the records. In minutes of that: what was acknowledged is read by every group, no group
is known to Kafka, and no process but our replicas and the brokers themselves has a connection to a broker. The short
form has one fault of each kind; MUSTER_BESIDE=whole (`make beside`, in the nightly) is ten minutes.
"""

import contextlib
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from bench.kafka_cluster import BROKERS, KafkaCluster
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.integration.connections import processes_connected_to

# Three brokers, three replicas and eight members: beside them nothing else keeps its times.
pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.quiet, pytest.mark.timeout(1_200)]

WHOLE = os.environ.get("MUSTER_BESIDE") == "whole"
SECONDS = 600.0 if WHOLE else 20.0
CLIENTS = ("librdkafka", "kafka-python", "aiokafka", "java")
PARTITIONS, MORE_PARTITIONS = 4, 8
PATIENCE_S = 120.0
AWAY_S = 4.0
RATE = 40
"""Records a second."""
SEED = 5


class Writer(threading.Thread):
    """An idempotent producer through Muster; what was acknowledged is in `acknowledged`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, "linger.ms": 20,
                "message.timeout.ms": 1000 * PATIENCE_S, "topic.metadata.refresh.interval.ms": 1000,
            }
        )  # fmt: skip
        self._topic = topic
        self._over = threading.Event()
        self.acknowledged: set[str] = set()
        self.failed: list[str] = []

    def run(self) -> None:
        for number in itertools.count():
            if self._over.wait(1 / RATE):
                break
            value = str(number)
            self._producer.produce(self._topic, value, on_delivery=lambda error, _, v=value: self._told(error, v))
            self._producer.poll(0)
        left = self._producer.flush(PATIENCE_S)
        if left:
            self.failed.append(f"{left} records were not told")

    def _told(self, error: object, value: str) -> None:
        if error:
            self.failed.append(f"{value}: {error}")
        else:
            self.acknowledged.add(value)

    def end(self) -> None:
        self._over.set()
        if self.ident is not None:
            self.join(2 * PATIENCE_S)


class Watch(threading.Thread):
    """Who is connected to a broker of Kafka, and which groups it knows, again and again."""

    def __init__(self, kafka: KafkaCluster, ours: Callable[[], set[int]]) -> None:
        super().__init__(daemon=True)
        self._kafka = kafka
        self._ours = ours
        self._over = threading.Event()
        self.strangers: set[int] = set()
        self.looks = 0

    def run(self) -> None:
        while not self._over.wait(0.5):
            before = self._ours()
            found = set().union(*(processes_connected_to(port) for port in self._kafka.ports))
            self.strangers |= found - before - self._ours()
            self.looks += 1

    def end(self) -> None:
        self._over.set()
        if self.ident is not None:
            self.join(PATIENCE_S)


class World:
    def __init__(self, kafka: KafkaCluster, muster: MusterCluster) -> None:
        self.kafka, self.muster = kafka, muster
        self.rand = random.Random(SEED)

    def ours(self) -> set[int]:
        """Replicas, and brokers, which talk to each other."""
        found = {os.getpid()}  # it asks Kafka which groups there are
        for node in range(BROKERS):
            with contextlib.suppress(KeyError):  # one that is killed just now has none
                found.add(self.kafka.pid(node))
        for replica in range(self.muster.replicas):
            found.add(self.muster.pid(replica))
        return found

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.muster.bootstrap, "log_level": 0})

    def groups_of_kafka(self) -> list[str]:
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 0})
        return [group.group_id for group in admin.list_consumer_groups().result(PATIENCE_S).valid]

    # -- faults

    def kill_a_broker(self) -> None:
        node = self.rand.randrange(BROKERS)
        self.kafka.signal(node, 9)
        _pass(AWAY_S)
        self.kafka.start_broker(node)

    def move_leaders(self) -> None:
        """Back to the preferred ones, which a killed broker has lost."""
        admin = self.admin()
        try:
            admin.elect_leaders(ElectionType.PREFERRED).result(PATIENCE_S)
        except KafkaException as error:
            print("elect leaders:", error)

    def kill_a_replica(self) -> None:
        replica = self.rand.randrange(self.muster.replicas)
        self.muster.kill(replica)
        _pass(AWAY_S)
        self.muster.start_replica(replica)


def _pass(seconds: float) -> None:
    """So much of the processes' own time."""
    until_s = time.monotonic() + seconds
    wait_until("the time is over", lambda: time.monotonic() > until_s, seconds + 10, every=0.2)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    kafka = KafkaCluster(tmp_path / "kafka", offsets_partitions=5)
    try:
        kafka.start()
        settings = {
            "topics.mode": "kafka",
            "upstream.bootstrap.servers": kafka.bootstrap,
            "upstream.node.ids": "0-2",
            "muster.leadership.takeback.ms": "5000",
        }
        with MusterCluster(tmp_path / "muster", partitions=8, settings=settings) as muster:
            yield World(kafka, muster)
    finally:
        kafka.stop()


def test_members_live_through_what_happens_to_kafka_and_to_us(world: World) -> None:
    topic = "beside"
    admin = world.admin()
    wait_until("a topic", lambda: _made(admin, topic), PATIENCE_S, every=1)
    members = [
        Member(client, bootstrap=world.muster.bootstrap, group=f"group-{client}", topics=[topic], auto_commit_ms=1000,
               session_ms=20_000, poll_ms=60_000)
        for client in CLIENTS for _ in range(2)
    ]  # fmt: skip
    watch, writer = Watch(world.kafka, world.ours), Writer(world.muster.bootstrap, topic)
    try:
        for one in members:
            one.wait("half of the partitions", lambda m: len(m.assigned) == PARTITIONS // 2, PATIENCE_S)
        watch.start()
        writer.start()
        faults = [world.kill_a_broker, world.move_leaders, world.kill_a_replica]
        ends_s, done = time.monotonic() + SECONDS, 0
        while time.monotonic() < ends_s or done < len(faults):
            faults[done % len(faults)]()
            done += 1
            if done == len(faults):
                wait_until("more partitions", lambda: _grown(admin, topic), PATIENCE_S, every=1)
            assert world.groups_of_kafka() == []
            ended = [one.ended() for one in members if one.ended()]
            assert not ended, ended
            _pass(2)
        writer.end()
        assert writer.failed == []
        assert len(writer.acknowledged) > RATE * SECONDS / 4
        for client in CLIENTS:
            pair = [one for one in members if one.client == client]
            read = lambda _, both=pair: {r[4] for one in both for r in one.records} >= writer.acknowledged  # noqa: E731
            pair[0].wait("every acknowledged record in its group", read, PATIENCE_S)
            assert sum(len(one.assigned) for one in pair) == MORE_PARTITIONS
        watch.end()
        assert (watch.strangers, watch.looks > SECONDS / 4) == (set(), True)
        assert world.groups_of_kafka() == []
        print(f"{done} faults, {len(writer.acknowledged)} records, {watch.looks} looks at sockets")
    finally:
        watch.end()
        for one in members:
            one.dispose()
        writer.end()


def _grown(admin: AdminClient, topic: str) -> bool:
    """A replica that came back stands for its brokers itself again. librdkafka closes the connection to a broker whose
    address has changed, also under a request of an administrator, which it does not repeat: people do."""
    try:
        admin.create_partitions([NewPartitions(topic, MORE_PARTITIONS)])[topic].result(10)
    except KafkaException as error:
        return f"already has {MORE_PARTITIONS} partition" in str(error)
    return True


def _made(admin: AdminClient, topic: str) -> bool:
    try:
        admin.create_topics([NewTopic(topic, PARTITIONS, BROKERS)])[topic].result(10)
    except KafkaException as error:
        return "ALREADY_EXISTS" in str(error)
    return True
