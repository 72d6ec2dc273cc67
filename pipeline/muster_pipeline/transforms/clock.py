"""The log partition's clock: the running maximum of record timestamps, in log order.

Coordinators change, and their clocks differ; the order of the log does not. With a clock that never goes back, every
event has one minute, minutes close in order, and a fold needs to keep one minute open only.
"""

import numpy as np

from muster_pipeline.transforms.arrays import NONE, Ints
from muster_pipeline.transforms.limits import MINUTE_MS


class Clock:
    """Before the first record `now_ms` is NONE."""

    __slots__ = ("began_ms", "now_ms")

    def __init__(self) -> None:
        self.now_ms = NONE
        self.began_ms = NONE
        """Timestamp of the first record."""

    def advance(self, timestamps_ms: Ints) -> Ints:
        """The clock at each of the next records."""
        if len(timestamps_ms) == 0:
            return timestamps_ms
        clock = np.maximum(np.maximum.accumulate(timestamps_ms), self.now_ms)
        if self.began_ms == NONE:
            self.began_ms = int(clock[0])
        self.now_ms = int(clock[-1])
        return clock


def minutes(times_ms: Ints) -> Ints:
    """Start of the minute of each time."""
    return times_ms - times_ms % MINUTE_MS
