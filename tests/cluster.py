"""A real Muster cluster of processes on loopback, for tests and benchmarks: start, kill, freeze, restart, ask, stop.

It drives the product as a person does: `muster dev` starts the replicas, pid files name them, a dead replica is started
again with `muster server --config DIR/replica-N/server.properties`, questions go to the admin port with the token.
"""

import contextlib
import json
import mmap
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from muster_coordinator.cli.dev_layout import DevLayout
from muster_coordinator.cli.port_block import PortBlock
from muster_coordinator.properties import format_properties

START_SECONDS_MAX = 150
"""Three replicas use six seconds of a processor, of which beside twenty other processes they get a tenth."""
STOP_SECONDS_MAX = 30
WAL_FILE_BYTES = 4 * 1024 * 1024
"""New WAL files are zeroed, two for each of a replica's two WALs. With those of `muster dev` the clusters of a suite
wrote 20 GB of zeros."""
CANARY = b"canary"
"""In every password of a test."""


def wait_until(what: str, check: Callable[[], Any], seconds: float, every: float = 0.05) -> Any:
    """Poll `check` until it returns something true; its last value is in the error otherwise."""
    deadline = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what} (last: {value!r})")
        time.sleep(every)


def watch_stays(what: str, check: Callable[[], Any], seconds: float, every: float = 0.1) -> None:
    """Poll `check` for so long, of a real process' own clock; fail at once when it is not true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = check()
        if not value:
            raise AssertionError(f"it does not stay so: {what} (now: {value!r})")
        time.sleep(every)


def port_block(replicas: int = 5, *, beside_kafka: bool = False) -> PortBlock:
    """Ports for a cluster that no other test, worker or demo on this machine takes until it is closed."""
    return PortBlock.take(replicas, first=11_000 + (os.getpid() * 7) % 300 * 60, beside_kafka=beside_kafka)


def free_port_base(replicas: int = 5) -> int:
    """A port P so that P..P+n and the same +100, +200, +300 are free now; below the ephemeral range."""
    with port_block(replicas) as found:
        return found.base


LIVE: weakref.WeakSet["MusterCluster"] = weakref.WeakSet()
"""Clusters that were started and not closed yet: a failure tells what they said last (`tests/failures.py`)."""


class MusterCluster:
    """`with MusterCluster(folder) as cluster: ...`"""

    def __init__(
        self,
        folder: Path,
        *,
        replicas: int = 3,
        partitions: int = 50,
        settings: dict[str, str] | None = None,
        room_for: int = 0,
    ) -> None:
        """`room_for`: how many replicas may join later."""
        self.folder = folder
        self.replicas = replicas
        self.partitions = partitions
        self.settings = {"muster.wal.file.bytes": str(WAL_FILE_BYTES), **(settings or {})}
        beside_kafka = self.settings.get("topics.mode") == "kafka"
        self._block = port_block(replicas + room_for, beside_kafka=beside_kafka)
        self.port = self._block.base
        self.output = folder.with_name(folder.name + ".log")
        self.environment: dict[str, str] | None = None
        """Of processes that are started from now on; None: this one's. Another release runs by it (tests/releases)."""
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._restarted: dict[int, subprocess.Popen[bytes]] = {}

    # --- life

    def __enter__(self) -> "MusterCluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stopped for good: its ports may be taken by others. And no suite's cluster has said a secret."""
        try:
            self.stop()
        finally:
            self._block.close()
            LIVE.discard(self)
        found = self.secrets_said()
        assert not found, found

    def secrets_said(self) -> list[str]:
        """Where an output or a log has the admin token, or a password of a test (all of them have `canary` in them)."""
        secrets = [("canary", CANARY)]
        with contextlib.suppress(OSError):
            secrets += [("the admin token", one) for one in (self.folder / "admin-token").read_bytes().split()]
        found = []
        for path in (self.output, *self.folder.glob("replica-*/*.log")):
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as said:
                    found += [f"{name} in {path}" for name, secret in secrets if said.find(secret) >= 0]
        return found

    def start(self, *, fresh: bool = True) -> None:
        command = [sys.executable, "-m", "muster_coordinator.cli.main", "dev", "--data", str(self.folder)]
        command += ["--replicas", str(self.replicas), "--port", str(self.port), "--partitions", str(self.partitions)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        if fresh:
            command.append("--fresh")
        self.output.parent.mkdir(parents=True, exist_ok=True)
        LIVE.add(self)
        with self.output.open("ab") as log:
            mark = self.output.stat().st_size
            self._supervisor = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=self.environment
            )
        try:
            wait_until("muster dev is ready", lambda: self._ready(mark), START_SECONDS_MAX)
        except AssertionError as error:
            tail = self.output.read_text(errors="replace")[-4000:]
            self.close()
            raise AssertionError(f"{error}\n--- {self.output}\n{tail}") from None

    def _ready(self, mark: int) -> bool:
        assert self._supervisor is not None
        if self._supervisor.poll() is not None:
            raise AssertionError(f"muster dev ended with {self._supervisor.returncode}")
        return b"ready bootstrap=" in self.output.read_bytes()[mark:]

    def stop(self) -> int | None:
        """Ctrl-C, as a person would; whatever is left after the grace is killed."""
        code: int | None = None
        for process in self._restarted.values():
            if process.poll() is None:
                process.terminate()
        if self._supervisor is not None and self._supervisor.poll() is None:
            self._supervisor.send_signal(signal.SIGINT)
            try:
                code = self._supervisor.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._supervisor.pid, signal.SIGKILL)
                self._supervisor.wait()
        for process in self._restarted.values():
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._supervisor = None
        self._restarted.clear()
        return code

    # --- one replica

    def add_replica(self, replica: int, *, wait_ready: bool = True, settings: dict[str, str] | None = None) -> None:
        """Configure one that did not form the cluster, and start it with an empty folder. `settings` are its own."""
        layout = DevLayout(self.folder, self.replicas, self.port)
        layout.replica_folder(replica).mkdir()
        more = {**self.settings, "muster.cluster.id": self.status(0)["cluster_id"], **(settings or {})}
        text = format_properties(layout.properties(replica, self.partitions, more), "of a replica that joins")
        layout.config_file(replica).write_text(text, "utf-8")
        self.start_replica(replica, wait_ready=wait_ready)

    def pid(self, replica: int) -> int:
        process = self._restarted.get(replica)
        if process is not None:
            return process.pid  # the file may still be that of the life before
        return int((self.folder / f"replica-{replica}" / "pid").read_text())

    def kill(self, replica: int, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid(replica), number)
        if number == signal.SIGKILL:
            process = self._restarted.get(replica)
            if process is not None:
                process.wait()

    def freeze(self, replica: int) -> None:
        os.kill(self.pid(replica), signal.SIGSTOP)

    def thaw(self, replica: int) -> None:
        os.kill(self.pid(replica), signal.SIGCONT)

    def start_replica(self, replica: int, *, wait_ready: bool = True) -> None:
        config = self.folder / f"replica-{replica}" / "server.properties"
        command = [sys.executable, "-m", "muster_coordinator.cli.main", "server", "--config", str(config)]
        before = self._restarted.pop(replica, None)
        if before is not None:
            before.wait(STOP_SECONDS_MAX)
        with self.output.open("ab") as log:
            self._restarted[replica] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=self.environment
            )
        if wait_ready:
            self.wait_ready(replica)

    def configure(self, replica: int, settings: dict[str, str]) -> None:
        """Add lines to a replica's configuration, for its next start on its own."""
        with (self.folder / f"replica-{replica}" / "server.properties").open("a", encoding="utf-8") as config:
            config.writelines(f"{key}={value}\n" for key, value in settings.items())

    def wait_ready(self, replica: int, seconds: float = START_SECONDS_MAX) -> None:
        wait_until(f"replica {replica} is ready", lambda: self.probe(replica, "/readyz") == 200, seconds)

    # --- questions

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + n}" for n in range(self.replicas))

    def client_port(self, replica: int) -> int:
        return self.port + replica

    def probe(self, replica: int, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 200 + replica}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def metrics(self, replica: int) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 200 + replica}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def admin(self, replica: int, path: str, *, post: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """(HTTP status, body). Raises OSError when nobody listens."""
        token = (self.folder / "admin-token").read_text().strip()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port + 300 + replica}{path}",
            data=None if post is None else json.dumps(post).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            method="GET" if post is None else "POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status), json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            body = error.read()
            return error.code, json.loads(body) if body.startswith(b"{") else {}

    def status(self, replica: int) -> dict[str, Any]:
        code, body = self.admin(replica, "/v1/status")
        assert code == 200, (code, body)
        return body

    def alive(self) -> Iterator[int]:
        for replica in range(self.replicas):
            if self.probe(replica, "/livez") == 200:
                yield replica
