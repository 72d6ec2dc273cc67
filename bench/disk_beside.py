"""How long the disk alone takes meanwhile: a block that is written and synced all the time beside a measurement.

Problem: a virtual disk may answer nobody for a tenth of a second, whatever was asked of it. Every commit that is due
then has to wait, and one such stall in ten seconds is a p99. Mechanism: a thread syncs one block every `PACE_S`, in a
file of its own on the same disk. A sync that takes longer than `STALL_S` is such a stall: of 20 MB/s in pieces of a MiB
beside it, a sync takes some milliseconds.

What it does not do: tell whose fault a stall is. What is measured writes to the disk, too; so what is left out for
stalls is counted and shown, and a phase that writes more must not have more of them.
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
ENDED_S = 30
"""How long the sync under way is awaited at the end, so that it counts."""


class DiskBeside:
    """`with DiskBeside(folder) as disk: ...`; then `longest_s`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._took: list[float] = []
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

    def _sync(self) -> None:
        with preallocated(self._folder / "beside.probe", blocks=1) as descriptor:
            block = os.urandom(BLOCK_BYTES)
            while not self._end.wait(PACE_S):
                began_s = time.monotonic()
                os.pwrite(descriptor, block, 0)
                os.fdatasync(descriptor)
                self._took.append(time.monotonic() - began_s)
