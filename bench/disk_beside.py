"""How long the disk alone takes meanwhile: a small file that is written and synced all the time beside a measurement.

Problem: a virtual disk may answer nobody for a tenth of a second, whatever was asked of it. Every commit that is due
then waits, and one such stall in ten seconds is a p99. Mechanism: a thread syncs one block every `PACE_S`, in a file of
its own on the same disk, and counts the time in which a sync took longer than `STALL_S`. Where that is a hundredth of a
phase or more, the phase's p99 is the disk's.

What it does not do: tell whose fault a stall is. What is measured writes to the disk, too.
"""

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.errors import RunFailed
from bench.fdatasync import BLOCK_BYTES, preallocated

PACE_S = 0.02
STALL_S = 0.02
"""Longer than the syncs of 20 MB/s in pieces of a MiB, which are a few ms."""
ENDED_S = 30


class DiskBeside:
    """`with DiskBeside(folder) as disk: ...`; then `stalled` and `longest_s`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._took: list[float] = []
        self._lasted_s = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sync, name="disk-beside", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(ENDED_S)

    @property
    def longest_s(self) -> float:
        if not self._took:
            raise RunFailed("the disk alone was not measured")
        return max(self._took)

    @property
    def stalled(self) -> float:
        """Part of the time in which a sync was under way that took longer than `STALL_S`; 0 to 1."""
        return sum(took for took in self._took if took > STALL_S) / self._lasted_s

    def _sync(self) -> None:
        with preallocated(self._folder / "beside.probe") as descriptor:
            block = os.urandom(BLOCK_BYTES)
            started_s = time.monotonic()
            while not self._end.wait(PACE_S):
                began_s = time.monotonic()
                os.pwrite(descriptor, block, 0)
                os.fdatasync(descriptor)
                self._took.append(time.monotonic() - began_s)
            self._lasted_s = time.monotonic() - started_s
