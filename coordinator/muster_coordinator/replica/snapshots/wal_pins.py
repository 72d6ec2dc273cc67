"""When checkpoints must start so that the WAL never fills, and how the replicas of a group spread them.

Problem: checkpoints start at a bounded pace, so those of two thousand groups take minutes: if the first starts when the
WAL is three quarters full, most come too late. And the replicas of a group apply the same entries at the same time.
Mechanism: the fill level at which checkpoints start is lowered by the bytes that the WAL will grow by while each active
group writes one (`WriteRate`). Each replica of a group has its own share, by its place among the voters, rotated by the
group's number so that no replica is first in all groups (`share_of`). What it does not do: start a checkpoint.
"""

from collections.abc import Sequence

from muster_coordinator.ids import BrokerId, GroupNo

_SMOOTHING_MS = 1_000


class WriteRate:
    """The growth rate of one WAL, smoothed over a second."""

    def __init__(self) -> None:
        self._seen_ms = -1
        self._seen_bytes = 0
        self._bytes_per_ms = 0.0

    def grown(self, now_ms: int, written_bytes: int, during_ms: int) -> int:
        """Take in the bytes written so far; returns the bytes to be expected in the next `during_ms`."""
        passed_ms = now_ms - self._seen_ms
        if self._seen_ms >= 0 and passed_ms > 0:
            weight = min(1.0, passed_ms / _SMOOTHING_MS)
            self._bytes_per_ms += weight * ((written_bytes - self._seen_bytes) / passed_ms - self._bytes_per_ms)
        self._seen_ms, self._seen_bytes = now_ms, written_bytes
        return int(self._bytes_per_ms * during_ms)


def share_of(broker: BrokerId, voters: Sequence[BrokerId], group: GroupNo) -> float:
    """This replica's share, from 0 to below 1; it differs on each replica of the group."""
    ordered = sorted({*voters, broker})  # a replica that came later may not know yet that it will vote
    return (ordered.index(broker) + group) % len(ordered) / len(ordered)
