"""How much of one turn of the event loop the clients' requests may take, and who goes on in the next.

One poll can bring a thousand readable sockets, and every one is handed over in the same turn. Handling them all there
makes a turn of a tenth of a second, in which no heartbeat of another group and no Raft message moves. So requests are
handled for `limits.CLIENTS_TURN_MS_MAX`, then the rest waits in a `FairQueue` and is taken in slices of that length,
with a poll between two slices. While anybody waits, newcomers queue up too: whoever came first is not overtaken within
its group.

Deliberately not here: how much one connection may do at a stretch (`wire.connection`), and flow control.
"""

from collections.abc import Callable

from muster_coordinator.ports import Clock
from muster_coordinator.runtime import limits
from muster_coordinator.wire.fairness import FairQueue

Work = Callable[[], None]


class Turns:
    """`call_soon` runs a call in the loop's next turn."""

    def __init__(self, clock: Clock, call_soon: Callable[[Work], object]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._waiting: FairQueue[Work] = FairQueue()
        self._ends_ms: int | None = None
        """None between turns that had requests."""

    def __len__(self) -> int:
        return len(self._waiting)

    def may_work(self) -> bool:
        """Is there time left in this turn, and nobody who has waited longer?"""
        now_ms = self._clock.monotonic_ms()
        if self._ends_ms is None:
            self._ends_ms = now_ms + limits.CLIENTS_TURN_MS_MAX
            self._call_soon(self._turn_over)
            return True
        return not self._waiting and now_ms < self._ends_ms

    def postpone(self, subject: bytes, work: Work) -> None:
        """Do it in a later turn. After `may_work` said no."""
        assert self._ends_ms is not None
        self._waiting.put(subject, work)

    def _turn_over(self) -> None:
        waiting, clock = self._waiting, self._clock
        ends_ms = clock.monotonic_ms() + limits.CLIENTS_TURN_MS_MAX
        while waiting:
            waiting.take()()
            if clock.monotonic_ms() >= ends_ms:
                break
        if waiting:
            self._call_soon(self._turn_over)
        else:
            self._ends_ms = None
