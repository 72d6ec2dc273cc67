"""A machine in a sandbox: own mount, network, PID, UTS, IPC and cgroup namespaces, and nothing left when it is gone.

`up` starts PID 1 (`e2e.node.inside`), `command` makes a command line that runs inside, `down` ends PID 1 and with it
every process, mount and interface; then it removes what outlives processes: control groups and the state folder.
A record on disk names PID 1 with its start time, so that a sandbox whose owner was killed is found and removed by the
next `up`, and a reused PID is never taken for it.

The sandbox has the machine's disk, its own network without a way out, and its own /run. It is no security boundary.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.node import cgroups, daemon, packages, paths
from e2e.node.errors import Broken, Unavailable

UP_TIMEOUT_S = 20.0
DOWN_TIMEOUT_S = 20.0
KILL_GRACE_S = 10
CLOSE_GRACE_S = 3.0
SPACES = ("--mount", "--net", "--pid", "--uts", "--ipc")  # the cgroup namespace is made inside, after joining
KEPT = "logs"  # of the state folder, until the next `up`


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What must be undone. `pid` is PID 1 as the machine numbers it; `start_ticks` tells it from a later process."""

    pid: int
    start_ticks: int
    groups: tuple[str, ...]


class Sandbox:
    """The sandbox `name`; at most one of a name runs at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = paths.SANDBOXES / name
        self.logs = self.state / KEPT
        self._lifeline: int | None = None
        self._outer: subprocess.Popen[bytes] | None = None

    def up(self, *, tied: bool) -> None:
        """Start it, removing a stale one first. `tied`: it ends when this process ends, however that happens."""
        if os.geteuid() != 0:
            raise Unavailable("a node needs root (namespaces, mounts, iptables)")
        packages.ensure(packages.NODE)
        self.down()
        shutil.rmtree(self.state, ignore_errors=True)
        self.logs.mkdir(parents=True)
        found = cgroups.hierarchies()
        groups = cgroups.create(f"muster-{self.name}", found)
        record = Record(pid=0, start_ticks=0, groups=tuple(map(str, groups)))
        self._write(record)  # before anything is made that `down` must find
        try:
            self._start(groups, record, tied=tied)
        except BaseException:
            self.down()
            raise

    def _start(self, groups: Sequence[Path], record: Record, *, tied: bool) -> None:
        reader, writer = os.pipe()
        log = self.logs / "box.log"
        with log.open("wb") as out:
            outer = subprocess.Popen(
                ["unshare", *SPACES, "--propagation", "private", "--fork", "--kill-child",
                 sys.executable, "-m", "e2e.node.inside", str(self.state), "tied" if tied else "free",
                 *map(str, groups)],
                cwd=paths.ROOT, stdin=reader, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        os.close(reader)
        self._outer = outer
        self._lifeline = writer if tied else None
        if not tied:
            os.close(writer)

        def record_pid() -> bool:
            pid = child_of(outer.pid)
            if pid:
                self._write(Record(**{**asdict(record), "pid": pid, "start_ticks": start_ticks(pid) or 0}))
            return pid is not None

        started = daemon.Daemon(name="box", process=outer, log=log)
        try:
            daemon.until("PID 1 of the box", record_pid, UP_TIMEOUT_S, [started])
            daemon.until("box", (self.state / "ready").exists, UP_TIMEOUT_S, [started])
        except BaseException:
            outer.kill()  # --kill-child: PID 1 goes with it, recorded or not
            outer.wait()
            raise

    def running(self) -> bool:
        record = self._read()
        return record is not None and record.pid != 0 and start_ticks(record.pid) == record.start_ticks

    def command(
        self, argv: Sequence[str | Path], *, timeout_s: float, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """A command line that runs `argv` inside, in the caller's folder; `timeout` inside ends it in time."""
        record = self._read()
        if record is None or not self.running():
            raise Broken(f"box {self.name} is not up; start it with `make e2e-up` or `make kind-up`")
        assignments = [f"{name}={value}" for name, value in (env or {}).items()]
        limit = ["timeout", "--foreground", f"--kill-after={KILL_GRACE_S}", str(int(timeout_s))]
        enter = ["nsenter", f"--target={record.pid}", *SPACES, "--cgroup", "--wd=/", "--"]
        return [*enter, "env", f"--chdir={Path.cwd()}", *assignments, *limit, *map(str, argv)]

    def run(self, argv: Sequence[str | Path], *, timeout_s: float, env: Mapping[str, str] | None = None) -> int:
        """Run `argv` inside with this process's terminal; its exit status. `Broken` when it takes too long."""
        record = self._read()
        groups = [Path(group) for group in record.groups] if record else []
        process = subprocess.Popen(
            self.command(argv, timeout_s=timeout_s, env=env),
            preexec_fn=lambda: cgroups.join(groups),  # noqa: PLW1509 - no threads here, and it must hold from the start
        )
        try:
            return process.wait(timeout_s + 2 * KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"{argv[0]} ran longer than {timeout_s:.0f} s in the box") from None
        except KeyboardInterrupt:  # the terminal has told `argv` as well: let it close in peace
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(CLOSE_GRACE_S)
            raise
        finally:
            if process.poll() is None:
                process.kill()

    def down(self) -> None:
        """End it and remove all of it but the logs. Does nothing when there is none. `Broken` names what stays."""
        record = self._read()
        if record is not None and self.running():
            os.kill(record.pid, signal.SIGKILL)  # PID 1 of a namespace ignores TERM
            cgroups.thaw([Path(group) for group in record.groups])  # it waits for all the others
            deadline = time.monotonic() + DOWN_TIMEOUT_S
            while self.running():
                if time.monotonic() > deadline:
                    raise Broken(f"box {self.name}: process {record.pid} does not end")
                time.sleep(0.02)
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if self._outer is not None:
            self._outer.wait(DOWN_TIMEOUT_S)
            self._outer = None
        if record is None:
            return
        cgroups.remove([Path(group) for group in record.groups])
        for entry in self.state.iterdir():
            if entry.name not in (KEPT, "record.json"):
                _remove(entry)
        (self.state / "record.json").unlink()

    def _write(self, record: Record) -> None:
        scratch = self.state / "record.part"
        scratch.write_text(json.dumps(asdict(record)))
        scratch.rename(self.state / "record.json")

    def _read(self) -> Record | None:
        path = self.state / "record.json"
        if not path.exists():
            return None
        found = json.loads(path.read_text())
        return Record(**{**found, "groups": tuple(found["groups"])})


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def start_ticks(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since boot (proc(5), stat); None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def child_of(parent: int) -> int | None:
    """The first child process of `parent`."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent:
            return int(stat.parent.name)
    return None
