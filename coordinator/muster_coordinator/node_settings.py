"""Translates the settings of the configuration file into those of each room: plain mappings, one function per room."""

from muster_coordinator.api.services import ApiSettings, TopicsMode
from muster_coordinator.api.standard_authorizer import AuthorizerSettings
from muster_coordinator.api.topic_values import ServerValue, ServerValues
from muster_coordinator.api.upstream_addresses import UpstreamIds
from muster_coordinator.controller.image import (
    OFFSETS_TOPIC,
    PEER_LISTENER,
    TRANSACTIONS_TOPIC,
    UPSTREAM_LISTENER,
    Endpoint,
)
from muster_coordinator.groups.config import ShardConfig
from muster_coordinator.ids import BrokerId
from muster_coordinator.internal_log_settings import COMPACT
from muster_coordinator.limits import SEGMENT_MS
from muster_coordinator.quotas.admission import AdmissionLimits
from muster_coordinator.quotas.rate import Windows
from muster_coordinator.raft.timing import Timing
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.runtime.client_listener import ClientLimits
from muster_coordinator.runtime.upstream_dial import TlsFiles
from muster_coordinator.settings import Settings
from muster_coordinator.transactions.config import TransactionConfig

KAFKA_RELEASE = "3.9-IV0"
"""Answer to tools that ask a broker for `inter.broker.protocol.version`: the last release with this key. They take a
broker without it for a very old one, and hide newer features."""
UNLIMITED = 2**31 - 1
"""Kafka's default of limits per address, which means that there is none."""


def node_settings(settings: Settings) -> NodeSettings:
    """Settings of `replica.node.Node`."""
    endpoints = [
        Endpoint(listener=listener.name, host=listener.host, port=listener.port)
        for listener in settings.advertised_listeners
    ]
    endpoints += [
        Endpoint(listener=UPSTREAM_LISTENER + listener.name, host=listener.host, port=listener.port)
        for listener in settings.upstream_told
    ]
    if settings.joins:
        host, port = settings.peer_advertised or settings.peer_bind
        endpoints.append(Endpoint(listener=PEER_LISTENER, host=host, port=port))
    return NodeSettings(
        broker=BrokerId(settings.node_id),
        initial_voters=tuple(sorted(settings.peers)),
        cluster_id=settings.cluster_id,
        cluster_formed=settings.cluster_formed,
        endpoints=tuple(endpoints),
        rack=settings.rack,
        admin=settings.admin_address if settings.admin_token_file is not None else "",
        offsets_partitions=settings.offsets_partitions,
        timing=Timing(
            heartbeat_ms=settings.heartbeat_ms,
            election_min_ms=settings.election_timeout_min_ms,
            election_max_ms=settings.election_timeout_max_ms,
        ),
        shard=shard_config(settings),
        redis_prefix=settings.redis_prefix,
        redis_groups_mirror=settings.redis_groups_mirror and settings.redis_url != "",
        topic_configs=topic_configs(settings),
        data_dir=str(settings.data_dir),
        disk_low_bytes=settings.disk_low,
        disk_good_bytes=settings.disk_good,
        offsets_segment_bytes=settings.offsets_segment_bytes,
        offsets_history_ms=settings.offsets_history_ms,
        offsets_history_bytes=settings.offsets_history_bytes,
        internal_compacts=settings.internal_cleanup == COMPACT,
        wal_file_bytes=settings.wal_file_bytes,
        wal_bytes_max=settings.wal_bytes_max,
        checkpoint_bytes=settings.checkpoint_bytes,
        trailing_entries=settings.trailing_entries,
        install_rate=settings.install_rate,
        scrub_rate=settings.scrub_rate,
        cleaner_rate=settings.cleaner_rate,
        cleaner_keys_bytes=settings.cleaner_keys_bytes,
        cleaner_backoff_ms=settings.cleaner_backoff_ms,
        segment_flush_ms=settings.segment_flush_ms,
        segment_flush_bytes=settings.segment_flush_bytes,
        takeback_ms=settings.takeback_ms,
        moves_at_once=settings.moves_at_once,
        room_timeout_ms=settings.room_timeout_ms,
        balancer_quiet_ms=settings.balancer_quiet_ms,
        balancer_difference_percent=settings.balancer_difference_percent,
        balancer_difference_min_bytes=settings.balancer_difference_min_bytes,
        decommission_redirect_ms=settings.decommission_redirect_ms,
        feature_finalize_ms=settings.feature_finalize_ms,
        retention_check_ms=settings.retention_check_ms,
        proposal_timeout_ms=settings.offsets_commit_timeout_ms,
        transactions=TransactionConfig(
            timeout_max_ms=settings.transaction_timeout_max_ms,
            id_expiration_ms=settings.transactional_id_expiration_ms,
            expiry_check_ms=settings.transactional_id_check_ms,
        ),
        transactions_segment_bytes=settings.transactions_segment_bytes,
    )


