"""`python -m tests.low_priority COMMAND ...`: the command, on the processor time that all others leave.

Problem: `nice` weighs processes of one session against each other, and sessions alike (autogroups, sched(7)). Each
cluster of a test has a session of its own, so the simulator took as much from it as its own tests' clients did.
Mechanism: a session of its own, whose autogroup has the lowest priority too. A terminal's Ctrl-C does not reach that
session, so the command is ended when its parent has ended. Where the kernel has no autogroups, `nice` is all there is.
"""

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

NICENESS = 19
_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent = os.getppid()
    os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS))
    os.nice(NICENESS)
    with contextlib.suppress(AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # it stays over exec
    if os.getppid() == parent:  # else it has ended before that call
        os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
