"""Admission of proposals to a WAL that is filling: how fast they may enter, and which are parked.

Problem: a WAL file can be deleted only when every group that needs it has a newer checkpoint. Proposals admitted at
full speed until the WAL is full would then stop for seconds until such a file goes; and a client that is refused comes
back when it likes (librdkafka up to a second later), all clients together. Mechanism: once the WAL is half full, the
room that is left is spread over the time until the oldest file will go. That time is the number of checkpoints that the
file waits for, times the time of one; or the time waited for it so far, if that is longer. So room lasts until a file
goes, as long as files go at all, and a little is always admitted. A batch that finds no room is parked (`when_room`),
first come first served, for a second at most and not past its own deadline, within a bound of bytes. Beyond these
bounds batches are refused as busy, and their clients try again.
What it does not do: park appends of other leaders, votes, or entries that are carried (`storage.wal_carry`).
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.limits import RAFT_ENTRY_OVERHEAD_BYTES
from muster_coordinator.ports import Loop
from muster_coordinator.replica import limits
from muster_coordinator.storage.contract import WalStore

WINDOW_MS = 50
"""Unused tokens are kept for this time at most."""
PAUSE_MS_MAX = 200
"""While there is room, one proposal at least is admitted in this time, ..."""
DEBT_SHARE = 8
"""... unless the token debt exceeds the room divided by this."""
RETRY_MS = 10
"""How often waiting batches are checked for room."""


class _Parked(NamedTuple):
    deadline_ms: int
    size_bytes: int
    go: Callable[[bool], None]


class Admission:
    """Admission to one WAL, as a token bucket that fills at the rate at which room may be used."""

    def __init__(self, loop: Loop, wal: WalStore) -> None:
        self._loop = loop
        self._wal = wal
        self._round_ms = 0
        self._waited_from_ms: int | None = None
        self._deleted_seen = wal.deleted_files
        self._tokens_bytes = 0.0
        """Below 0 (a debt) after a batch that was larger than the tokens."""
        self._filled_ms = 0
        self._admitted_ms = 0
        self._parked: dict[int, _Parked] = {}
        """number -> waiting batch, in the order of arrival"""
        self._parked_bytes = 0
        self._comes = 0
        self._ends: list[tuple[int, int]] = []
        """Heap of (until when a batch waits, its number); batches that no longer wait stay in it until then."""
        self._armed = False
        self.slowed = 0
        """Proposals refused as busy because the WAL was nearly full."""

    @property
    def parked(self) -> int:
        """How many batches wait for room now."""
        return len(self._parked)

    def expect(self, wait_ms: int) -> None:
        """The oldest file will go in about `wait_ms`; 0: no checkpoint that it waits for is known."""
        self._round_ms = wait_ms
        if not wait_ms or self._deleted_seen != self._wal.deleted_files:
            self._waited_from_ms = None
        if wait_ms and self._waited_from_ms is None:
            self._waited_from_ms = self._loop.monotonic_ms()
        self._deleted_seen = self._wal.deleted_files

    def admits(self, size_bytes: int) -> bool:
        """May a proposal of `size_bytes` be made now? True takes the tokens for it."""
        if not self._wal.crowded():
            return True
        admitted = self._open()
        if admitted:
            self._tokens_bytes -= size_bytes
            self._admitted_ms = self._loop.monotonic_ms()
        else:
            self.slowed += 1
        return admitted

    def when_room(self, size_bytes: int, deadline_ms: int, go: Callable[[bool], None]) -> None:
        """Call `go(True)` when a proposal of `size_bytes` may be made, at once or later, in the order of the calls;
        `go(False)` when it has waited too long, its deadline has passed, or too many bytes wait."""
        if not self._parked and (not self._wal.crowded() or self._open()):
            go(True)
        elif self._parked_bytes + size_bytes > limits.WAL_PARKED_BYTES_MAX:
            self.slowed += 1
            go(False)
        else:
            self._comes += 1
            until_ms = min(self._loop.monotonic_ms() + limits.WAL_PARKED_MS_MAX, deadline_ms)
            heapq.heappush(self._ends, (until_ms, self._comes))
            self._parked[self._comes] = _Parked(deadline_ms, size_bytes, go)
            self._parked_bytes += size_bytes + RAFT_ENTRY_OVERHEAD_BYTES
            self._arm()

    def _open(self) -> bool:
        """Is there room for one more now?"""
        room_bytes = self._wal.room_bytes() - self._wal.reserve_bytes
        if room_bytes <= 0:
            return False
        now_ms = self._loop.monotonic_ms()
        share = room_bytes / self._spread_ms(now_ms)
        self._tokens_bytes = min(self._tokens_bytes + share * (now_ms - self._filled_ms), share * WINDOW_MS)
        self._filled_ms = now_ms
        if self._tokens_bytes > 0:
            return True
        return now_ms - self._admitted_ms >= PAUSE_MS_MAX and -self._tokens_bytes <= room_bytes // DEBT_SHARE

    def _spread_ms(self, now_ms: int) -> int:
        waited_ms = 0 if self._waited_from_ms is None else now_ms - self._waited_from_ms
        return max(self._round_ms, waited_ms, limits.WAL_ROOM_SPREAD_MS)

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            self._loop.call_at(self._loop.monotonic_ms() + RETRY_MS, self._release)

    def _release(self) -> None:
        """Admit waiting batches in order while there is room; refuse every batch that has waited too long."""
        self._armed = False
        now_ms = self._loop.monotonic_ms()
        while self._parked and (not self._wal.crowded() or self._open()):
            first = next(iter(self._parked))
            self._end(first, self._parked[first].deadline_ms > now_ms)
        while self._ends and self._ends[0][0] <= now_ms:
            _, number = heapq.heappop(self._ends)
            if number in self._parked:
                self._end(number, False)
        if self._parked:
            self._arm()
        else:
            self._ends.clear()

    def _end(self, number: int, admitted: bool) -> None:
        """The batch no longer waits. Invariant: a batch whose deadline has passed is never admitted."""
        parked = self._parked.pop(number)
        self._parked_bytes -= parked.size_bytes + RAFT_ENTRY_OVERHEAD_BYTES
        self.slowed += not admitted
        parked.go(admitted)