def shard_config(settings: Settings) -> ShardConfig:
    """Settings of the group shards."""
    return ShardConfig(
        session_timeout_min_ms=settings.group_session_timeout_min_ms,
        session_timeout_max_ms=settings.group_session_timeout_max_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        group_max_size=settings.group_size_max,
        offset_metadata_chars_max=settings.offset_metadata_chars_max,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        offsets_retention_check_ms=settings.offsets_retention_check_ms,
    )


def topic_configs(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Server-wide values under the names of topic configs: Kafka's `log.` keys are the defaults of the topic's keys."""
    return (
        ("cleanup.policy", settings.cleanup_policy),
        ("delete.retention.ms", str(settings.cleaner_delete_retention_ms)),
        ("max.compaction.lag.ms", str(settings.cleaner_max_lag_ms)),
        ("max.message.bytes", str(settings.message_bytes_max)),
        ("message.timestamp.after.max.ms", str(settings.timestamp_after_max_ms)),
        ("message.timestamp.before.max.ms", str(settings.timestamp_before_max_ms)),
        ("message.timestamp.type", settings.timestamp_type),
        ("min.cleanable.dirty.ratio", str(settings.cleaner_dirty_ratio)),
        ("min.compaction.lag.ms", str(settings.cleaner_min_lag_ms)),
        ("min.insync.replicas", str(settings.min_insync_replicas)),
        ("retention.bytes", str(settings.retention_bytes)),
        ("retention.ms", str(settings.topic_retention_ms)),
        ("segment.bytes", str(settings.segment_bytes)),
        ("segment.ms", str(settings.topic_segment_ms)),
    )


_TOPIC_KEYS = {
    "cleanup.policy": ("log.cleanup.policy",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
}
"""Of each of `topic_configs`, the keys of the file that say it, the strongest first."""


def topic_values(settings: Settings) -> ServerValues:
    """`topic_configs`, and where each comes from."""
    return {name: _said(settings, value, *_TOPIC_KEYS[name]) for name, value in topic_configs(settings)}


def internal_values(settings: Settings) -> dict[str, ServerValues]:
    """What the settings make of the internal topics, under the names of topic configs."""
    cleanup = _said(settings, settings.internal_cleanup, "muster.internal.topics.cleanup.policy")
    roll = ServerValue(str(SEGMENT_MS), "segment.ms", in_file=False)
    history = (
        {}
        if settings.internal_cleanup == COMPACT
        else {
            "retention.ms": _said(settings, str(settings.offsets_history_ms), "muster.offsets.history.ms"),
            "retention.bytes": _said(settings, str(settings.offsets_history_bytes), "muster.offsets.history.bytes"),
        }
    )
    return {
        name: {
            **history,
            "cleanup.policy": cleanup,
            "segment.ms": roll,
            "segment.bytes": _said(settings, str(size), key),
        }
        for name, size, key in (
            (OFFSETS_TOPIC, settings.offsets_segment_bytes, "offsets.topic.segment.bytes"),
            (TRANSACTIONS_TOPIC, settings.transactions_segment_bytes, "transaction.state.log.segment.bytes"),
        )
    }


def _said(settings: Settings, value: str, *keys: str) -> ServerValue:
    """A value of the first of these keys that the file gives a value, or else of the last one's default."""
    given = [key for key in keys if key in settings.file_keys and settings.texts[key]]
    return ServerValue(value, given[0] if given else keys[-1], in_file=bool(given))


def api_settings(settings: Settings) -> ApiSettings:
    """Settings of the API handlers."""
    return ApiSettings(
        topics_mode=TopicsMode(settings.topics_mode),
        redis=settings.redis_url != "",
        coordinator_base=settings.upstream_coordinator_base if settings.upstream_servers else 0,
        redis_prefix=settings.redis_prefix,
        num_partitions=settings.num_partitions,
        followers_serve=settings.replica_selector != "",
        fetch_session_slots=settings.fetch_session_slots,
        replication_factor=settings.default_replication_factor,
        delete_topic_enable=settings.delete_topics,
        auto_create_topics=settings.auto_create_topics,
        transaction_partitions=settings.transaction_partitions,
        broker_configs=tuple(sorted({**_told_to_tools(settings), **settings.texts}.items())),
        file_keys=settings.file_keys,
        topic_values=topic_values(settings),
        internal_values=internal_values(settings),
    )


def upstream_ids(settings: Settings) -> UpstreamIds:
    """Which ids are the upstream's, and which ours."""
    return UpstreamIds(settings.upstream_nodes, settings.upstream_coordinator_base)


def upstream_tls(settings: Settings) -> TlsFiles | None:
    """How connections to the upstream are encrypted; None: they are not."""
    if not settings.upstream_protocol.tls:
        return None
    return TlsFiles(
        settings.upstream_truststore, settings.upstream_keystore, settings.upstream_key_password, settings.upstream_key
    )


def authorizer_settings(settings: Settings) -> AuthorizerSettings | None:
    """Settings of `api.standard_authorizer`; None: every client may do everything."""
    if not settings.authorizer:
        return None
    return AuthorizerSettings(
        super_users=settings.super_users,
        allow_if_no_acl=settings.allow_if_no_acl,
        report_only=settings.authorizer_reports_only,
    )


def _told_to_tools(settings: Settings) -> dict[str, str]:
    """Kafka's keys that are not settings here, but that tools read from a broker, with the values in force."""
    return {
        "broker.id": str(settings.node_id),
        "compression.type": "producer",
        "inter.broker.protocol.version": KAFKA_RELEASE,
        "log.cleanup.policy": "delete",
        "log.dir": str(settings.data_dir),
        "unclean.leader.election.enable": "false",
    }


def admission_limits(settings: Settings) -> AdmissionLimits:
    """Limits of connections of all listeners together."""
    per_address = settings.connections_per_ip_max
    return AdmissionLimits(
        connections_max=settings.connections_max,
        per_address_max=None if per_address >= UNLIMITED else per_address,
        rate_max=settings.accepts_per_second_max,
        per_address_overrides=settings.connections_per_ip_overrides,
        listeners=settings.listener_limits,
    )


def quota_windows(settings: Settings) -> Windows:
    """Windows of samples of all quotas."""
    return Windows(settings.quota_windows, settings.quota_window_seconds * 1_000)


def mutation_windows(settings: Settings) -> Windows:
    """Of the quota that counts partitions."""
    return Windows(settings.mutation_windows, settings.mutation_window_seconds * 1_000)


def client_limits(settings: Settings) -> ClientLimits:
    """Limits of each client listener."""
    per_address = settings.connections_per_ip_max
    return ClientLimits(
        connections_max=settings.connections_max,
        connections_per_address_max=None if per_address >= UNLIMITED else per_address,
        accepts_per_second_max=settings.accepts_per_second_max,
        idle_ms=settings.connections_idle_ms,
    )
