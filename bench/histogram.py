"""Latency histograms as the load generator writes them, `[[highest ns of a bucket, count], ...]`, merged. Pure.

Medians of p99s are what tables show; the p99 of all runs together needs the buckets, since percentiles do not add up.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

Buckets = Sequence[Sequence[int]]


def merge(histograms: Iterable[Buckets]) -> list[tuple[int, int]]:
    """Counts of equal buckets added; ascending."""
    total: Counter[int] = Counter()
    for buckets in histograms:
        for highest_ns, count in buckets:
            total[highest_ns] += count
    return sorted(total.items())


def percentile_us(buckets: Buckets, share: float) -> float | None:
    """Upper edge, in µs, of the bucket that `share` of the values do not exceed; None when there are none."""
    assert 0 < share <= 1
    wanted = share * sum(count for _, count in buckets)
    seen = 0
    for highest_ns, count in buckets:
        seen += count
        if count and seen >= wanted:
            return highest_ns / 1_000
    return None
