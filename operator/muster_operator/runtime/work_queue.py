"""Keyed work queue: which object gets the next pass, and when. Pure: time comes in as a value.

Problem: a level-triggered operator needs to know *that* an object needs a pass, not how often it was triggered. So a
key is in the queue at most once, at most one worker runs it at a time, and a key that was added while it was running
runs once more afterwards. After failures the wait grows exponentially per key (1 s to 5 min), so that one broken object
does not occupy the workers.

States of a key: waiting (due at a time) → running (taken) → gone, or waiting again. A dirty flag on a running key
remembers additions. Order: by due time, then by insertion, so that no key starves.

It does not know what a key means, and it does not wait: `next_due_ms` tells the caller how long to sleep. Modelled on
client-go's workqueue.
"""

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from muster_operator.limits import BACKOFF_FIRST_MS, BACKOFF_MAX_MS, KEYS_MAX

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Entry:
    due_ms: int
    serial: int


@dataclass(slots=True)
class WorkQueue(Generic[Key]):
    """`add`, `take`, `done`; see the module. All times are milliseconds of one monotonic clock."""

    keys_max: int = KEYS_MAX
    _waiting: dict[Key, _Entry] = field(default_factory=dict)
    _heap: list[tuple[int, int, Key]] = field(default_factory=list)
    _running: dict[Key, int] = field(default_factory=dict)
    _dirty: dict[Key, int] = field(default_factory=dict)
    _failures: dict[Key, int] = field(default_factory=dict)
    _serial: int = 0

    def add(self, key: Key, now_ms: int, after_ms: int = 0) -> bool:
        """Run `key` after `after_ms`; of two due times the earlier one counts. False: the queue is full."""
        due = now_ms + max(0, after_ms)
        if key in self._running:
            self._dirty[key] = min(due, self._dirty.get(key, due))
            return True
        known = self._waiting.get(key)
        if known is not None and known.due_ms <= due:
            return True
        if known is None and len(self._waiting) + len(self._running) >= self.keys_max:
            return False
        self._put(key, due)
        return True

    def take(self, now_ms: int) -> Key | None:
        """The key that has been due longest, which is running from now on; None if none is due."""
        while self._heap:
            due, serial, key = self._heap[0]
            entry = self._waiting.get(key)
            if entry is None or entry.serial != serial:
                heapq.heappop(self._heap)  # superseded
                continue
            if due > now_ms:
                return None
            heapq.heappop(self._heap)
            del self._waiting[key]
            self._running[key] = now_ms
            return key
        return None

    def done(self, key: Key, now_ms: int, *, requeue_after_ms: int | None = None) -> None:
        """The pass over `key` succeeded; the next one is due after `requeue_after_ms` (None: after a change only)."""
        self._failures.pop(key, None)
        self._finish(key, now_ms, None if requeue_after_ms is None else now_ms + requeue_after_ms)

    def failed(self, key: Key, now_ms: int, *, at_least_ms: int = 0) -> int:
        """The pass failed; returns the back-off in ms. A change of the object does not shorten the wait below the first
        back-off."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = max(at_least_ms, backoff_ms(failures))
        changed = self._dirty.get(key)
        if changed is not None:
            self._dirty[key] = max(changed, now_ms + BACKOFF_FIRST_MS)
        self._finish(key, now_ms, now_ms + wait)
        return wait

    def forget(self, key: Key) -> None:
        """The object is gone: its failures and due time are dropped. A running pass still ends with `done`, which
        leaves nothing."""
        self._failures.pop(key, None)
        self._dirty.pop(key, None)
        self._waiting.pop(key, None)

    def next_due_ms(self) -> int | None:
        """When the next key is due; None if no key waits."""
        while self._heap:
            due, serial, key = self._heap[0]
            entry = self._waiting.get(key)
            if entry is not None and entry.serial == serial:
                return due
            heapq.heappop(self._heap)
        return None

    def depth(self, now_ms: int) -> int:
        """Keys that are due and not taken."""
        return sum(1 for entry in self._waiting.values() if entry.due_ms <= now_ms)

    def oldest_ms(self, now_ms: int) -> int:
        """How long the longest-waiting due key has been due; 0 if none is due."""
        return max((now_ms - entry.due_ms for entry in self._waiting.values() if entry.due_ms <= now_ms), default=0)

    def longest_running_ms(self, now_ms: int) -> int:
        """How long the longest pass in progress has run so far."""
        return max((now_ms - since for since in self._running.values()), default=0)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def _finish(self, key: Key, now_ms: int, due_ms: int | None) -> None:
        self._running.pop(key, None)
        dirty = self._dirty.pop(key, None)
        dates = [date for date in (due_ms, dirty) if date is not None]
        if dates:
            self._put(key, max(now_ms, min(dates)))

    def _put(self, key: Key, due_ms: int) -> None:
        self._serial += 1
        self._waiting[key] = _Entry(due_ms=due_ms, serial=self._serial)
        heapq.heappush(self._heap, (due_ms, self._serial, key))


def backoff_ms(failures: int) -> int:
    """Wait after failure number `failures` (from 0): 1 s, 2 s, 4 s, ... 5 min."""
    return min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS << min(failures, 20))
