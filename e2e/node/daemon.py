"""Long-running programs of the test cluster: start with a log file, wait for something with a limit, stop completely.

A daemon either outlives its starter (in a sandbox, whose PID 1 adopts and at last ends it) or dies with it: then the
kernel sends it KILL when the starting thread ends, so even a killed test run leaves nothing behind.
"""

import ctypes
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.node.errors import Broken

PR_SET_PDEATHSIG = 1  # linux/prctl.h
POLL_INTERVAL_S = 0.1
STOP_TIMEOUT_S = 10.0
LOG_TAIL_BYTES = 2_000

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A started program and its log."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def check(self) -> None:
        """Raise `Broken` with the end of the log if the program has ended."""
        if self.process.poll() is not None:
            raise Broken(f"{self.name} ended with {self.process.returncode}; {self.log}:\n{tail(self.log)}")

    def stop(self) -> None:
        """TERM, then KILL after STOP_TIMEOUT_S; returns when it is gone."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_TIMEOUT_S)


def start(
    name: str,
    argv: Sequence[str | Path],
    logs: Path,
    *,
    dies_with_starter: bool,
    env: Mapping[str, str] | None = None,
) -> Daemon:
    """Start `argv` in a session of its own with standard output and error in `logs`/name.log."""
    log = logs / f"{name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=None if env is None else dict(env),
            preexec_fn=_die_with_parent if dies_with_starter else None,  # noqa: PLW1509 - one system call
        )
    return Daemon(name=name, process=process, log=log)


def until(what: str, holds: Callable[[], bool], timeout_s: float, alive: Sequence[Daemon] = ()) -> float:
    """Poll `holds` until true; returns the seconds it took. `Broken` after `timeout_s` or when one of `alive` ends."""
    started = time.monotonic()
    while not holds():
        for daemon in alive:
            daemon.check()
        if time.monotonic() - started > timeout_s:
            logs = "".join(f"\n{daemon.log}:\n{tail(daemon.log)}" for daemon in alive)
            raise Broken(f"no {what} within {timeout_s:.0f} s{logs}")
        time.sleep(POLL_INTERVAL_S)
    return time.monotonic() - started


def tail(log: Path) -> str:
    """The last LOG_TAIL_BYTES of a file, or nothing."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
