"""When checkpoints have to begin so that the WAL never fills, and how replicas differ in it.

Problem: checkpoints start at a bounded pace, so two thousand groups take minutes; begun in the last quarter of the WAL,
most would come too late. And the replicas of a group see the same entries at the same time. Mechanism: the bytes that
the WAL grows by while every active group has its turn are taken off the point at which they begin; and each replica of
a group has a share, by its place among the voters, turned by the group's number so that none is the early one of all.
"""

from collections.abc import Sequence

from muster_coordinator.ids import BrokerId, GroupNo

_SMOOTHING_MS = 1_000


class WriteRate:
    """What one WAL grows by, smoothed over a second."""

    def __init__(self) -> None:
        self._seen_ms = -1
        self._seen_bytes = 0
        self._bytes_per_ms = 0.0

    def grown(self, now_ms: int, written_bytes: int, during_ms: int) -> int:
        """Tell what was written so far; the bytes to be expected in `during_ms`."""
        passed_ms = now_ms - self._seen_ms
        if self._seen_ms >= 0 and passed_ms > 0:
            weight = min(1.0, passed_ms / _SMOOTHING_MS)
            self._bytes_per_ms += weight * ((written_bytes - self._seen_bytes) / passed_ms - self._bytes_per_ms)
        self._seen_ms, self._seen_bytes = now_ms, written_bytes
        return int(self._bytes_per_ms * during_ms)


def share_of(broker: BrokerId, voters: Sequence[BrokerId], group: GroupNo) -> float:
    """From 0 to below 1, another one on each replica of the group."""
    ordered = sorted(voters)
    place = ordered.index(broker) if broker in ordered else 0
    return (place + group) % len(ordered) / len(ordered)
