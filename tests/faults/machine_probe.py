"""How long the machine itself stood while a test measured pauses. No pause is forgiven for that; it says where to look.

A thread of the test's process sleeps and writes in turns: what a sleep takes too long, this process was not run, or its
other threads held the interpreter; what an fdatasync of one block takes, every replica's WAL on the same disk takes.
"""

import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

EVERY_S = 0.05
BLOCK = bytes(4_096)


class Stood(NamedTuple):
    seconds: float
    began_s: float
    """Since the probe's begin."""


class MachineProbe(threading.Thread):
    """Runs until `finish`; then `run_late` and `synced_late` are the longest of each."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="machine probe", daemon=True)
        self.run_late = self.synced_late = Stood(0.0, 0.0)
        self._path = folder / "machine-probe"
        self._ended = threading.Event()
        self._began = time.monotonic()

    @override
    def run(self) -> None:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while True:
                before = time.monotonic()
                ended = self._ended.wait(EVERY_S)
                after = time.monotonic()
                if ended:
                    return
                self.run_late = max(self.run_late, Stood(after - before - EVERY_S, before - self._began))
                os.pwrite(file, BLOCK, 0)
                os.fdatasync(file)
                self.synced_late = max(self.synced_late, Stood(time.monotonic() - after, after - self._began))
        finally:
            os.close(file)

    def finish(self) -> str:
        """End it; the longest of each, for people."""
        self._ended.set()
        self.join(30)
        told = {"not run for": self.run_late, "an fdatasync took": self.synced_late}
        return "the machine: " + ", ".join(
            f"{what} {one.seconds:.2f} s at {one.began_s:.1f} s" for what, one in told.items()
        )
