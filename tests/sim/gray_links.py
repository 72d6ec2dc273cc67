"""Links that are neither up nor down: one direction of one pair of replicas is slow, or loses much, for a while.

Such a link answers its handshake and its keep-alives. A leader may be heard and not hear, or hear everything half a
second late, while all others are well: nobody is cut off, and nothing says that anybody is ill. The other links stay as
they are, unlike in the faults `slow-links` and `lossy-links`, and two of them may be gray at once. In the share of the
seeds that is drawn here, from a stream of its own; all other seeds stay as they were.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from muster_coordinator.ids import BrokerId

SHARE = 0.4
"""Of all seeds."""
EVERY_MS = (400, 4_000)
LASTS_MS = (300, 6_000)
DELAYS_US = ((20_000, 60_000), (200_000, 500_000), (900_000, 1_800_000))
"""A slow link; around the pause after a lost one; around an election timeout."""
LOSSES = (0.05, 0.3, 0.7)
MARK = "a link was gray"


class Gray(NamedTuple):
    """What one direction does, beside what all of them do."""

    delay_us: tuple[int, int] | None
    """None: as the others."""
    loss: float

    def loses(self, rand: random.Random) -> bool:
        return self.loss > 0 and rand.random() < self.loss


Directions = dict[tuple[int, int], Gray]
"""(sender, receiver) -> what it is."""


class GrayLinks:
    """`arm` before the run, `heal` at the end of the storm. `directions` is the net's."""

    def __init__(
        self,
        seed: str,
        brokers: Sequence[BrokerId],
        directions: Directions,
        after: Callable[[int, Callable[[], None]], None],
        mark: Callable[[str], None],
    ) -> None:
        """`after(ms, call)` is the world's clock."""
        self._rand = random.Random(f"{seed}/gray-links")
        # Seeds with names are aimed at something (`tests.mutants`), and stay as they were.
        self.enabled = seed.isdigit() and self._rand.random() < SHARE
        self._brokers = brokers
        self._directions = directions
        self._after = after
        self._mark = mark
        self._over = False

    def arm(self) -> None:
        if self.enabled:
            self._after(self._rand.randint(*EVERY_MS), self._again)

    def _again(self) -> None:
        if self._over:
            return
        rand = self._rand
        self._after(rand.randint(*EVERY_MS), self._again)
        one, two = rand.sample(list(self._brokers), 2)
        kind = rand.randrange(3)
        delay_us = rand.choice(DELAYS_US) if kind != 1 else None
        loss = rand.choice(LOSSES) if kind != 0 else 0.0
        gray = self._directions[one, two] = Gray(delay_us, loss)
        self._mark(MARK)

        def ends() -> None:
            # Another one may have begun there meanwhile.
            if self._directions.get((one, two)) is gray:
                del self._directions[one, two]

        self._after(rand.randint(*LASTS_MS), ends)

    def heal(self) -> None:
        self._over = True
        self._directions.clear()
