"""Whose turn it is to write its lag: all ConsumerGroups of an operator share a few writes a second. Pure.

A thousand groups whose lag changes its order of magnitude at the same moment (a load test, a broker that comes back)
would be a thousand writes. So each gets a date at the end of one line, an interval behind the one before it, and keeps
it until its lag was written or is no longer to be; then who comes next has it. A pass that comes a little late may
still write (the bucket holds a few), but never more than the rate in the long run: who finds the bucket empty lines up
again.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

from muster_operator.limits import LAG_WRITE_INTERVAL_MS, LAG_WRITES_BURST

Key = TypeVar("Key", bound=Hashable)


class LagWrites(Generic[Key]):
    """`ask` until it answers 0: then write. Times are of one monotonic clock, in milliseconds."""

    def __init__(self) -> None:
        self._due_ms: dict[Key, int] = {}
        self._given_up_ms: list[int] = []
        """Dates that nobody has, a heap. Without it groups that give up in turn would push the end of the line away."""
        self._last_due_ms: int | None = None
        self._full_at_ms = 0
        """When the bucket is full again; each write moves it by an interval."""

    def ask(self, key: Key, now_ms: int) -> int:
        """0: write now. Else the milliseconds until its turn."""
        due = self._due_ms.get(key)
        if due is None:
            due = self._line_up(key, now_ms)
        if now_ms < due:
            return due - now_ms
        if self._full_at_ms - now_ms > (LAG_WRITES_BURST - 1) * LAG_WRITE_INTERVAL_MS:
            return max(1, self._line_up(key, now_ms) - now_ms)
        self._full_at_ms = max(self._full_at_ms, now_ms) + LAG_WRITE_INTERVAL_MS
        del self._due_ms[key]
        return 0

    def forget(self, key: Key) -> None:
        """Its lag need not be written any more."""
        due = self._due_ms.pop(key, None)
        if due is not None:
            heapq.heappush(self._given_up_ms, due)

    def __len__(self) -> int:
        return len(self._due_ms)

    def _line_up(self, key: Key, now_ms: int) -> int:
        while self._given_up_ms:
            due = heapq.heappop(self._given_up_ms)
            if due > now_ms:
                self._due_ms[key] = due
                return due
        after = now_ms if self._last_due_ms is None else self._last_due_ms + LAG_WRITE_INTERVAL_MS
        self._last_due_ms = self._due_ms[key] = max(now_ms, after)
        return self._last_due_ms
