"""A lost volume on real processes: the replica comes back under its id with an empty folder, and holds everything."""

import hashlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli.exits import Exit

from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import records_of
from tests.live_files import live_contents, live_paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TOPIC, GROUP = "kept", "readers"
SETTINGS = {
    "muster.segment.flush.ms": "500",
    "muster.leadership.takeback.ms": "1000",
    "muster.balancer.quiet.ms": "-1",
    "muster.decommission.redirect.ms": "1000",
}
REPLACED_SECONDS_MAX = 60


class Clients:
    """An idempotent producer, and a member of a group that commits what it has read."""

    def __init__(self, bootstrap: str) -> None:
        self._over = threading.Event()
        self.sent: list[str] = []
        self.delivered: list[str] = []
        self.read: list[str] = []
        self.assignments = 0
        self._bootstrap = bootstrap
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 5})

        def done(error: Any, message: Any) -> None:
            if error is None:
                self.delivered.append(message.value().decode())

        while not self._over.wait(0.005):
            self.sent.append(f"{len(self.sent):06d} {'x' * 300}")
            producer.produce(TOPIC, self.sent[-1], partition=0, on_delivery=done)
            producer.poll(0)
        assert producer.flush(60) == 0

    def _consume(self) -> None:
        consumer = Consumer({
            "bootstrap.servers": self._bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        })  # fmt: skip

        def assigned(*_: Any) -> None:
            self.assignments += 1

        consumer.subscribe([TOPIC], on_assign=assigned)
        while not self._over.is_set():
            for message in consumer.consume(100, 0.2):
                if message.error() is None:
                    self.read.append(message.value().decode())
            if self.read and not self._over.is_set():
                consumer.commit(asynchronous=True)
        consumer.close()

    def goes_on(self, seconds: float = 30) -> None:
        """Something sent from now on was delivered, and something delivered from now on was read."""
        sent, read = len(self.sent), len(self.read)
        wait_until("the producer goes on", lambda: len(self.delivered) > sent, seconds)
        wait_until("the consumer goes on", lambda: len(self.read) > read, seconds)

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(90)
            assert not thread.is_alive()


@contextmanager
def served(cluster: MusterCluster) -> Iterator[Clients]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, -1)], operation_timeout=20)[TOPIC].result(20)
    clients = Clients(cluster.bootstrap)
    try:
        clients.goes_on()
        yield clients
    finally:
        clients.stop()


def muster(cluster: MusterCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "cluster", *words, "--dev", str(cluster.folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def data_of(cluster: MusterCluster, replica: int) -> Path:
    return cluster.folder / f"replica-{replica}" / "data"


def controller(cluster: MusterCluster) -> int:
    def known() -> list[int]:
        told = {cluster.status(n)["controller"]["leader"] for n in cluster.alive()}
        return list(told) if len(told) == 1 and None not in told else []

    return wait_until("a controller", known, 20)[0]


def folder_of(cluster: MusterCluster, replica: int) -> str:
    brokers = cluster.status(replica)["brokers"]
    return next(str(one["replica_uuid"]) for one in brokers if one["broker"] == replica)


def replace(cluster: MusterCluster, lost: int, folder: str) -> None:
    """As the runbook says, asked again while the others agree on leaders."""

    def done() -> bool:
        answer = muster(cluster, "replace", str(lost), "--folder", folder)
        assert answer.returncode in (0, Exit.UNREACHABLE, Exit.REFUSED), (answer.stdout, answer.stderr)
        return answer.returncode == 0

    wait_until("it is declared gone", done, 30, every=0.5)


def all_changed(cluster: MusterCluster) -> bool:
    statuses = [cluster.status(n) for n in range(cluster.replicas)]
    groups = {row["group"] for n in range(cluster.replicas) for row in leading(cluster, n)}
    held = {row["group"] for row in cluster.admin(0, "/v1/partitions")[1]["partitions"]}
    return not any(one["groups_to_change"] for one in statuses) and groups >= held


def leading(cluster: MusterCluster, replica: int) -> list[dict[str, Any]]:
    rows = cluster.admin(replica, "/v1/partitions")[1]["partitions"]
    return [row for row in rows if row["role"] == "leader"]


def stored(cluster: MusterCluster, replica: int) -> str:
    """SHA-256 of all that a replica's segments of the topic hold."""
    logs = live_paths(cluster.folder / f"replica-{replica}", f"**/{TOPIC}-0/*.log")
    return hashlib.sha256(b"".join(data for _, data in live_contents(logs))).hexdigest()


def test_lost_volumes_are_replaced_one_after_the_other_under_clients_without_a_rebalance(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=10, settings=SETTINGS) as cluster, served(cluster) as clients:
        first = controller(cluster)
        for lost in (first, (first + 1) % 3):
            folder = folder_of(cluster, lost)
            cluster.kill(lost)
            shutil.rmtree(data_of(cluster, lost))
            cluster.start_replica(lost, wait_ready=False)
            clients.goes_on()
            replace(cluster, lost, folder)
            replace(cluster, lost, folder)  # again, and it changes no more
            cluster.wait_ready(lost, REPLACED_SECONDS_MAX)
            wait_until("every group has its new member", lambda: all_changed(cluster), REPLACED_SECONDS_MAX, every=0.5)
            clients.goes_on()
        # Of three replicas two are new. Without the one that is not, they are the cluster.
        cluster.kill((first + 2) % 3)
        clients.goes_on()
        cluster.start_replica((first + 2) % 3)
        clients.goes_on()
        clients.stop()
        assert clients.assignments == 1, "nobody rebalanced"
        assert clients.delivered == clients.sent
        assert records_of(cluster.bootstrap, TOPIC, 0) == clients.sent, "each record once, in order"
        assert cluster.stop() == 0
        assert len({stored(cluster, n) for n in range(3)}) == 1


def test_a_folder_that_was_declared_gone_stays_out_when_it_comes_back(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=3, settings=SETTINGS) as cluster, served(cluster) as clients:
        lost = (controller(cluster) + 1) % 3
        folder = folder_of(cluster, lost)
        alive = muster(cluster, "replace", str(lost), "--folder", folder)
        assert (alive.returncode, "stop it first" in alive.stderr) == (Exit.REFUSED, True)
        cluster.kill(lost)
        data_of(cluster, lost).rename(tmp_path / "old")
        replace(cluster, lost, folder)
        status = muster(cluster, "status")
        assert "waits for a new data folder" in status.stdout + status.stderr
        cluster.start_replica(lost)
        wait_until("every group has its new member", lambda: all_changed(cluster), REPLACED_SECONDS_MAX, every=0.5)
        cluster.kill(lost)
        shutil.rmtree(data_of(cluster, lost))
        (tmp_path / "old").rename(data_of(cluster, lost))
        cluster.start_replica(lost, wait_ready=False)

        def says_so() -> bool:
            try:
                return any("declared gone for good" in reason for reason in cluster.status(lost)["not_ready"])
            except (OSError, AssertionError):
                return False

        wait_until("it says that it was replaced", says_so, 30)
        assert cluster.probe(lost, "/readyz") == 503
        clients.goes_on()
