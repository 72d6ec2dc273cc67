"""One heap of deadlines for all Raft groups and shards of a replica, behind one timer of the loop (decision 19).

Problem: each group moves its deadline often, and nearly always to a later time (a heartbeat renews the election
timeout). Mechanism: moving a deadline later only stores it; its earlier entry stays in the heap, and when that is
reached the deadline is queued anew. A stall of the loop (a paused process, a machine without processors) makes many
deadlines overdue at once while the peers' messages are still unread in the sockets, or unsent, where the peers stood
still as well: if the timer fires later than `STALL_MS`, all deadlines wait once for `GRACE_MS`. What it does not do:
repeat a deadline that has fired.
"""

import heapq
from collections.abc import Callable

from muster_coordinator.limits import HEARTBEAT_MS
from muster_coordinator.ports import Loop, Timer

STALL_MS = HEARTBEAT_MS
GRACE_MS = HEARTBEAT_MS
"""Heartbeats are sent as soon as a loop comes round: by then peers that woke at about the same time have been heard."""
FIRED_PER_TURN_MAX = 256
"""Deadlines fired in one turn; the rest run in the next."""
LOOKED_AT_PER_TURN_MAX = 1_024
"""Heap entries taken in one turn, those of deadlines that were moved or cleared included; 2 us each."""


class Due:
    """The owner of at most one deadline."""

    __slots__ = ("due_ms", "fire", "queued_ms")

    def __init__(self, fire: Callable[[int], None]) -> None:
        self.fire = fire
        """Called with the current time in ms when the deadline has passed; the deadline is cleared before the call."""
        self.due_ms: int | None = None
        """The deadline; None: none is set."""
        self.queued_ms: int | None = None
        """The time of its entry in the heap. Invariant: not later than `due_ms`, if both are set."""


class Deadlines:
    """See the module."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._heap: list[tuple[int, int, Due]] = []
        self._count = 0
        self._timer: Timer | None = None
        self._timer_ms = 0
        """The deadline that the timer is for."""
        self._runs_ms = 0
        """When a loop without a stall runs the timer: of an overdue deadline that is when it was armed."""
        self._grace = False
        """The timer is that of the grace. Invariant: nothing arms another one meanwhile, though the heap's first entry
        is overdue."""
        self.stalls = 0
        """How often the timer fired so late that deadlines were given the grace."""

    def set(self, due: Due, when_ms: int | None) -> None:
        """Move or clear a deadline."""
        due.due_ms = when_ms
        if when_ms is not None and (due.queued_ms is None or when_ms < due.queued_ms):
            due.queued_ms = when_ms
            self._count += 1
            heapq.heappush(self._heap, (when_ms, self._count, due))
            self._arm()

    def _arm(self) -> None:
        if not self._heap or self._grace:
            return
        first = self._heap[0][0]
        if self._timer is not None:
            if self._timer_ms <= first:
                return
            self._timer.cancel()
        self._timer_ms = first
        self._runs_ms = max(first, self._loop.monotonic_ms())
        self._timer = self._loop.call_at(first, self._fire)

    def _fire(self) -> None:
        now_ms = self._loop.monotonic_ms()
        if now_ms - self._runs_ms > STALL_MS and not self._grace:
            self._grace = True
            self.stalls += 1
            self._timer = self._loop.call_at(now_ms + GRACE_MS, self._fire)
            return
        self._grace = False
        self._timer = None
        heap = self._heap
        fired = looked_at = 0
        while heap and heap[0][0] <= now_ms and fired < FIRED_PER_TURN_MAX and looked_at < LOOKED_AT_PER_TURN_MAX:
            looked_at += 1
            when_ms, _, due = heapq.heappop(heap)
            if due.queued_ms != when_ms:
                continue
            due.queued_ms = None
            wanted_ms = due.due_ms
            if wanted_ms is None:
                continue
            if wanted_ms > now_ms:
                self.set(due, wanted_ms)
                continue
            due.due_ms = None
            fired += 1
            due.fire(now_ms)
        self._arm()
