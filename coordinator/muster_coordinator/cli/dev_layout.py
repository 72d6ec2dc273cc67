"""The folder and ports of a `muster dev` cluster, and the configuration of each of its replicas.

DIR/admin-token            bearer token of the admin API, mode 0600
DIR/pid                    of the supervisor, locked while it runs
DIR/replica-N/server.properties, server.log, pid, data/     N from 0
DIR/replica-N/joined       it did not form the cluster: `muster dev add-broker` made it
DIR/replica-N/removed      it formed the cluster and has left; nothing else is there
DIR/secure/                of a closed cluster only (`muster dev --secure`, `dev_secure`)

Replica N serves clients on P+N, peers on P+100+N, probes on P+200+N and the admin API on P+300+N, all on loopback.
Beside a Kafka (`--set topics.mode=kafka`) P+400+10*N is the first of the ports that stand for its brokers.
"""

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from muster_coordinator.cli.dev_secure import LISTENER, SecureFolder
from muster_coordinator.properties import format_properties, parse_properties
from muster_coordinator.upstream_settings import KAFKA

HOST = "127.0.0.1"
JOINED, REMOVED = "joined", "removed"
PEER_PORTS, PROBE_PORTS, ADMIN_PORTS = 100, 200, 300
UPSTREAM_PORTS, UPSTREAM_PORTS_EACH = 400, 10
GRACE_MS = 15_000
"""Shorter than a pod's minute, because a developer waits for Ctrl-C."""

CLUSTER_ID, FORMED = "muster.cluster.id", "muster.cluster.formed"
SHARED = ("offsets.topic.num.partitions", "muster.wal.file.bytes", "shutdown.grace.ms")
"""Settings that every replica of a cluster has from the same options."""
BROKERS_MAX = 50
"""Of one folder, those that have left included; the ports of a kind lie a hundred apart."""

WAL_FILE_BYTES = 16 * 1024 * 1024
"""New WAL files are zeroed before use: with 64 MiB, three replicas on one disk would take seconds to start."""


