"""Rate limit of status writes for lag alone, shared by all ConsumerGroups of an operator. Pure.

Problem: a thousand groups whose lag changes its order of magnitude at once (a load test, a broker that comes back)
would cause a thousand writes. Mechanism: each group reserves the next free time slot, one interval after the previous
one, and keeps it until its lag was written or need not be written any more; a released slot goes to the next group that
asks. A pass that is a little late may still write, because a token bucket holds a few writes, but the rate holds in the
long run: a group that finds the bucket empty reserves a new slot.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

from muster_operator.limits import LAG_WRITE_INTERVAL_MS, LAG_WRITES_BURST

Key = TypeVar("Key", bound=Hashable)


class LagWrites(Generic[Key]):
    """Call `ask` until it returns 0, then write. Times are milliseconds of one monotonic clock."""

    def __init__(self) -> None:
        self._due_ms: dict[Key, int] = {}
        self._given_up_ms: list[int] = []
        """Released slots, a heap. Without their reuse, groups that give up in turn would push the last slot ever
        further away."""
        self._last_due_ms: int | None = None
        self._full_at_ms = 0
        """When the bucket is full again; each write moves it by one interval."""

    def ask(self, key: Key, now_ms: int) -> int:
        """0: write now. Else the milliseconds until the group's slot."""
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
        """The group's lag need not be written any more; its slot is released."""
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
