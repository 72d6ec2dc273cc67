"""Who is first stays first for a while: orders of I/O threads that even latencies hardly ever give.

Problem: the latency of each job is drawn by itself. Of two threads with twenty jobs each none is ever through before
the other has begun: that takes luck twenty times in a row, and a fault that needs such an order is never seen. Machines
give such orders all the time, by a thread that lost the processor or a disk that serves somebody else. Mechanism: as in
probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010) the order follows from places and a few instants at
which they change. An I/O thread of a replica is first (its jobs take the least that they may), last (several times the
most), or goes by latencies drawn as ever. Now and then one changes its place, or all do. All of it is drawn from a
stream of its own, in a share of the numbered seeds; all other seeds stay as they were. What it does not do: order the
messages of two replicas, which `gray_links` does for one direction at a time.
"""

import random
from collections.abc import Callable
from enum import Enum, auto

from tests.sim.loop import Latency, World

SHARE = 0.25
"""Of all numbered seeds."""
EVERY_MS = (50, 1_200)
ALL_CHANGE_SHARE = 0.2
LAST_TIMES = (2, 10)
"""How often the longest latency a job of the last thread takes."""
MARK = "an I/O thread was last for a while"


class Place(Enum):
    FIRST = auto()
    LAST = auto()
    AS_DRAWN = auto()


PLACES = (Place.FIRST, Place.LAST, Place.AS_DRAWN)


class RareOrders:
    """`arm` before the run, `heal` at the end of the storm; `of` gives a replica's loop what it asks for each job."""

    def __init__(self, seed: str, world: World, mark: Callable[[str], None], *, share: float = SHARE) -> None:
        self._rand = random.Random(f"{seed}/rare-orders")
        # Seeds with names are aimed at something (`tests.mutants`), and stay as they were.
        self.enabled = seed.isdigit() and self._rand.random() < share
        self._world = world
        self._mark = mark
        self._places: dict[tuple[int, str], tuple[Place, int]] = {}
        """(replica, queue) -> its place, and how often the longest latency the last one takes."""
        self._holds = False

    def arm(self) -> None:
        if self.enabled:
            self._holds = True
            self._again()

    def _again(self) -> None:
        if not self._holds:
            return
        self._world.at(self._world.now_us + self._rand.randint(*EVERY_MS) * 1_000, self._again)
        if self._rand.random() < ALL_CHANGE_SHARE:
            self._places.clear()
        elif self._places:
            self._places[self._rand.choice(sorted(self._places))] = self._drawn()

    def _drawn(self) -> tuple[Place, int]:
        return self._rand.choice(PLACES), self._rand.randint(*LAST_TIMES)

    def of(self, broker: int) -> Callable[[str, Latency], int | None] | None:
        """`SimLoop.place` of a replica's life."""
        return (lambda queue, latency: self._wait_us((broker, queue), latency)) if self.enabled else None

    def _wait_us(self, thread: tuple[int, str], latency: Latency) -> int | None:
        """What the next job of this thread takes. None: as drawn."""
        if not self._holds:
            return None
        if thread not in self._places:
            self._places[thread] = self._drawn()
        place, times = self._places[thread]
        if place is Place.FIRST:
            return latency.low_us
        if place is Place.LAST:
            self._mark(MARK)
            return latency.high_us * times
        return None

    def heal(self) -> None:
        self._holds = False
