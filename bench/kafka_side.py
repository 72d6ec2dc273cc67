"""Three Kafka brokers as a side of the benchmark, with default settings or with synced topics."""

import contextlib
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from typing_extensions import override

from bench import processes
from bench.compare import KAFKA, KAFKA_FSYNC
from bench.kafka_cluster import KafkaCluster
from bench.sides import ADMIN_TIMEOUT_S, SETTLE_TIMEOUT_S, Cluster, Side, admin_client
from bench.tls import TlsFiles
from tests.cluster import wait_until

SYNCED = ("__consumer_offsets", "__transaction_state", "bench")
"""What is synced with every batch beside Muster, which syncs all; the second is there after the first transaction."""


class Kafka(Cluster):
    name = KAFKA

    def __init__(self, folder: Path, *, partitions: int = 50, tls: bool = False) -> None:
        self.folder = folder
        if tls:
            self.tls = TlsFiles.make(folder.with_name(folder.name + "-tls"))
        self.cluster = KafkaCluster(folder, offsets_partitions=partitions, tls=self.tls)

    @property
    @override
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    @override
    def tls_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.cluster.tls_ports)

    @override
    def pids(self) -> list[int]:
        return [self.cluster.pid(node) for node in range(self.nodes)]

    @override
    def start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.cluster.start()
            # The first FindCoordinator creates the offsets topic, and a broker may be fenced until it has caught up.
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
        if self.tls is not None:
            self.tls.remove()

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
        """Kafka's planned way to hand over leaderships is its controlled shutdown."""
        self.cluster.signal(node, signal.SIGTERM)

    @override
    def back_on_duty(self, node: int) -> None:
        self.cluster.wait_ended(node)
        self.revive(node)

    @override
    def held_bytes(self) -> list[int]:
        return [processes.live_heap_bytes(pid) for pid in self.pids()]

    def set_fsync(self, *, on: bool) -> None:
        """`flush.messages=1` on the topics that are `SYNCED`, or its default."""
        what = AlterConfigOpType.SET if on else AlterConfigOpType.DELETE
        entry = ConfigEntry("flush.messages", "1" if on else None, incremental_operation=what)
        admin = admin_client(self.bootstrap)
        there = admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
        resources = [
            ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
            for topic in SYNCED
            if topic in there
        ]
        for future in admin.incremental_alter_configs(resources).values():
            future.result(ADMIN_TIMEOUT_S)
        time.sleep(0.5)  # brokers receive it through the metadata log


class KafkaFsync(Side):
    """The same brokers, with every record synced: Muster's durability instead of Kafka's default."""

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
        """Nothing: the side `Kafka` stops the brokers."""

    @contextlib.contextmanager
    @override
    def active(self) -> Iterator[None]:
        self._kafka.set_fsync(on=True)
        try:
            yield
        finally:
            self._kafka.set_fsync(on=False)
