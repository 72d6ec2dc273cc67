"""All deadlines of a shard in one heap, in which moving a deadline later costs O(1).

Every heartbeat moves its member's session deadline; a push for each would make the most frequent request O(log n) and
leave dead entries behind. So a `Timer` holds when it is due (`at_ms`) and the time of its one live heap entry
(`queued_ms <= at_ms`). When that entry comes up early, the timer is queued again at its real time. Cancelling only
clears `at_ms`. Dead entries are swept whenever the heap has doubled since the last sweep.

Times are monotonic milliseconds of the leader; none is ever stored.
"""

import heapq
from collections.abc import Iterator
from enum import IntEnum


class TimerKind(IntEnum):
    """What to do when a timer fires; the shard dispatches on it."""

    SESSION = 0
    """A member's session."""
    PENDING_MEMBER = 1
    """A member id that was handed out and has not joined yet (KIP-394)."""
    JOIN = 2
    """End of a join phase, or of one window of an initial one."""
    SYNC = 3
    """End of the sync phase: members that have not sent SyncGroup are removed."""
    PENDING_REBALANCE = 4
    """A rebalance that could not start when it was due."""
    EXPIRY = 5
    """The next sweep of expired offsets."""
    WAITING = 6
    """A group has more waiting requests than one turn may handle."""
    JOB = 7
    """A background job pauses before it continues."""


class Timer:
    """One deadline that can be armed again. `group` and `member` are empty where they do not apply."""

    __slots__ = ("at_ms", "due_ms", "group", "kind", "member", "queued_ms")

    def __init__(self, kind: TimerKind, group: str = "", member: str = "") -> None:
        self.kind = kind
        self.group = group
        self.member = member
        self.at_ms: int | None = None
        """None while not armed."""
        self.queued_ms: int | None = None
        # Invariant while armed: queued_ms <= at_ms.
        self.due_ms = 0
        """The time at which it was due when it last fired."""


_SWEEP_MIN = 64


class Deadlines:
    """The heap. All operations are O(log n) or better, amortised."""

    __slots__ = ("_heap", "_sequence", "_sweep_at")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._sweep_at = _SWEEP_MIN

    def arm(self, timer: Timer, at_ms: int) -> None:
        """Arm or move the timer. A later time writes a field; an earlier one, or a new timer, costs one push."""
        timer.at_ms = at_ms
        if timer.queued_ms is None or at_ms < timer.queued_ms:
            self._push(timer, at_ms)

    def postpone(self, timer: Timer, at_ms: int) -> bool:
        """Move an armed timer to an equal or later time. Returns False, and does nothing, when `arm` is needed."""
        if timer.at_ms is None or at_ms < timer.at_ms:
            return False
        timer.at_ms = at_ms
        return True

    def cancel(self, timer: Timer) -> None:
        """Disarm the timer."""
        timer.at_ms = None

    def clear(self) -> None:
        """Drop all timers; they must not be used again."""
        self._heap.clear()
        self._sweep_at = _SWEEP_MIN

    def next_ms(self) -> int | None:
        """A time not later than the next deadline, or None. May be early: `due` then finds nothing."""
        heap = self._heap
        while heap:
            at_ms, _, timer = heap[0]
            if timer.queued_ms == at_ms and timer.at_ms is not None:
                return at_ms
            self._drop_head()
        return None

    def due(self, now_ms: int, limit: int) -> Iterator[Timer]:
        """Timers that are due, disarmed one by one (`due_ms` tells when each was due). Visits at most `limit` entries.

        A handler may arm or cancel other timers: that affects the ones not yet yielded.
        """
        for _ in range(limit):
            if not self._heap or self._heap[0][0] > now_ms:
                return
            timer = self._drop_head()
            if timer is None or timer.at_ms is None:
                continue
            if timer.at_ms > now_ms:
                self._push(timer, timer.at_ms)
                continue
            timer.due_ms = timer.at_ms
            timer.at_ms = None
            yield timer

    def _push(self, timer: Timer, at_ms: int) -> None:
        timer.queued_ms = at_ms
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, timer))
        if len(self._heap) > self._sweep_at:
            self._sweep()

    def _drop_head(self) -> Timer | None:
        """Pop the head; its timer if the entry was live, else None."""
        at_ms, _, timer = heapq.heappop(self._heap)
        if timer.queued_ms != at_ms:
            return None
        timer.queued_ms = None
        return timer

    def _sweep(self) -> None:
        """Drop dead entries. Amortised O(1) per push, as it runs once per doubling."""
        kept = []
        for entry in self._heap:
            at_ms, _, timer = entry
            if timer.queued_ms != at_ms:
                continue
            if timer.at_ms is None:
                timer.queued_ms = None
                continue
            kept.append(entry)
        heapq.heapify(kept)
        self._heap = kept
        self._sweep_at = max(_SWEEP_MIN, 2 * len(kept))
