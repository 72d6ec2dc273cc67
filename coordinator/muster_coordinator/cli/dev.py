"""`muster dev`: a cluster of 1, 3 or 5 replicas on this machine, each a process of its own, and their supervisor.

A replica that dies is reported and, with `--restart`, started again after a second. Otherwise the user starts it with
`muster server --config DIR/replica-N/server.properties`. Ctrl-C drains and ends all replicas, also those that the user
has started; a second Ctrl-C ends them at once. A replica whose supervisor has died drains and ends. `muster dev
add-broker` and `remove-broker` (`dev_brokers`) tell the supervisor by SIGHUP that the folder has others. With
`--secure` the cluster is closed (`dev_secure`), and stays so at each start of its folder.
"""

import datetime as dt
import fcntl
import http.client
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from muster_coordinator import exits
from muster_coordinator.cli.dev_layout import HOST, PROBE_PORTS, DevLayout
from muster_coordinator.cli.dev_rights import Rights
from muster_coordinator.cli.extras import require
from muster_coordinator.cli.format import give_first_users
from muster_coordinator.errors import Corruption, EnvironmentFault, UnsupportedFormat
from muster_coordinator.settings import ConfigError, load_settings

DEFAULT_REPLICAS = 3
RESTART_SECONDS = 1.0
POLL_SECONDS = 0.1
DRAIN_SECONDS = 4.0
STOP_MARGIN_SECONDS = 5.0
LOG_LINES_SHOWN = 8


