"""Muster replicas, usually three, as a side of the benchmark."""

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override

from bench import processes
from bench.compare import MUSTER
from bench.errors import RunFailed
from bench.sides import ADMIN_TIMEOUT_S, Cluster
from tests.cluster import MusterCluster, wait_until

UNEVEN_MAX = 0.05
"""Largest difference between the most and the fewest leaderships per replica, as a share of all, that affects no
figure."""
SPREAD_TIMEOUT_S = 420
"""Enough for a thousand leaderships of which a third has to move."""


class Muster(Cluster):
    name = MUSTER

    def __init__(
        self, folder: Path, *, replicas: int = 3, partitions: int = 50, settings: Mapping[str, str] | None = None
    ) -> None:
        self.nodes = replicas
        self.cluster = MusterCluster(folder, replicas=replicas, partitions=partitions, settings=dict(settings or {}))

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
        self.cluster.close()
        shutil.rmtree(self.cluster.folder, ignore_errors=True)

    @override
    def settle(self) -> None:
        """Wait until every replica leads about a third: preferred leaderships are taken back after 30 s, two per
        second."""

        def spread() -> bool:
            led = [self.metric(node, "muster_leaderships") for node in range(self.nodes)]
            return max(led) - min(led) <= max(2, sum(led) * UNEVEN_MAX)

        wait_until("leaderships are spread", spread, SPREAD_TIMEOUT_S, 0.5)

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
