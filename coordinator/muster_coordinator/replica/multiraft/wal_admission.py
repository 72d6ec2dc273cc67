"""Who may write into a WAL that is filling: everybody, a share of the room, or nobody; and who waits for that.

Problem: files of a WAL go only when every group that needs them has its checkpoint. Writers who are let in at full
speed until it is full then stop until that is so, seconds at a time; and who is refused comes back when its client
likes, librdkafka's up to a second later, all of them together. Mechanism: from half of the bound on, writers get the
room that is left spread over the time until the oldest file will go: the number of checkpoints that it waits for times
what one takes, or as long as it has been waited for, if that is more. So room never ends before a file goes, as long as
one does; and little by little something is admitted. Who finds no room waits for a moment, in order (`when_room`),
bounded in time, by a second and by their own deadline, and in bytes; only behind that writers are refused, and try
again, as after any "busy".
What it does not do: park what other leaders send, votes, or what carrying writes (`storage.wal_carry`).
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.limits import RAFT_ENTRY_OVERHEAD_BYTES
from muster_coordinator.ports import Loop
from muster_coordinator.replica import limits
from muster_coordinator.storage.contract import WalStore

WINDOW_MS = 50
"""Room that was not asked for lapses after this time."""
PAUSE_MS_MAX = 200
"""While there is room, something is admitted at least so often, ..."""
DEBT_SHARE = 8
"""... unless more than this part of the room was admitted beyond what was due."""
RETRY_MS = 10
"""Those who wait are looked at so often."""


class _Parked(NamedTuple):
    deadline_ms: int
    size_bytes: int
    go: Callable[[bool], None]


class Admission:
    """Of one WAL."""

    def __init__(self, loop: Loop, wal: WalStore) -> None:
        self._loop = loop
        self._wal = wal
        self._round_ms = 0
        self._waited_from_ms: int | None = None
        self._deleted_seen = wal.deleted_files
        self._tokens_bytes = 0.0
        """May be below 0: the last batch was larger than what was there."""
        self._filled_ms = 0
        self._admitted_ms = 0
        self._parked: dict[int, _Parked] = {}
        """By number, in the order of their coming."""
        self._parked_bytes = 0
        self._comes = 0
        self._ends: list[tuple[int, int]] = []
        """A heap: until when each waits, and its number; who has gone in is still in it."""
        self._armed = False
        self.slowed = 0
        """Proposals that were told to try again because the WAL was nearly full."""

    @property
    def parked(self) -> int:
        """Batches that wait for room now."""
        return len(self._parked)

    def expect(self, wait_ms: int) -> None:
        """The oldest file will go in about so many milliseconds; 0: nothing that must go first is known."""
        self._round_ms = wait_ms
        if not wait_ms or self._deleted_seen != self._wal.deleted_files:
            self._waited_from_ms = None
        if wait_ms and self._waited_from_ms is None:
            self._waited_from_ms = self._loop.monotonic_ms()
        self._deleted_seen = self._wal.deleted_files

    def admits(self, size_bytes: int) -> bool:
        """May a proposal of so many bytes be made now?"""
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
        """`go(True)` when a proposal of so many bytes may be made, at once or soon, in the order of the calls;
        `go(False)` when that took too long, the deadline has come, or too many wait."""
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
        """Let in who waits, as far as there is room; refuse who has waited too long, wherever in the row."""
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
        """It waits no longer. After its deadline it was answered by nobody and may not be written."""
        parked = self._parked.pop(number)
        self._parked_bytes -= parked.size_bytes + RAFT_ENTRY_OVERHEAD_BYTES
        self.slowed += not admitted
        parked.go(admitted)