def dev(
    context: typer.Context,
    data: Annotated[Path, typer.Option("--data", help="The cluster's folder.")] = Path("muster-dev"),
    *,
    replicas: Annotated[
        int | None, typer.Option("--replicas", help="How many form the cluster: 1, 3 or 5. By default 3.")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="First client port; peers +100, probes +200, admin +300.")] = 9092,
    partitions: Annotated[
        int, typer.Option("--partitions", help="Partitions of the offsets topic; fixed at the first start.")
    ] = 50,
    fresh: Annotated[bool, typer.Option("--fresh", help="Remove an earlier cluster from the folder first.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Restart a replica that has died.")] = False,
    secure: Annotated[
        bool, typer.Option("--secure", help="A closed cluster: TLS, two users, ACLs; client settings are printed.")
    ] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting for every replica; repeatable.")
    ] = None,
) -> None:
    """Run a local cluster until Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    if replicas not in (None, 1, 3, 5):
        raise typer.BadParameter("1, 3 or 5", param_hint="--replicas")
    layout = DevLayout(data.resolve(), replicas or _founders(data, fresh=fresh), port)
    try:
        extra = dict(_split_setting(text) for text in settings or [])
        _refuse_when_running(layout)
        if fresh:
            layout.remove()
        if secure or layout.secure.made:
            _close(layout)
        layout.write(partitions, extra)
        if layout.secure.made:
            _begin_closed(layout)
        grace_ms = load_settings(layout.config_file(layout.present()[0]), os.environ).shutdown_grace_ms
    except (ConfigError, Corruption, EnvironmentFault, OSError, UnsupportedFormat) as error:
        typer.echo(f"muster dev: {error}", err=True)
        raise typer.Exit(exits.CONFIG if isinstance(error, ConfigError) else exits.UNAVAILABLE) from None
    raise typer.Exit(Supervisor(layout, restart=restart, grace_ms=grace_ms).run())


def _close(layout: DevLayout) -> None:
    """Make the folder one of a closed cluster, or bring what it has up to date. Raises OSError, ConfigError."""
    require("`muster dev --secure`", "cli")  # rights are given by the commands, which are clients
    if not layout.secure.made and any(layout.config_file(replica).exists() for replica in layout.present()):
        raise ConfigError(
            f"{layout.folder} has a cluster that was begun without --secure: name another folder by --data, or remove "
            "the cluster by --fresh"
        )
    try:
        layout.secure.make(dt.datetime.now(dt.UTC))
    except ValueError as error:
        raise ConfigError(f"{layout.secure.folder}: {error}; --fresh makes everything anew") from error


def _begin_closed(layout: DevLayout) -> None:
    """The users, if the cluster is not formed yet, and what clients need. Raises OSError and what the folder raises."""
    layout.secure.write_clients(layout.bootstrap, layout.token_file)
    founder = next((replica for replica in layout.present() if replica < layout.replicas), None)
    if founder is not None and not Rights.given(layout):
        give_first_users(load_settings(layout.config_file(founder), os.environ).data_dir, layout.secure.first_users())


def _founders(data: Path, *, fresh: bool) -> int:
    """How many form the cluster, or have formed that of the folder."""
    try:
        return DEFAULT_REPLICAS if fresh else DevLayout.of_folder(data.resolve()).replicas
    except OSError:
        return DEFAULT_REPLICAS


def _split_setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"--set {text}: write KEY=VALUE")
    return key, value


def _refuse_when_running(layout: DevLayout) -> None:
    """Raises OSError when a port is in use, most likely by another `muster dev`."""
    for replica in layout.present():
        for port in layout.ports(replica):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except (OSError, OverflowError) as error:
                    raise OSError(f"port {port} cannot be used: {error}") from error


class Supervisor:
    """Starts, watches and ends the replicas. One thread; signals arrive as bytes on a socket pair."""

    def __init__(self, layout: DevLayout, *, restart: bool, grace_ms: int) -> None:
        self._layout = layout
        self._restart = restart
        self._grace_seconds = grace_ms / 1_000
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._restart_at: dict[int, float] = {}
        self._ready = False
        self._stops = 0
        """Number of stop signals received."""
        self._known: set[int] = set()
        """Replicas that were started once, and were not removed since."""
        self._wake, self._wake_sender = socket.socketpair()
        self._rights = Rights(layout) if layout.secure.made else None

    def run(self) -> int:
        """Run until stopped; returns the exit code."""
        lock = lock_supervisor(self._layout)
        if lock is None:
            _say(f"muster dev: another one runs in {self._layout.folder}")
            return exits.UNAVAILABLE
        with os.fdopen(lock, "w") as file:
            file.write(str(os.getpid()))
            file.flush()
            return self._supervise()

    def _supervise(self) -> int:
        self._wake.setblocking(False)
        self._wake_sender.setblocking(False)
        signal.set_wakeup_fd(self._wake_sender.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: None)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_stop)
        code = exits.OK
        while not self._stops:
            code = self._reap()
            if code != exits.OK:
                break
            self._start_again()
            self._start_new()
            if not self._ready and self._all_ready() and self._open_to_clients():
                self._ready = True
                _say(f"ready bootstrap={self._layout.bootstrap}")
            self._wait(POLL_SECONDS if not self._ready or self._restart_at else None)
        return max(code, self._stop_all())

    # -- life of the replicas --------------------------------------------------------------------------------------

    def _start(self, replica: int) -> None:
        layout = self._layout
        command = [sys.executable, "-m", "muster_coordinator.cli.main", "server"]
        command += ["--config", str(layout.config_file(replica)), "--supervised"]
        with layout.log_file(replica).open("ab") as log:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        self._children[replica] = child
        _say(f"replica {replica} pid={child.pid} clients={HOST}:{layout.port + replica} log={layout.log_file(replica)}")

    def _reap(self) -> int:
        """Report replicas that have ended. Until the cluster is ready, the first one ends the start, with its code."""
        for replica, child in list(self._children.items()):
            code = child.poll()
            if code is None:
                continue
            del self._children[replica]
            if replica not in self._layout.present():
                _say(f"replica {replica} was removed")
                self._known.discard(replica)
                continue
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            _say(f"replica {replica} ended {how}; its log: {self._layout.log_file(replica)}")
            if self._restart:
                self._restart_at[replica] = time.monotonic() + RESTART_SECONDS
            elif self._ready:
                _say(f"start it again: muster server --config {self._layout.config_file(replica)}")
            else:
                _say(_last_lines(self._layout.log_file(replica)))
                return code if code > 0 else exits.BUG
        return exits.OK

    def _start_new(self) -> None:
        """Those that were never started by this supervisor."""
        for replica in self._layout.present():
            if replica not in self._known:
                self._known.add(replica)
                self._start(replica)

    def _start_again(self) -> None:
        now = time.monotonic()
        for replica in [replica for replica, due in self._restart_at.items() if due <= now]:
            del self._restart_at[replica]
            self._start(replica)

    def _all_ready(self) -> bool:
        ports = (self._layout.port + PROBE_PORTS + replica for replica in self._layout.present())
        return all(is_ready(port) for port in ports)

    def _open_to_clients(self) -> bool:
        """Of a closed cluster: when its application has its rights."""
        if self._rights is None:
            return True
        if not self._rights.are_given():
            return False
        _say(self._layout.secure.file("clients.txt").read_text("utf-8"))
        return True

    # -- stopping --------------------------------------------------------------------------------------------------

    def _stop_all(self) -> int:
        """SIGTERM to all; again at a second Ctrl-C or after DRAIN_SECONDS; SIGKILL after the grace. Returns the worst
        exit code.

        The second SIGTERM ends a drain: as all replicas stop, some leaderships have no replica left to go to.
        """
        told = max(self._stops, 1)
        if self._rights is not None:
            self._rights.stop()
        self._signal_all(signal.SIGTERM)
        began = time.monotonic()
        deadline = began + self._grace_seconds + STOP_MARGIN_SECONDS
        hurry = began + DRAIN_SECONDS
        worst = exits.OK
        while self._children or self._by_hand():
            for replica, child in list(self._children.items()):
                code = child.poll()
                if code is not None:
                    del self._children[replica]
                    worst = max(worst, code)
            if self._stops > told or time.monotonic() > hurry:
                told, hurry = self._stops, deadline
                self._signal_all(signal.SIGTERM)
            if time.monotonic() > deadline:
                self._signal_all(signal.SIGKILL)
                deadline += STOP_MARGIN_SECONDS
            self._wait(POLL_SECONDS)
        _say("stopped")
        return worst

    def _signal_all(self, number: signal.Signals) -> None:
        for child in self._children.values():
            child.send_signal(number)
        for pid in self._by_hand():
            os.kill(pid, number)

    def _by_hand(self) -> list[int]:
        """Live replicas of this folder that the user has started."""
        found = []
        for replica in self._layout.present():
            if replica in self._children:
                continue
            pid = read_pid(self._layout.pid_file(replica))
            if pid is not None and is_replica(pid, self._layout.config_file(replica)):
                found.append(pid)
        return found

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._stops += 1

    def _wait(self, seconds: float | None) -> None:
        """Wait until a signal arrives or the time is over."""
        readable, _, _ = select.select([self._wake], [], [], seconds)
        if readable:
            self._wake.recv(4_096)


def lock_supervisor(layout: DevLayout) -> int | None:
    """The supervisor's file, open and locked until it is closed; None: another process has locked it. The system
    unlocks it when that process ends, however it ends."""
    descriptor = os.open(layout.supervisor_file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    return descriptor


def read_pid(path: Path) -> int | None:
    """The number in a pid file; None when there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def is_replica(pid: int, config: Path) -> bool:
    """Whether `pid` is a process with this configuration: the number may have been reused since."""
    try:
        return os.fsencode(str(config)) in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=1.0)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _last_lines(path: Path) -> str:
    try:
        return "\n".join(path.read_text("utf-8", "replace").splitlines()[-LOG_LINES_SHOWN:])
    except OSError:
        return ""


def _say(text: str) -> None:
    print(text, flush=True)
