"""The keys of topics and of what they are by default, which `settings.Settings` inherits."""

# a key is a dataclass field with metadata

from dataclasses import dataclass

from muster_coordinator.limits import BATCH_BYTES_MAX, BATCH_BYTES_MAX_DEFAULT, RAFT_GROUPS_MAX
from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import boolean, integer, one_of, optional, replica_count

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""Kafka's name of it, so that a server.properties of Kafka's means the same here."""
_MS = integer(1)


@dataclass(frozen=True, kw_only=True)
class TopicKeys:
    """The part of `Settings` that is about topics."""

    topics_mode: str = setting(
        "topics.mode",
        one_of("embedded", "kafka", "none", "redis"),
        "embedded",
        "embedded: topics are served, in segments of ours. redis: topics that are made from now on are Redis Streams "
        "in the server of `redis.url`. kafka: groups and offsets are ours, and everything else is passed on to the "
        "Kafka of `upstream.bootstrap.servers`. none: groups and offsets only, and offsets of any topic name are "
        "accepted.",
    )
    num_partitions: int = setting(
        "num.partitions",
        integer(1, RAFT_GROUPS_MAX - 2),
        "1",
        "Partitions of a topic that is created without a number. A cluster may have 2,000 Raft groups: one for the "
        "controller, and one for each partition of the offsets topic and of other topics.",
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        replica_count,
        "3",
        "Replicas of each partition of a topic that is created without a number: 1, 3 or 5, or as many of these as the "
        "cluster's brokers allow. Kafka's default: 1.",
    )
    auto_create_topics: bool = setting(
        "auto.create.topics.enable",
        boolean,
        "false",
        "Whether a topic that a client asks about by name is created, with `num.partitions`. Kafka's default: true.",
    )
    replica_selector: str = setting(
        "replica.selector.class",
        one_of("", RACK_AWARE_SELECTOR),
        "",
        f"Whom a consumer with `client.rack` reads from: the leader; `{RACK_AWARE_SELECTOR}`: its rack's follower.",
    )
    fetch_session_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        integer(0, 100_000),
        "1000",
        "Fetch sessions that this replica keeps; who gets none names all its partitions with each Fetch.",
    )
    delete_topics: bool = setting("delete.topic.enable", boolean, "true", "Whether clients may delete topics.")
    message_bytes_max: int = setting(
        "message.max.bytes",
        integer(0, BATCH_BYTES_MAX),
        str(BATCH_BYTES_MAX_DEFAULT),
        "Largest size of a record batch.",
    )
    retention_hours: int = setting(
        "log.retention.hours", integer(-1, 2**31 - 1), "168", "How long data of topics is kept; -1: for ever."
    )
    retention_minutes: int | None = setting(
        "log.retention.minutes", optional(integer(-1, 2**31 - 1)), "", "Overrides log.retention.hours."
    )
    retention_ms: int | None = setting(
        "log.retention.ms", optional(integer(-1)), "", "Overrides log.retention.minutes."
    )
    retention_bytes: int = setting(
        "log.retention.bytes", integer(-1), "-1", "Size up to which a partition's data is kept; -1: without bound."
    )
    retention_check_ms: int = setting(
        "log.retention.check.interval.ms",
        _MS,
        "300000",
        "How often retention is checked.",
    )
    segment_bytes: int = setting(
        "log.segment.bytes",
        integer(4_096, 2**31 - 1),
        "1073741824",
        "Size of a segment file of a topic's partition.",
    )
    segment_ms: int | None = setting("log.roll.ms", optional(_MS), "", "Overrides log.roll.hours.")
    segment_hours: int = setting("log.roll.hours", integer(1, 2**31 - 1), "168", "A segment is rolled after this time.")
    timestamp_type: str = setting(
        "log.message.timestamp.type",
        one_of("CreateTime", "LogAppendTime"),
        "CreateTime",
        "CreateTime or LogAppendTime, for topics without a config of their own.",
    )
    timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms",
        integer(0),
        str(2**63 - 1),
        "How far a record's timestamp may lie before the leader's clock.",
    )
    timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms",
        integer(0),
        "3600000",
        "How far a record's timestamp may lie after the leader's clock.",
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas", integer(1, 5), "1", "Only reported to clients: a write always needs a majority."
    )
