"""The report as Prometheus text, for a node exporter's textfile folder or a push gateway.

Our own names, and those of the exporters that people have dashboards for (`peer_metrics`). Unknown lag has no sample:
an alert can find a missing series, but not a wrong zero. A group that was deleted, has no members or was abandoned has
no lag either; what it left unread has a name of its own. The number of groups is bounded; the rest is summed as
`group="(other)"`.
"""

from collections.abc import Collection, Mapping

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from muster_pipeline.report.owners import Owner, Place
from muster_pipeline.report.page import Report
from muster_pipeline.report.peer_metrics import PeerMetrics
from muster_pipeline.report.peer_names import BY_DEFAULT, OTHERS, Peer
from muster_pipeline.report.standing import ABANDONED, DELETED, EMPTY, NO_OFFSETS
from muster_pipeline.report.troubles import LEVELS

GROUPS_MAX = 1_000


def exported(report: Report) -> list[str]:
    """Groups that have samples of their own, those furthest behind first."""
    return sorted(report.lag, key=lambda name: (-(report.lag[name].total or 0), name))[:GROUPS_MAX]


def prometheus_text(
    report: Report,
    peers: Collection[Peer] = BY_DEFAULT,
    owners: Mapping[Place, Owner] | None = None,
) -> bytes:
    """Exposition format 0.0.4. `peers`: whose names are told beside ours; `owners`: of the `exported` groups."""
    registry = CollectorRegistry()
    registry.register(PeerMetrics(report, exported(report), peers, owners or {}))

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=registry)

    lag = gauge("muster_pipeline_group_lag", "Records behind, over partitions with known lag", "cluster_name", "group")
    late = gauge(
        "muster_pipeline_group_lag_seconds", "Age of the oldest record that is not read, on the worst partition",
        *("cluster_name", "group"),
    )  # fmt: skip
    groups = gauge("muster_pipeline_groups", "Groups by status, as the page counts them", "cluster_name", "status")
    as_of = gauge("muster_pipeline_as_of_timestamp_seconds", "Newest time in what was read", "cluster_name")
    unknown = gauge(
        "muster_pipeline_group_partitions_lag_unknown", "Partitions whose lag is unknown", "cluster_name", "group"
    )
    left = gauge("muster_pipeline_groups_left", "Groups that have no lag any more", "cluster_name", "why")
    behind = gauge(
        "muster_pipeline_group_left_behind",
        "Records that a group without members, or abandoned, has not read",
        *("cluster_name", "group", "why"),
    )
    status = gauge(
        "muster_pipeline_group_partitions", "Partitions of a group by status (table partition_status)",
        *("cluster_name", "group", "status"),
    )  # fmt: skip
    cluster = report.about.cluster
    for word in dict.fromkeys(LEVELS.values()):
        groups.labels(cluster, word).set(report.troubles.count(word))
    if report.troubles.now_ms is not None:
        as_of.labels(cluster).set(report.troubles.now_ms / 1_000)
    in_trouble = sorted(
        (name for name, one in report.troubles.groups.items() if one.since_ms is not None),
        key=lambda name: (report.troubles.groups[name].status, name),
    )
    for name in in_trouble[:GROUPS_MAX]:
        for word, count in sorted(report.troubles.groups[name].statuses.items()):
            status.labels(cluster, name, word).set(count)
    for why in (EMPTY, ABANDONED, DELETED, NO_OFFSETS):
        left.labels(cluster, why).set(sum(one.why == why for one in report.left.values()))
    over = {name: one.lag.total for name, one in report.left.items() if one.lag.total is not None}
    for name in sorted(over, key=lambda name: (-(over[name] or 0), name))[:GROUPS_MAX]:
        behind.labels(cluster, name, report.left[name].why).set(over[name] or 0)
    shown = exported(report)
    for name in shown:
        one = report.lag[name]
        known = [p.lag for p in one.partitions.values() if p.lag is not None]
        ages = [p.time_lag_ms for p in one.partitions.values() if p.time_lag_ms is not None]
        if known:
            lag.labels(cluster, name).set(sum(known))
        if ages:
            late.labels(cluster, name).set(max(ages) / 1_000)
        unknown.labels(cluster, name).set(len(one.partitions) - len(known))
    rest = report.lag.keys() - set(shown)
    if rest:
        lag.labels(cluster, OTHERS).set(sum(report.lag[name].total or 0 for name in rest))
    _history(registry, report)
    return generate_latest(registry)


def _history(registry: CollectorRegistry, report: Report) -> None:
    """Rebalances in the log, and how whole it is."""
    cluster, of_group = report.about.cluster, ("cluster_name", "group")
    moved = Gauge("muster_pipeline_group_rebalances", "Rebalances in the log", of_group, registry=registry)
    avoided = Gauge(
        "muster_pipeline_group_rebalances_avoided", "Static members that came back", of_group, registry=registry
    )
    quarantined = Gauge(
        "muster_pipeline_quarantined_bytes", "Bytes that could not be decoded", of_group[:1], registry=registry
    )
    missing = Gauge("muster_pipeline_offsets_missing", "Log offsets without a record", of_group[:1], registry=registry)
    still = [name for name in report.rebalances.groups if name not in report.left or report.left[name].why != DELETED]
    for name in sorted(still)[:GROUPS_MAX]:
        moved.labels(cluster, name).set(report.rebalances.groups[name].count)
        avoided.labels(cluster, name).set(report.rebalances.groups[name].avoided)
    quarantined.labels(cluster).set(report.quality.bytes_quarantined)
    missing.labels(cluster).set(report.quality.offsets_missing)
