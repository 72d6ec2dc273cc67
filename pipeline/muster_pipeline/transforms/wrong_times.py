"""Where a log partition's clocks were wrong, for the rows that this touches: by log offset, and by time.

Bounded: beyond CLOCK_WRONG_SPANS_MAX places the last one is extended, which lowers more quality than necessary and
never less.
"""

import numpy as np

from muster_pipeline.transforms.arrays import Bools, Ints
from muster_pipeline.transforms.limits import CLOCK_WRONG_SPANS_MAX


class Spans:
    """Closed spans of numbers that come in order."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Precondition: `start` is not below the last one's."""
        touches = bool(self._ends) and start <= self._ends[-1] + 1
        if touches or len(self._starts) >= CLOCK_WRONG_SPANS_MAX:
            self._ends[-1] = max(self._ends[-1], end)
            return
        self._starts.append(start)
        self._ends.append(end)

    def hold(self, values: Ints) -> Bools:
        """Which values are inside."""
        if not self._starts:
            return np.zeros(len(values), dtype=np.bool_)
        starts, ends = np.array(self._starts, dtype=np.int64), np.array(self._ends, dtype=np.int64)
        place = np.searchsorted(starts, values, "right") - 1
        return (place >= 0) & (values <= ends[np.maximum(place, 0)])


class WrongTimes:
    """What `clock.Clock` told of one log partition."""

    __slots__ = ("behind_ms", "offsets", "raised_ms")

    def __init__(self) -> None:
        self.offsets = Spans()
        """Log offsets of records whose own time is wrong."""
        self.raised_ms = Spans()
        """Times within which such a record happened, somewhen."""
        self.behind_ms = Spans()
        """Times at which the clock itself may be wrong: records were far behind it."""
