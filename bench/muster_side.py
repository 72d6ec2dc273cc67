"""Muster replicas, usually three, as a side of the benchmark."""

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from muster_coordinator.cli.dev_layout import WAL_FILE_BYTES
from muster_coordinator.properties import format_properties, parse_properties
from typing_extensions import override

from bench import processes
from bench.compare import BEFORE, MUSTER
from bench.errors import RunFailed
from bench.kafka_side import Kafka
from bench.sides import ADMIN_TIMEOUT_S, Cluster
from bench.tls import TLS_LISTENER, TlsFiles
from tests.cluster import MusterCluster, wait_until
from tests.redis_streams.redis_server import RedisServer
from tests.releases.release import FIRST, Release

UNEVEN_MAX = 0.05
"""Largest difference between the most and the fewest leaderships per replica, as a share of all, that affects no
figure."""
COORDINATOR_BASE = 1_000_000
"""`upstream.coordinator.node.id.base`, by default."""
SPREAD_TIMEOUT_S = 420
"""Enough for a thousand leaderships of which a third has to move."""


class Muster(Cluster):
    def __init__(
        self,
        folder: Path,
        *,
        replicas: int = 3,
        partitions: int = 50,
        settings: Mapping[str, str] | None = None,
        tls: bool = False,
        redis: bool = False,
        beside: Kafka | None = None,
        name: str = MUSTER,
    ) -> None:
        """`name`: of `compare`; `BEFORE` runs that release. `redis`: with a server beside it, in memory only. `beside`:
        the brokers whose topics are used; they are started and stopped with it."""
        self.name = name
        self.nodes = replicas
        self.beside = beside
        if beside is not None:
            settings = {
                "topics.mode": "kafka",
                "upstream.bootstrap.servers": beside.bootstrap,
                "upstream.node.ids": f"0-{beside.nodes - 1}",
                **(settings or {}),
            }
        self.redis: RedisServer | None = None
        if redis:
            beside = folder.with_name(folder.name + "-redis")
            beside.mkdir(parents=True)
            self.redis = RedisServer(beside, keeps=False)
            url = f"redis://127.0.0.1:{self.redis.port}/0"
            settings = {"redis.url": url, "redis.durability": "memory", **(settings or {})}
        self.cluster = MusterCluster(
            folder,
            replicas=replicas,
            partitions=partitions,
            settings={"muster.wal.file.bytes": str(WAL_FILE_BYTES), **(settings or {})},
            room_for=replicas if tls else 0,
        )
        if name == BEFORE:
            self.cluster.environment = Release(FIRST).environment
        if tls:
            self.tls = TlsFiles.make(folder.with_name(folder.name + "-tls"))

    @property
    @override
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @override
    def pids(self) -> list[int]:
        """Of those that run: one may be killed and not revived yet."""
        pids = [self.cluster.pid(node) for node in range(self.nodes)]
        return [pid for pid in pids if processes.runs(pid)]

    @property
    @override
    def tls_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._tls_port(node)}" for node in range(self.nodes))

    def _tls_port(self, node: int) -> int:
        return self.cluster.client_port(self.nodes + node)

    @override
    def start(self) -> None:
        if self.redis is not None:
            self.redis.start()
        if self.beside is not None:
            self.beside.start()
        self.cluster.start()
        if self.tls is not None:
            for node in range(self.nodes):
                self._add_tls(node, self.tls)

    def _add_tls(self, node: int, tls: TlsFiles) -> None:
        """A second listener, as a person adds one: by the replica's settings and another start."""
        config = self.cluster.folder / f"replica-{node}" / "server.properties"
        values = parse_properties(config.read_text())
        values["listeners"] += f",{TLS_LISTENER}://127.0.0.1:{self._tls_port(node)}"
        values["listener.security.protocol.map"] = f"PLAINTEXT:PLAINTEXT,{TLS_LISTENER}:SSL"
        values["ssl.keystore.certificate.chain"] = str(tls.certificate)
        values["ssl.keystore.key"] = str(tls.key)
        config.write_text(format_properties(values, "a replica of a benchmark, with TLS"))
        self.cluster.kill(node, signal.SIGTERM)
        wait_until("it is gone", lambda: self.cluster.probe(node, "/livez") == 0, ADMIN_TIMEOUT_S)
        self.cluster.start_replica(node)

    @override
    def logs(self) -> list[Path]:
        return [path for path in (self.cluster.output, *self.cluster.folder.glob("replica-*/*.log")) if path.is_file()]

    @override
    def stop(self) -> None:
        self.cluster.close()
        shutil.rmtree(self.cluster.folder, ignore_errors=True)
        if self.beside is not None:
            self.beside.stop()
        if self.redis is not None:
            self.redis.close()
            shutil.rmtree(self.redis.folder, ignore_errors=True)
        if self.tls is not None:
            self.tls.remove()

    @override
    def coordinator(self, group: str) -> int:
        node = super().coordinator(group)
        return node if self.beside is None else node - COORDINATOR_BASE

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
