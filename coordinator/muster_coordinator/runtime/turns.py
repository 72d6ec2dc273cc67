"""How much of one turn of the event loop client requests may take, and which connection continues in the next.

Problem: one poll can return a thousand readable sockets. Handling all of them in one turn takes a tenth of a second, in
which no heartbeat of another group and no Raft message is handled. Mechanism: requests are handled for
`limits.CLIENTS_TURN_MS_MAX`; the other connections are postponed: a `FairQueue` gives them in slices of that length,
with a poll between two slices. While there are some, new requests of all connections are postponed too, so that within
a group no request overtakes an older one.

What it does not do: bound what one connection does in a row (`wire.connection`), or flow control.
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
        self._postponed: FairQueue[Work] = FairQueue()
        self._ends_ms: int | None = None
        """When the current slice ends; None while no request was handled or postponed."""

    def __len__(self) -> int:
        return len(self._postponed)

    def may_work(self) -> bool:
        """Is there time left in this turn, and no connection postponed?"""
        now_ms = self._clock.monotonic_ms()
        if self._ends_ms is None:
            self._ends_ms = now_ms + limits.CLIENTS_TURN_MS_MAX
            self._call_soon(self._turn_over)
            return True
        return not self._postponed and now_ms < self._ends_ms

    def postpone(self, subject: bytes, work: Work) -> None:
        """Do `work` in a later turn. Precondition: `may_work` returned False in this turn."""
        assert self._ends_ms is not None, "who may not work was told so in a slice that has begun"
        self._postponed.put(subject, work)

    def _turn_over(self) -> None:
        postponed, clock = self._postponed, self._clock
        ends_ms = clock.monotonic_ms() + limits.CLIENTS_TURN_MS_MAX
        while postponed:
            postponed.take()()
            if clock.monotonic_ms() >= ends_ms:
                break
        if postponed:
            self._call_soon(self._turn_over)
        else:
            self._ends_ms = None
