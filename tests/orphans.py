"""Processes that a test has started end with it, however it ends.

Problem: a pytest that a signal stops runs no fixture to its end, and a server in a session of its own goes on for ever.
The kernel's own means (PR_SET_PDEATHSIG) ends a process with the *thread* that started it, and faults are made by
threads. Mechanism: one watcher for each process of pytest, at the other end of a pipe. It is told the process ids; when
the pipe closes, it kills those that are left. An id that another process has by then is known by its start time. What
this does not do: end what a killed server leaves behind itself.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

_watchers: dict[int, "subprocess.Popen[bytes]"] = {}
"""By the id of the process that started it: a forked one needs its own."""


def watch(pid: int) -> None:
    """From now on this process ends with the present one, at the latest."""
    watcher = _watchers.get(os.getpid())
    if watcher is None:
        command = [sys.executable, __file__]
        watcher = _watchers[os.getpid()] = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        atexit.register(_end, watcher, os.getpid())
    assert watcher.stdin is not None
    watcher.stdin.write(b"%d\n" % pid)
    watcher.stdin.flush()


def _end(watcher: "subprocess.Popen[bytes]", owner: int) -> None:
    """A process that ends in peace waits for its watcher, and not one that was forked from it."""
    if os.getpid() == owner:
        watcher.communicate()


def _started(pid: int) -> str:
    """Start time of a process in ticks; "" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _main() -> None:
    known = {}
    for line in sys.stdin:
        known[int(line)] = _started(int(line))
    for pid, started in known.items():
        if started and _started(pid) == started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _main()
