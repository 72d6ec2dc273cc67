"""The folder and ports of a `muster dev` cluster, and the configuration of each of its replicas.

DIR/admin-token            bearer token of the admin API, mode 0600
DIR/replica-N/server.properties, server.log, pid, data/     N from 0

Replica N serves clients on P+N, peers on P+100+N, probes on P+200+N and the admin API on P+300+N, all on loopback.
"""

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from muster_coordinator.properties import format_properties

HOST = "127.0.0.1"
PEER_PORTS, PROBE_PORTS, ADMIN_PORTS = 100, 200, 300
GRACE_MS = 15_000
"""Shorter than a pod's minute, because a developer waits for Ctrl-C."""

WAL_FILE_BYTES = 16 * 1024 * 1024
"""New WAL files are zeroed before use: with 64 MiB, three replicas on one disk would take seconds to start."""


@dataclass(frozen=True, slots=True)
class DevLayout:
    """Paths and ports of one local cluster."""

    folder: Path
    replicas: int
    port: int

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.port + n}" for n in range(self.replicas))

    @property
    def token_file(self) -> Path:
        return self.folder / "admin-token"

    def replica_folder(self, replica: int) -> Path:
        return self.folder / f"replica-{replica}"

    def config_file(self, replica: int) -> Path:
        return self.replica_folder(replica) / "server.properties"

    def pid_file(self, replica: int) -> Path:
        return self.replica_folder(replica) / "pid"

    def log_file(self, replica: int) -> Path:
        return self.replica_folder(replica) / "server.log"

    def ports(self, replica: int) -> tuple[int, ...]:
        """Ports for clients, peers, probes and admin."""
        return tuple(self.port + offset + replica for offset in (0, PEER_PORTS, PROBE_PORTS, ADMIN_PORTS))

    def properties(self, replica: int, partitions: int, extra: dict[str, str]) -> dict[str, str]:
        """Configuration of one replica; `extra` takes precedence."""
        client, peer, probe, admin = self.ports(replica)
        voters = ",".join(f"{n}@{HOST}:{self.ports(n)[1]}" for n in range(self.replicas))
        return {
            "node.id": str(replica),
            "log.dirs": str(self.replica_folder(replica) / "data"),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{HOST}:{client}",
            "muster.peer.listener": f"{HOST}:{peer}",
            "muster.probe.listener": f"{HOST}:{probe}",
            "muster.admin.listener": f"{HOST}:{admin}",
            "muster.admin.token.file": str(self.token_file),
            "muster.pid.file": str(self.pid_file(replica)),
            "offsets.topic.num.partitions": str(partitions),
            "muster.wal.file.bytes": str(WAL_FILE_BYTES),
            "shutdown.grace.ms": str(GRACE_MS),
            **extra,
        }

    def remove(self) -> None:
        """Remove an earlier cluster: only what `write` and the replicas have created, no other files of the folder."""
        for replica in range(10):
            shutil.rmtree(self.replica_folder(replica), ignore_errors=True)
        self.token_file.unlink(missing_ok=True)

    def write(self, partitions: int, extra: dict[str, str]) -> None:
        """Write the configurations, and the token if there is none."""
        for replica in range(self.replicas):
            self.replica_folder(replica).mkdir(parents=True, exist_ok=True)
            values = self.properties(replica, partitions, extra)
            text = format_properties(values, "Written by muster dev, and again at its next start.")
            self.config_file(replica).write_text(text, "utf-8")
        if not self.token_file.exists():
            descriptor = os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as token:
                token.write(secrets.token_urlsafe(32) + "\n")
