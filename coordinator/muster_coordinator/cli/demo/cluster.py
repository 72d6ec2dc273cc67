"""The demo's cluster: three replicas as processes on loopback, operated as by a user.

`muster dev` starts them; the process to kill is found by its pid file; a dead replica is started again with
`muster server`. Queries go to the admin ports, with the token that `muster dev` wrote.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from muster_coordinator.cli.admin_client import Json, get_json
from muster_coordinator.cli.admin_login import AdminLogin, read_token
from muster_coordinator.cli.dev_layout import ADMIN_PORTS, HOST, DevLayout
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.port_block import FIRST_BASE, STEP, PortBlock

REPLICAS = 3
START_TIMEOUT_S = 120.0
"""A second or two on an idle machine; on one with twenty other busy processes 40 were seen."""
STOP_TIMEOUT_S = 25.0
ADMIN_TIMEOUT_S = 1.0
_POLL_S = 0.05
_MODULE = "muster_coordinator.cli.main"


class GroupSight(NamedTuple):
    """A group as its coordinator describes it, and which replica that is."""

    replica: int
    document: Json


class DemoCluster:
    """Use as a context manager: started on entry, ended on exit in any case."""

    def __init__(
        self,
        folder: Path,
        offsets_partitions: int,
        settings: Mapping[str, str] | None = None,
        admin_timeout_s: float = ADMIN_TIMEOUT_S,
    ) -> None:
        """`settings`: of every replica."""
        self._block = PortBlock.take(REPLICAS, first=FIRST_BASE + os.getpid() % 500 * STEP)
        self.layout = DevLayout(folder, REPLICAS, self._block.base)
        self._offsets_partitions = offsets_partitions
        self._settings = dict(settings or {})
        self._admin_timeout_s = admin_timeout_s
        self._log = folder / "dev.log"
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._restarted: dict[int, subprocess.Popen[bytes]] = {}
        self._dead: set[int] = set()
        self._login = AdminLogin()

    @property
    def bootstrap(self) -> str:
        """Client addresses of all replicas."""
        return self.layout.bootstrap

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def _start(self) -> None:
        layout = self.layout
        layout.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", _MODULE, "dev", "--data", str(layout.folder), "--fresh"]
        command += ["--replicas", str(REPLICAS), "--port", str(layout.port)]
        command += ["--partitions", str(self._offsets_partitions)]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={value}"]
        with self._log.open("wb") as log:
            supervisor = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._supervisor = supervisor
        self._wait_until_ready(supervisor)
        self._login = AdminLogin(read_token(layout.token_file))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def group(self, name: str) -> GroupSight | None:
        """The group as its coordinator describes it; None while no replica can (it moves, or does not exist yet)."""
        asked: list[str] = []
        to_ask = [self._admin(replica) for replica in range(REPLICAS) if replica not in self._dead]
        while to_ask and len(asked) <= REPLICAS:
            address = to_ask.pop(0)
            if address in asked:
                continue
            asked.append(address)
            try:
                status, document = get_json(address, f"/v1/groups/{name}", self._login, self._admin_timeout_s)
            except CliError:
                continue
            if status == 200:
                return GroupSight(int(address.rpartition(":")[2]) - self.layout.port - ADMIN_PORTS, document)
            if status == 421:
                to_ask.insert(0, document["admin"])
        return None

    def kill(self, replica: int) -> int:
        """Send SIGKILL; returns the process id."""
        pid = int(self.layout.pid_file(replica).read_text())
        self._dead.add(replica)
        os.kill(pid, signal.SIGKILL)
        return pid

    def restart(self, replica: int) -> None:
        """Start a killed replica again; returns at once."""
        command = [sys.executable, "-m", _MODULE, "server", "--config", str(self.layout.config_file(replica))]
        with self.layout.log_file(replica).open("ab") as log:
            self._restarted[replica] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def is_ready(self, replica: int) -> bool:
        """Whether the replica reports that it is ready."""
        try:
            status, document = get_json(self._admin(replica), "/v1/status", self._login, self._admin_timeout_s)
        except CliError:
            return False
        if status != 200 or not document["ready"]:
            return False
        self._dead.discard(replica)
        return True

    def _admin(self, replica: int) -> str:
        return f"{HOST}:{self.layout.ports(replica)[3]}"

    def _wait_until_ready(self, supervisor: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while b"ready bootstrap=" not in self._log.read_bytes():
            ended = supervisor.poll() is not None
            if ended or time.monotonic() > deadline:
                why = "ended" if ended else f"was not ready within {START_TIMEOUT_S:.0f} s"
                tail = self._log.read_text(errors="replace")[-2_000:].strip()
                raise CliError(Exit.REFUSED, f"the cluster {why}:\n{tail}")
            time.sleep(_POLL_S)

    def _stop(self) -> None:
        """Ctrl-C for the supervisor, which also ends replicas started by hand; then SIGKILL for those that remain."""
        try:
            self._end_processes()
        finally:
            self._block.close()

    def _end_processes(self) -> None:
        if self._supervisor is None:
            return
        if self._supervisor.poll() is None:
            self._supervisor.send_signal(signal.SIGINT)
        for process in (self._supervisor, *self._restarted.values()):
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._supervisor = None
