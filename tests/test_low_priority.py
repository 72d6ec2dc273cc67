"""Where what computes runs beside tests that wait: behind every other session, and no longer than its parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.cluster import wait_until
from tests.processes import has_ended

ROOT = Path(__file__).resolve().parents[1]
LOW = [sys.executable, "-m", "tests.low_priority"]


def test_a_session_of_the_lowest_priority() -> None:
    """A kernel without autogroups has no such file, and weighs all processes by `nice` alone."""
    autogroup = Path("/proc/self/autogroup")
    read = f"open('{autogroup}').read()" if autogroup.exists() else "'nice 19'"
    text = f"import os; print(os.nice(0), os.getsid(0) == os.getpid(), {read})"
    done = subprocess.run([*LOW, sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    niceness, has_session, group = done.stdout.split(maxsplit=2)
    assert (niceness, has_session) == ("19", "True")
    assert group.split()[-2:] == ["nice", "19"], group


def test_it_ends_with_its_parent() -> None:
    """As a Makefile's shell starts it; SIGKILL says nothing to children."""
    with subprocess.Popen(
        ["sh", "-c", '"$@" & echo $!; wait', "sh", *LOW, "sleep", "60"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        wait_until("it runs", lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0], 20)
        os.kill(parent.pid, signal.SIGKILL)
    wait_until("it has ended", lambda: has_ended(pid), 20)
