"""What is measured: three Muster replicas, three Kafka brokers, and echo servers that do as little as can be done.

A `Cluster` can be killed, frozen, drained and asked for its coordinator in the same words on both sides, so that a row
is written once. Data lie under `.cache/bench/`, on the disk the checkout is on.
"""

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from typing_extensions import override

from bench import generator, processes
from bench.compare import DISK, ECHO, KAFKA, KAFKA_FSYNC, MUSTER, UVLOOP
from bench.errors import RunFailed
from bench.kafka_cluster import BROKERS, KafkaCluster
from tests.cluster import MusterCluster, wait_until
from tests.kafka_broker import free_ports
from tests.raw_group import find_coordinator

ADMIN_TIMEOUT_S = 60
SETTLE_TIMEOUT_S = 60
OFFSETS_TOPIC = "__consumer_offsets"


def admin_client(bootstrap: str) -> AdminClient:
    """Silent about servers that come and go: here they are meant to."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


class Side(ABC):
    """Something that answers the load generator."""

    name: str
    echoed = False
    """Whether it sends back what it gets instead of speaking the protocol."""

    @property
    @abstractmethod
    def bootstrap(self) -> str: ...

    @abstractmethod
    def pids(self) -> list[int]:
        """All its server processes."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Around each run."""
        yield


class Cluster(Side):
    """Three servers with broker ids 0, 1, 2."""

    nodes = BROKERS

    def create_topics(self, topics: Mapping[str, int]) -> None:
        if not topics:
            return
        admin = admin_client(self.bootstrap)
        made = admin.create_topics([NewTopic(name, count, self.nodes) for name, count in topics.items()])
        for future in made.values():
            future.result(ADMIN_TIMEOUT_S)

    def coordinator(self, group: str) -> int:
        return find_coordinator(self.bootstrap, group, ADMIN_TIMEOUT_S)[0]

    def settle(self) -> None:
        """Wait until nothing moves by itself any more."""

    @abstractmethod
    def kill(self, node: int) -> None:
        """SIGKILL."""

    @abstractmethod
    def revive(self, node: int, *, wait: bool = True) -> None:
        """Start a server that was killed or that left."""

    @abstractmethod
    def signal(self, node: int, number: signal.Signals) -> None: ...

    @abstractmethod
    def drain(self, node: int) -> None:
        """Take a server out of duty as an operator of it would; returns at once."""

    @abstractmethod
    def back_on_duty(self, node: int) -> None:
        """Undo `drain`."""

    @abstractmethod
    def held_bytes(self) -> list[int]:
        """Memory that the state takes, per server: RSS of a replica, live heap of a JVM."""


class Muster(Cluster):
    name = MUSTER

    def __init__(self, folder: Path, *, partitions: int = 50, settings: Mapping[str, str] | None = None) -> None:
        self.cluster = MusterCluster(folder, partitions=partitions, settings=dict(settings or {}))

    @property
    @override
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @override
    def pids(self) -> list[int]:
        return [self.cluster.pid(node) for node in range(self.nodes)]

    @override
    def start(self) -> None:
        self.cluster.start()

    @override
    def stop(self) -> None:
        self.cluster.stop()
        shutil.rmtree(self.cluster.folder, ignore_errors=True)

    @override
    def settle(self) -> None:
        """Preferred leaderships are taken back after 30 s; then every replica leads a third."""

        def spread() -> bool:
            led = [self.metric(node, "muster_leaderships") for node in range(self.nodes)]
            return max(led) - min(led) <= 2

        wait_until("leaderships are spread", spread, SETTLE_TIMEOUT_S, 0.5)

    def metric(self, node: int, name: str) -> float:
        for line in self.cluster.metrics(node).splitlines():
            if line.startswith(name + " "):
                return float(line.rpartition(" ")[2])
        raise RunFailed(f"replica {node} has no metric {name}")

    @override
    def kill(self, node: int) -> None:
        self.cluster.kill(node)

    @override
    def revive(self, node: int, *, wait: bool = True) -> None:
        self.cluster.start_replica(node, wait_ready=wait)

    @override
    def signal(self, node: int, number: signal.Signals) -> None:
        self.cluster.kill(node, number)

    @override
    def drain(self, node: int) -> None:
        code, body = self.cluster.admin(node, "/v1/drain", post={})
        if code != 202:
            raise RunFailed(f"drain of replica {node}: {code} {body}")

    @override
    def back_on_duty(self, node: int) -> None:
        wait_until("drained", lambda: self.cluster.status(node)["drain"]["phase"] == "drained", ADMIN_TIMEOUT_S)
        code, body = self.cluster.admin(node, "/v1/undrain", post={})
        if code >= 300:
            raise RunFailed(f"undrain of replica {node}: {code} {body}")

    @override
    def held_bytes(self) -> list[int]:
        return [processes.resident_bytes(pid) for pid in self.pids()]


