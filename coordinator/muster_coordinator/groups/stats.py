"""Counters and views of a shard for metrics and `/v1` (protocol notes 10).

No decision depends on them. Each number is a family of `/metrics` (`admin.metrics`), summed over the shards.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class ShardStats:
    """Counts since this process started, while it led; volatile."""

    rebalances_started: int = 0
    rebalances_completed: int = 0
    """One per CompletingRebalance → Stable, as Kafka's group-completed-rebalance-count."""
    rebalances_timed: int = 0
    """Completed rebalances that also began under this leader."""
    rebalances_ms: int = 0
    """Their total duration, from the start of the join phase to Stable."""
    offsets_committed: int = 0
    offsets_expired: int = 0
    offsets_deleted: int = 0
    sessions_expired: int = 0
    requests_refused_waiting: int = 0
    """Requests answered 15 because too many waited for one group's record."""
    faults: int = 0
    """Contained errors of ours; each fails a request and drops its group's volatile state (`faults`)."""


def summed(stats: Iterable[ShardStats]) -> ShardStats:
    """The sums over all shards."""
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
