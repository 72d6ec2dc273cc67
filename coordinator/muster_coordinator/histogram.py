"""Latency histograms whose observation costs one binary search: a lock and a label look-up would cost the request path
too much."""

from bisect import bisect_left
from collections.abc import Sequence

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Inclusive upper bounds, from half a millisecond (an idle disk) to five seconds (the commit timeout)."""


class Histogram:
    """Counts per bucket; `buckets` returns them in Prometheus' form."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound, cumulative count) pairs; the last bound is `+Inf`."""
        found, running = [], 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            running += count
            found.append((bound, float(running)))
        return found
