"""The report as Prometheus text, for a node exporter's textfile folder or a push gateway.

Names follow kafka-lag-exporter, so that its dashboards and alerts can use them. Unknown lag has no sample: an alert can
find a missing series, but not a wrong zero. The number of groups is bounded; the rest is summed as `group="(other)"`.
"""

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from muster_pipeline.report.page import Report

GROUPS_MAX = 1_000


def prometheus_text(report: Report) -> bytes:
    """Exposition format 0.0.4."""
    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=registry)

    lag = gauge(
        "kafka_consumergroup_group_sum_lag", "Records behind, over partitions with known lag", "cluster_name", "group"
    )
    most = gauge("kafka_consumergroup_group_max_lag", "Records behind on the worst partition", "cluster_name", "group")
    unknown = gauge(
        "muster_pipeline_group_partitions_lag_unknown", "Partitions whose lag is unknown", "cluster_name", "group"
    )
    moved = gauge("muster_pipeline_group_rebalances", "Rebalances in the log", "cluster_name", "group")
    avoided = gauge(
        "muster_pipeline_group_rebalances_avoided", "Static members that came back", "cluster_name", "group"
    )
    quarantined = gauge("muster_pipeline_quarantined_bytes", "Bytes that could not be decoded", "cluster_name")
    missing = gauge("muster_pipeline_offsets_missing", "Log offsets without a record", "cluster_name")
    cluster = report.about.cluster
    ranked = sorted(report.lag, key=lambda name: (-(report.lag[name].total or 0), name))
    rest = 0
    for place, name in enumerate(ranked):
        one = report.lag[name]
        if place >= GROUPS_MAX:
            rest += one.total or 0
            continue
        known = [p.lag for p in one.partitions.values() if p.lag is not None]
        if known:
            lag.labels(cluster, name).set(sum(known))
            most.labels(cluster, name).set(max(known))
        unknown.labels(cluster, name).set(len(one.partitions) - len(known))
    if len(ranked) > GROUPS_MAX:
        lag.labels(cluster, "(other)").set(rest)
    for name in sorted(report.rebalances.groups)[:GROUPS_MAX]:
        moved.labels(cluster, name).set(report.rebalances.groups[name].count)
        avoided.labels(cluster, name).set(report.rebalances.groups[name].avoided)
    quarantined.labels(cluster).set(report.quality.bytes_quarantined)
    missing.labels(cluster).set(report.quality.offsets_missing)
    return generate_latest(registry)