class Kafka(Cluster):
    name = KAFKA

    def __init__(self, folder: Path, *, partitions: int = 50) -> None:
        self.folder = folder
        self.cluster = KafkaCluster(folder, offsets_partitions=partitions)

    @property
    @override
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @override
    def pids(self) -> list[int]:
        return [self.cluster.pid(node) for node in range(self.nodes)]

    @override
    def start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.cluster.start()
            # The offsets topic is made with the first look-up, and a broker may be fenced until it has caught up.
            wait_until("all brokers are in", self._all_in, SETTLE_TIMEOUT_S, 0.5)
            self.coordinator("first")
        except BaseException:
            self.stop()
            raise

    def _all_in(self) -> bool:
        brokers = admin_client(self.bootstrap).list_topics(timeout=ADMIN_TIMEOUT_S).brokers
        return len(brokers) == self.nodes

    @override
    def stop(self) -> None:
        self.cluster.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @override
    def kill(self, node: int) -> None:
        self.cluster.signal(node, signal.SIGKILL)

    @override
    def revive(self, node: int, *, wait: bool = True) -> None:
        self.cluster.start_broker(node, wait=wait)
        if wait:
            wait_until("all brokers are in", self._all_in, SETTLE_TIMEOUT_S, 0.5)

    @override
    def signal(self, node: int, number: signal.Signals) -> None:
        self.cluster.signal(node, number)

    @override
    def drain(self, node: int) -> None:
        """Kafka's way out of duty is its controlled shutdown."""
        self.cluster.signal(node, signal.SIGTERM)

    @override
    def back_on_duty(self, node: int) -> None:
        self.cluster.wait_ended(node)
        self.revive(node)

    @override
    def held_bytes(self) -> list[int]:
        return [processes.live_heap_bytes(pid) for pid in self.pids()]

    def set_offsets_fsync(self, *, on: bool) -> None:
        """`flush.messages=1` on the offsets topic, or its default."""
        what = AlterConfigOpType.SET if on else AlterConfigOpType.DELETE
        entry = ConfigEntry("flush.messages", "1" if on else None, incremental_operation=what)
        resource = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS_TOPIC, incremental_configs=[entry])
        admin = admin_client(self.bootstrap)
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(ADMIN_TIMEOUT_S)
        time.sleep(0.5)  # brokers learn of it from the metadata log


class KafkaFsync(Side):
    """The same brokers, every record of the offsets topic synced: Muster's promise, not Kafka's as shipped."""

    name = KAFKA_FSYNC

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    @property
    @override
    def bootstrap(self) -> str:
        return self._kafka.bootstrap

    @override
    def pids(self) -> list[int]:
        return self._kafka.pids()

    @override
    def start(self) -> None:
        """Runs already."""

    @override
    def stop(self) -> None:
        """Whoever started Kafka stops it."""

    @contextlib.contextmanager
    @override
    def active(self) -> Iterator[None]:
        self._kafka.set_offsets_fsync(on=True)
        try:
            yield
        finally:
            self._kafka.set_offsets_fsync(on=False)


class Disk(Side):
    """No server at all: the row does the work itself."""

    name = DISK

    @property
    @override
    def bootstrap(self) -> str:
        raise AssertionError("a disk has no address")

    @override
    def pids(self) -> list[int]:
        return []

    @override
    def start(self) -> None:
        """Nothing to start."""

    @override
    def stop(self) -> None:
        """Nothing to stop."""


class Echo(Side):
    """Echo servers: as many processes of uvloop as there are replicas, or the generator's own compiled one."""

    echoed = True

    def __init__(self, name: str) -> None:
        self.name = name
        count = BROKERS if name == UVLOOP else 1
        self._ports = free_ports(count)
        self._processes: list[subprocess.Popen[str]] = []

    @property
    @override
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    @override
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    @override
    def start(self) -> None:
        for port in self._ports:
            command = [sys.executable, "-m", "bench.echo_uvloop", str(port)]
            if self.name == ECHO:
                command = [str(generator.binary()), "echo", f"--port={port}"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self._processes.append(process)
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise RunFailed(f"{self.name} did not start")

    @override
    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._processes.clear()
