"""Counters and views of a shard for metrics and `/v1` (protocol notes 10).

Nothing here feeds back into decisions. Each number is a family of `/metrics` (`admin.metrics`), summed over the shards.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class ShardStats:
    """What this process did while it led; volatile."""

    rebalances_started: int = 0
    rebalances_completed: int = 0
    """Once per CompletingRebalance -> Stable, as Kafka's group-completed-rebalance-count."""
    rebalances_timed: int = 0
    """Completed ones whose start this leader saw."""
    rebalances_ms: int = 0
    """Their time in all, from the start of the join phase to Stable."""
    offsets_committed: int = 0
    offsets_expired: int = 0
    offsets_deleted: int = 0
    sessions_expired: int = 0
    requests_refused_waiting: int = 0
    """Answered 15 because too many waited for one group's record."""
    faults: int = 0
    """Errors of ours that cost a request and its group's volatile state (`faults`)."""


def summed(stats: Iterable[ShardStats]) -> ShardStats:
    """All of them together."""
    total = ShardStats()
    for one in stats:
        total.rebalances_started += one.rebalances_started
        total.rebalances_completed += one.rebalances_completed
        total.rebalances_timed += one.rebalances_timed
        total.rebalances_ms += one.rebalances_ms
        total.offsets_committed += one.offsets_committed
        total.offsets_expired += one.offsets_expired
        total.offsets_deleted += one.offsets_deleted
        total.sessions_expired += one.sessions_expired
        total.requests_refused_waiting += one.requests_refused_waiting
        total.faults += one.faults
    return total


class GroupMetrics(NamedTuple):
    """One group for `/v1` and the per-group metrics."""

    group: str
    type: str
    """`classic` or `simple`."""
    state: str
    generation: int
    members: int
    protocol_type: str
    protocol: str
    offsets: int
