"""Lag of each ConsumerGroup as metrics, updated in every pass, while its status is written less often.

Covers groups of Muster and of Apache Kafka. Labels are namespace and name of the object, so there are no more series
than objects, and never more than LAG_SERIES_MAX. An unknown value has no series, instead of an old value or 0.
"""

from muster_operator.limits import LAG_PARTITIONS_MAX, LAG_SERIES_MAX
from muster_operator.plan.partitions import lag_of
from muster_operator.runtime.keys import OwnerKey
from muster_operator.runtime.lag_history import LagHistory
from muster_operator.runtime.metrics import Metrics
from muster_operator.world.group import ObservedGroup
from muster_operator.world.views import Unknown


class LagMetrics:
    """Call `observe` in each pass over a group, `forget` when its object is gone."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._histories: dict[OwnerKey, LagHistory] = {}
        self._partitions = 0
        """Sum over all histories."""

    def observe(self, key: OwnerKey, group: ObservedGroup | Unknown, now_ms: int) -> None:
        """`now_ms`: monotonic."""
        if key not in self._histories and len(self._histories) >= LAG_SERIES_MAX:
            return
        history = self._histories.setdefault(key, LagHistory())
        if isinstance(group, Unknown):
            self._metrics.lag(key.namespace, key.name, None, None)
            return
        before = len(history)
        room = LAG_PARTITIONS_MAX - (self._partitions - before)
        behind_ms = history.observe(group.partitions, now_ms, partitions_max=room)
        self._partitions += len(history) - before
        seconds = None if behind_ms is None else behind_ms / 1_000
        self._metrics.lag(key.namespace, key.name, lag_of(group).records, seconds)

    def forget(self, key: OwnerKey) -> None:
        history = self._histories.pop(key, None)
        if history is not None:
            self._partitions -= len(history)
            self._metrics.lag(key.namespace, key.name, None, None)
