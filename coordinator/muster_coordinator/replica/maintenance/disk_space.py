"""Measuring the free space of the disk, to react before it is full, and when there is room again.

Problem: a replica whose WAL cannot be written must end; and a leader that refuses commits because its disk is short
keeps its groups from a replica that has room. Mechanism: free bytes are measured every `DISK_LOOK_MS`, more often when
few are left, off the loop. Below `disk_low_bytes` the replica is *low*, until `disk_good_bytes` are free: it refuses
new data (`Host.admits`), hands its leaderships away (`hand_over`), campaigns after the others (`raft.election`), tells
its peers with each ack of a heartbeat, and preallocates the next file of each WAL; it goes on following. Below
1 / `DISK_FULL_SHARE` of `disk_low_bytes`, until it has half as much again, it is *full*: it refuses new data of other
leaders too. Votes are always taken, and so are commands, since only they free space.

A failed write that can be retried (`Host.no_space`) makes the replica full for `NO_SPACE_RETRY_MS`; then such writes
are retried, whatever number of bytes is free, because quotas and inodes can run out too. What this does not do: free
space.
"""

from typing import NamedTuple

from muster_coordinator.events import DISK_FULL, DISK_HAS_ROOM, DISK_LOW, Event
from muster_coordinator.ports import Disk, Loop
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.settings import NodeSettings


class DiskStatus(NamedTuple):
    """Free space as last measured, and what follows from it."""

    free_bytes: int = -1
    """-1: unknown."""
    low_bytes: int = 0
    good_bytes: int = 0
    low: bool = False
    full: bool = False
    refused: tuple[tuple[str, int], ...] = ()
    """(kind of file, how often since the start the disk was full for a write of it that can be retried)."""


class DiskSpace:
    """See the module. Calls `Host.set_disk`."""

    def __init__(self, loop: Loop, disk: Disk, host: Host, settings: NodeSettings) -> None:
        self._loop = loop
        self._disk = disk
        self._host = host
        self._where = settings.data_dir
        self._low_bytes = settings.disk_low_bytes
        self._good_bytes = settings.disk_good_bytes
        self._full_bytes = settings.disk_low_bytes // limits.DISK_FULL_SHARE
        self._refused_until_ms = 0
        self.free_bytes = -1
        """-1 before the first measurement, or if it fails."""

    def start(self) -> None:
        self._host.refused_space = self._refused
        self._look()

    def status(self) -> DiskStatus:
        host = self._host
        refused = tuple(sorted(host.no_space_found.items()))
        return DiskStatus(self.free_bytes, self._low_bytes, self._good_bytes, host.disk_low, host.disk_full, refused)

    def _look(self) -> None:
        self._loop.submit("lookup", self._disk.free_bytes, self._told)

    def _told(self, result: int | BaseException) -> None:
        now_ms = self._loop.monotonic_ms()
        self.free_bytes = -1 if isinstance(result, BaseException) else result
        near = 0 <= self.free_bytes < limits.DISK_NEAR_SHARE * self._low_bytes
        self._loop.call_at(now_ms + (limits.DISK_NEAR_LOOK_MS if near else limits.DISK_LOOK_MS), self._look)
        if now_ms >= self._refused_until_ms:
            self._judge()
        if self._host.disk_low and not self._host.disk_full:
            for wal_writer in self._host.wal_writers:
                wal_writer.prepare()

    def _judge(self) -> None:
        """Set low and full by the free bytes. If these are unknown nothing changes, except that a full disk after a
        failed write is tried again."""
        host, free_bytes = self._host, self.free_bytes
        if free_bytes < 0:
            if self._refused_until_ms:
                self._refused_until_ms = 0
                self._set(False, False)
            return
        self._refused_until_ms = 0
        low = free_bytes < (self._good_bytes if host.disk_low else self._low_bytes)
        full = free_bytes < (self._full_bytes * 3 // 2 if host.disk_full else self._full_bytes)
        self._set(low, full)

    def _refused(self) -> None:
        self._refused_until_ms = self._loop.monotonic_ms() + limits.NO_SPACE_RETRY_MS
        if not self._host.disk_full:
            self._set(True, True)

    def _set(self, low: bool, full: bool) -> None:
        host = self._host
        before = (host.disk_low, host.disk_full)
        host.set_disk(low=low, full=full)
        if before != (low, full):
            kind = DISK_FULL if full else DISK_LOW if low else DISK_HAS_ROOM
            details = {
                "path": self._where,
                "free_bytes": self.free_bytes,
                "low_bytes": self._low_bytes,
                "good_bytes": self._good_bytes,
            }
            host.tell(Event(kind, details))
