"""Stops taking new data before the disk is full, and starts again when there is room (raft.md 3.3).

A replica whose WAL cannot be written must end, so proposals are refused while less than `DISK_FREE_BYTES_MIN` is free.
Votes, entries of other leaders and what makes room (log starts, checkpoints) go on. Asked every `LOOK_MS`, off the
loop.
"""

from muster_coordinator import limits
from muster_coordinator.ports import Disk, Loop
from muster_coordinator.replica.host import Host

LOOK_MS = 1_000


class DiskSpace:
    """Sets `Host.disk_low`."""

    def __init__(self, loop: Loop, disk: Disk, host: Host) -> None:
        self._loop = loop
        self._disk = disk
        self._host = host
        self.free_bytes = -1
        """-1 until it was asked for the first time, or when it cannot be told."""

    def start(self) -> None:
        self._loop.submit("lookup", self._disk.free_bytes, self._told)

    def _told(self, result: int | BaseException) -> None:
        self.free_bytes = -1 if isinstance(result, BaseException) else result
        self._host.disk_low = 0 <= self.free_bytes < limits.DISK_FREE_BYTES_MIN
        self._loop.call_at(self._loop.monotonic_ms() + LOOK_MS, self.start)
