"""Merges latency histograms of the load generator, `[[highest ns of a bucket, count], ...]`. Pure.

Tables show medians of p99s; the p99 of all runs together needs the buckets, since percentiles cannot be averaged.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

Buckets = Sequence[Sequence[int]]


def merge(histograms: Iterable[Buckets]) -> list[tuple[int, int]]:
    """Adds the counts of equal buckets; ascending."""
    total: Counter[int] = Counter()
    for buckets in histograms:
        for highest_ns, count in buckets:
            total[highest_ns] += count
    return sorted(total.items())


def percentile_us(buckets: Buckets, share: float) -> float | None:
    """Upper edge, in µs, of the bucket below which `share` of the values lie; None without values."""
    assert 0 < share <= 1
    wanted = share * sum(count for _, count in buckets)
    seen = 0
    for highest_ns, count in buckets:
        seen += count
        if count and seen >= wanted:
            return highest_ns / 1_000
    return None
