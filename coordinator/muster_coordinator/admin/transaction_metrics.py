"""The metrics of transactions: of their coordinators here, of the partitions led here, and of markers on their way.

Per partition only what is in trouble has a series: one that is not there stands for none. What is open is bounded by
the partitions led here, what lacks a marker for long by `LATE_PARTITIONS_MAX`.
"""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.ids import GroupNo

LABELS = ["topic", "partition"]


def transaction_metrics(
    replica: AdminReplica, names: Mapping[GroupNo, tuple[str, int]], piece: int
) -> Iterator[Metric]:
    """All of them, families of partitions in pieces of so many rows."""
    yield from _of_coordinators(replica)
    yield from _of_partitions(replica, names, piece)
    yield from _of_markers(replica, piece)


def _of_coordinators(replica: AdminReplica) -> Iterator[Metric]:
    status = replica.transaction_status()
    yield GaugeMetricFamily("muster_transactional_ids", "Transactional ids coordinated here.", value=status.ids)
    states = GaugeMetricFamily(
        "muster_transactions", "Transactions coordinated here that are not complete.", labels=["state"]
    )
    states.add_metric(["ongoing"], status.ongoing)
    states.add_metric(["prepared"], status.prepared)
    ended = CounterMetricFamily(
        "muster_transactions_completed", "Transactions whose partitions all have their marker.", labels=["outcome"]
    )
    ended.add_metric(["committed"], status.committed)
    ended.add_metric(["aborted"], status.aborted)
    yield from (states, ended)
    yield CounterMetricFamily(
        "muster_transactions_timed_out", "Transactions that were aborted at their time-out.", value=status.timed_out
    )
    yield CounterMetricFamily("muster_producers_fenced", "Requests of producers that were fenced.", value=status.fenced)
    yield CounterMetricFamily(
        "muster_transactional_ids_expired", "Transactional ids that expired.", value=status.ids_expired
    )


def _of_partitions(replica: AdminReplica, names: Mapping[GroupNo, tuple[str, int]], piece: int) -> Iterator[Metric]:
    age = GaugeMetricFamily(
        "muster_oldest_open_transaction_seconds", "How long it keeps back the last stable offset.", labels=LABELS
    )
    lag = GaugeMetricFamily(
        "muster_last_stable_offset_lag", "Offsets that readers of committed data do not get yet.", labels=LABELS
    )
    for one in replica.open_transactions():
        topic, partition = names.get(one.group, ("", one.group))
        age.add_metric([topic, str(partition)], one.open_ms / 1000)
        lag.add_metric([topic, str(partition)], one.lag)
        if len(age.samples) >= piece:
            yield from (age, lag)
            age.samples, lag.samples = [], []
    yield from (age, lag)


def _of_markers(replica: AdminReplica, piece: int) -> Iterator[Metric]:
    late = GaugeMetricFamily(
        "muster_transaction_marker_late_seconds",
        "How long a partition has lacked a marker that a coordinator here sends to it; from 10 s on.",
        labels=LABELS,
    )
    for one in replica.late_markers():
        late.add_metric([one.topic, str(one.partition)], one.late_ms / 1000)
        if len(late.samples) >= piece:
            yield late
            late.samples = []
    yield late