@dataclass(frozen=True, slots=True)
class DevLayout:
    """Paths and ports of one local cluster."""

    folder: Path
    replicas: int
    port: int

    @classmethod
    def of_folder(cls, folder: Path) -> "DevLayout":
        """The layout that a cluster was started with. Raises OSError if there is none."""
        for replica in range(BROKERS_MAX):
            path = cls(folder, 0, 0).config_file(replica)
            if path.exists():
                values = parse_properties(path.read_text("utf-8"))
                founders = len(values["controller.quorum.voters"].split(","))
                return cls(folder, founders, int(values["listeners"].rpartition(":")[2]) - replica)
        raise FileNotFoundError(f"{folder} has no cluster of `muster dev`")

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.port + n}" for n in self.present())

    @property
    def supervisor_file(self) -> Path:
        return self.folder / "pid"

    def present(self) -> list[int]:
        """The replicas that belong to the cluster: those that formed it and have not left, and those that joined."""
        return [replica for replica in range(BROKERS_MAX) if self._belongs(replica)]

    def _belongs(self, replica: int) -> bool:
        folder = self.replica_folder(replica)
        return not (folder / REMOVED).exists() if replica < self.replicas else (folder / JOINED).exists()

    def next_id(self) -> int:
        """An id that no replica of this folder has, or had when the cluster was formed. Raises OSError."""
        for replica in range(self.replicas, BROKERS_MAX):
            if not self.replica_folder(replica).exists():
                return replica
        raise OSError(f"{self.folder} has {BROKERS_MAX} brokers, the most there may be")

    @property
    def secure(self) -> SecureFolder:
        """What makes the cluster a closed one, if it is."""
        return SecureFolder(self.folder / "secure")

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

    def upstream_port(self, replica: int) -> int:
        """The first of the ports that stand for brokers of a Kafka beside it."""
        return self.port + UPSTREAM_PORTS + UPSTREAM_PORTS_EACH * replica

    def properties(self, replica: int, partitions: int, extra: dict[str, str]) -> dict[str, str]:
        """Configuration of one replica; `extra` takes precedence."""
        client, peer, probe, admin = self.ports(replica)
        voters = ",".join(f"{n}@{HOST}:{self.ports(n)[1]}" for n in range(self.replicas))
        closed = self.secure.made
        listener = LISTENER if closed else "PLAINTEXT"
        beside = extra.get("topics.mode") == KAFKA
        return {
            "node.id": str(replica),
            "log.dirs": str(self.replica_folder(replica) / "data"),
            "controller.quorum.voters": voters,
            "listeners": f"{listener}://{HOST}:{client}",
            **({"upstream.listeners": f"{listener}://{HOST}:{self.upstream_port(replica)}"} if beside else {}),
            "muster.peer.listener": f"{HOST}:{peer}",
            "muster.probe.listener": f"{HOST}:{probe}",
            "muster.admin.listener": f"{HOST}:{admin}",
            "muster.admin.token.file": str(self.token_file),
            "muster.pid.file": str(self.pid_file(replica)),
            "offsets.topic.num.partitions": str(partitions),
            "muster.wal.file.bytes": str(WAL_FILE_BYTES),
            "shutdown.grace.ms": str(GRACE_MS),
            **(self.secure.settings() if closed else {}),
            **extra,
        }

    def remove(self) -> None:
        """Remove an earlier cluster: only what `write` and the replicas have created, no other files of the folder."""
        for replica in range(BROKERS_MAX):
            shutil.rmtree(self.replica_folder(replica), ignore_errors=True)
        self.token_file.unlink(missing_ok=True)
        self.supervisor_file.unlink(missing_ok=True)
        self.secure.remove()

    def add(self, replica: int, cluster_id: str) -> None:
        """Write the configuration of a replica that joins: the settings of one that is there, under its own id."""
        like = parse_properties(self.config_file(self.present()[0]).read_text("utf-8"))
        own = self.properties(replica, 0, {})
        kept = {key: value for key, value in like.items() if key not in own or own[key] == value or key in SHARED}
        folder = self.replica_folder(replica)
        folder.mkdir(parents=True)
        self._write_config(replica, {**own, **kept, CLUSTER_ID: cluster_id})
        (folder / JOINED).touch()
        for founder in range(self.replicas):
            if self._belongs(founder):
                values = parse_properties(self.config_file(founder).read_text("utf-8"))
                self._write_config(founder, {**values, CLUSTER_ID: cluster_id, FORMED: "true"})

    def retire(self, replica: int) -> None:
        """The replica belongs to the cluster no more. Its process may still run; `forget` removes what it wrote."""
        (self.replica_folder(replica) / REMOVED).touch()
        (self.replica_folder(replica) / JOINED).unlink(missing_ok=True)

    def forget(self, replica: int) -> None:
        """Remove what a retired replica has written. Of one that formed the cluster the id stays taken: it would form
        another one with an empty folder, if it was the only one."""
        folder = self.replica_folder(replica)
        if replica >= self.replicas:
            shutil.rmtree(folder)
            return
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != REMOVED:  # without it for a moment the supervisor would start it
                path.unlink()

    def write(self, partitions: int, extra: dict[str, str]) -> None:
        """Write the configurations, and the token if there is none."""
        joined = [replica for replica in self.present() if replica >= self.replicas]
        ids = {one: parse_properties(self.config_file(one).read_text("utf-8"))[CLUSTER_ID] for one in joined}
        for replica in self.present():
            self.replica_folder(replica).mkdir(parents=True, exist_ok=True)
            values = self.properties(replica, partitions, extra)
            if replica in ids:
                values[CLUSTER_ID] = ids[replica]
            elif ids:  # whoever formed it must not do so again beside those that joined
                values |= {CLUSTER_ID: min(ids.values()), FORMED: "true"}
            self._write_config(replica, values)
        if not self.token_file.exists():
            descriptor = os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as token:
                token.write(secrets.token_urlsafe(32) + "\n")

    def _write_config(self, replica: int, values: dict[str, str]) -> None:
        text = format_properties(values, "Written by muster dev, and again at its next start.")
        self.config_file(replica).write_text(text, "utf-8")
