"""What dashboards and alerts that people have for three exporters ask for: metric names with the labels they use.

Names only, no dashboard is copied. Where they were looked up:

* kafka-lag-exporter: `grafana/Kafka_Lag_Exporter_Dashboard.json` of seglo/kafka-lag-exporter at 3fcb3c7, and the labels
  of its class Metrics. `namespace`, which its queries have too, is a label of the scrape, not of the exporter.
* KMinion: the list of metrics in the documents of redpanda-data/kminion at 4f3867a, all that its dashboards 14012 to
  14014 on grafana.com can ask for (those were not to be had themselves), and queries in public runbooks.
* Burrow: `core/internal/httpserver/prometheus.go` of linkedin/Burrow at ced55ba; and, for dashboards from before it had
  metrics of its own, `metrics.go` of jirwin/burrow_exporter, whose names alerts of Wikimedia's public puppet ask for.
"""

from typing import Final

from muster_pipeline.report.peer_names import Peer

_OWNED = ("cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id")
_BURROW = ("cluster", "consumer_group", "topic", "partition")
_BEFORE = ("cluster", "group", "topic", "partition")

ASKED: Final[dict[Peer, dict[str, tuple[str, ...]]]] = {
    Peer.KAFKA_LAG_EXPORTER: {
        "kafka_consumergroup_group_max_lag_seconds": _OWNED[:2],
        "kafka_consumergroup_group_max_lag": _OWNED[:2],
        "kafka_consumergroup_group_sum_lag": _OWNED[:2],
        "kafka_consumergroup_group_topic_sum_lag": _OWNED[:3],
        "kafka_consumergroup_group_lag_seconds": _OWNED,
        "kafka_consumergroup_group_lag": _OWNED,
        "kafka_consumergroup_group_offset": _OWNED,
        "kafka_partition_latest_offset": ("cluster_name", "topic", "partition"),
        "kafka_partition_earliest_offset": ("cluster_name", "topic", "partition"),
    },
    Peer.KMINION: {
        "kminion_kafka_consumer_group_info": ("group_id", "coordinator_id", "protocol", "protocol_type", "state"),
        "kminion_kafka_consumer_group_members": ("group_id",),
        "kminion_kafka_consumer_group_empty_members": ("group_id",),
        "kminion_kafka_consumer_group_topic_members": ("group_id", "topic_name"),
        "kminion_kafka_consumer_group_topic_assigned_partitions": ("group_id", "topic_name"),
        "kminion_kafka_consumer_group_topic_offset_sum": ("group_id", "topic_name"),
        "kminion_kafka_consumer_group_topic_lag": ("group_id", "topic_name"),
        "kminion_kafka_consumer_group_topic_partition_lag": ("group_id", "topic_name", "partition_id"),
        "kminion_kafka_topic_partition_low_water_mark": ("topic_name", "partition_id"),
        "kminion_kafka_topic_partition_high_water_mark": ("topic_name", "partition_id"),
        "kminion_kafka_topic_low_water_mark_sum": ("topic_name",),
        "kminion_kafka_topic_high_water_mark_sum": ("topic_name",),
    },
    Peer.BURROW: {
        "burrow_kafka_consumer_lag_total": _BURROW[:2],
        "burrow_kafka_consumer_status": _BURROW[:2],
        "burrow_kafka_topic_partition_status": _BURROW,
        "burrow_kafka_consumer_current_offset": _BURROW,
        "burrow_kafka_consumer_partition_lag": _BURROW,
        "burrow_kafka_topic_partition_offset": ("cluster", "topic", "partition"),
        "kafka_burrow_partition_lag": _BEFORE,
        "kafka_burrow_partition_current_offset": _BEFORE,
        "kafka_burrow_partition_status": _BEFORE,
        "kafka_burrow_partition_max_offset": _BEFORE,
        "kafka_burrow_total_lag": _BEFORE[:2],
        "kafka_burrow_status": _BEFORE[:2],
        "kafka_burrow_topic_partition_offset": ("cluster", "topic", "partition"),
    },
}

NOT_TOLD: Final = {
    "kafka_consumergroup_poll_time_ms": "how long that exporter's own questions took",
    "kminion_kafka_consumer_group_offset_commits_total": "of a log that is cleaned commits can be counted no more, and "
    "a counter may not fall; table commit_rate has them by the minute",
    "kminion_kafka_broker_info": "brokers are not in the offsets log",
    "kminion_kafka_cluster_info": "brokers are not in the offsets log",
    "kminion_kafka_broker_log_dir_size_total_bytes": "sizes are not in the offsets log",
    "kminion_kafka_topic_log_dir_size_total_bytes": "sizes are not in the offsets log",
    "kminion_kafka_topic_info": "topics' settings are not in the offsets log",
}
"""What the same dashboards ask for and does not come from here, with why."""
