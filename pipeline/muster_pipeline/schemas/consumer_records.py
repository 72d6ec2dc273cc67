"""Decoded records of groups whose members the server assigns: one row per record in one wide table.

KIP-848 (types 3 to 8 and 16), share groups (KIP-932: 9 to 15) and Streams groups (KIP-1071: 17 to 23) are built alike,
so what a type is for is its `kind`. Which columns are filled depends on `record_type`; a tombstone has its key's
columns only. Source of the layouts: the record schemas of Kafka 4.0 to 4.3's group coordinator. Unknown tagged fields
are skipped.
"""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import list_of, optional, required, schema, struct
from muster_pipeline.schemas.records import CONSUMER_TYPES, ORIGIN, SHARE_TYPES, STREAMS_TYPES

KINDS: Final = {
    3: "group_epoch",
    4: "partition_metadata",
    5: "member",
    6: "target_epoch",
    7: "target_assignment",
    8: "current_assignment",
    9: "partition_metadata",
    10: "member",
    11: "group_epoch",
    12: "target_epoch",
    13: "target_assignment",
    14: "current_assignment",
    15: "share_state_topics",
    16: "regular_expression",
    17: "group_epoch",
    18: "partition_metadata",
    19: "member",
    20: "target_epoch",
    21: "target_assignment",
    22: "current_assignment",
    23: "topology",
}
GROUP_KIND: Final = {
    **dict.fromkeys(CONSUMER_TYPES, "consumer"),
    **dict.fromkeys(SHARE_TYPES, "share"),
    **dict.fromkeys(STREAMS_TYPES, "streams"),
}
"""Record type -> one of `schemas.silver.GROUP_KINDS`."""

ID_PARTITIONS: Final = struct(
    (
        required("topic_id", pa.string(), "topic id as Kafka prints it"),
        required("partitions", list_of(pa.int32()), "partitions in the order of the bytes"),
    )
)
TOPIC_METADATA: Final = struct(
    (
        required("topic_id", pa.string(), "topic id as Kafka prints it"),
        required("topic", pa.string(), "topic name"),
        required("partition_count", pa.int32(), "number of partitions of the topic at that time"),
    )
)
TASKS: Final = struct(
    (
        required("subtopology", pa.string(), "subtopology id"),
        required("partitions", list_of(pa.int32()), "partitions in the order of the bytes"),
    )
)
SUBTOPOLOGY: Final = struct(
    (
        required("subtopology", pa.string(), "subtopology id"),
        required("topics", list_of(pa.string()), "source topics and repartition source topics by name"),
        required("expressions", list_of(pa.string()), "source topics by regular expression"),
    )
)
PROTOCOL: Final = struct(
    (
        required("name", pa.string(), "assignor"),
        required("metadata", pa.binary(), "subscription for that protocol"),
    )
)

CONSUMER_RECORDS: Final = schema(
    (
        *ORIGIN,
        required("append_timestamp_ms", pa.int64(), "record timestamp, ms since 1970"),
        required("group_id", pa.string(), "group"),
        required("record_type", pa.int16(), "one of KINDS"),
        required("kind", pa.string(), "KINDS[record_type]"),
        required("is_tombstone", pa.bool_(), "tombstone: the entity of the key was removed"),
        optional("member_id", pa.string(), "types 5, 7, 8, 10, 13, 14, 19, 21, 22: from the key"),
        optional("regular_expression", pa.string(), "type 16: from the key"),
        optional("group_epoch", pa.int32(), "types 3, 11, 17: epoch of the group"),
        optional(
            "metadata_hash", pa.int64(), "types 3 (tag 0, Kafka 4.1+), 11, 17: hash of the subscribed topics' metadata"
        ),
        optional(
            "topics_metadata",
            list_of(TOPIC_METADATA),
            "types 4 (Kafka 4.0 and before), 9, 18; of type 15 without partition counts",
        ),
        optional("instance_id", pa.string(), "types 5, 19: group.instance.id"),
        optional("rack_id", pa.string(), "types 5, 10, 19"),
        optional("client_id", pa.string(), "types 5, 10, 19"),
        optional("client_host", pa.string(), "types 5, 10, 19"),
        optional(
            "subscribed_topics", list_of(pa.string()), "types 5, 10: names; type 16: topics the expression matches"
        ),
        optional("subscribed_regex", pa.string(), "type 5: RE2 expression"),
        optional("rebalance_timeout_ms", pa.int32(), "types 5, 19, ms"),
        optional("server_assignor", pa.string(), "type 5: the assignor the member prefers"),
        optional("classic_session_timeout_ms", pa.int32(), "type 5, tag 0: the member speaks the classic protocol"),
        optional("classic_protocols", list_of(PROTOCOL), "type 5, tag 0"),
        optional("target_epoch", pa.int32(), "types 6, 12, 20: epoch of the target assignment"),
        optional(
            "target_timestamp_ms",
            pa.int64(),
            "types 6, 12, 20, tag 0 (Kafka 4.3+): when it was computed, ms since 1970",
        ),
        optional("target", list_of(ID_PARTITIONS), "types 7, 13: partitions of the member's target assignment"),
        optional(
            "member_epoch",
            pa.int32(),
            "types 8, 14, 22: epoch the member has reached; -2: a static member has left for now",
        ),
        optional("previous_member_epoch", pa.int32(), "types 8, 14, 22"),
        optional(
            "member_state", pa.int8(), "types 8, 14, 22: 0 stable, 1 unrevoked partitions, 2 unreleased partitions"
        ),
        optional("assigned", list_of(ID_PARTITIONS), "types 8, 14: partitions the member owns"),
        optional("pending_revocation", list_of(ID_PARTITIONS), "type 8: partitions it must give up"),
        optional("regex_version", pa.int64(), "type 16: version of the metadata image it was resolved with"),
        optional("regex_timestamp_ms", pa.int64(), "type 16: when it was resolved, ms since 1970"),
        optional("process_id", pa.string(), "type 19: process of the Streams application"),
        optional("topology_epoch", pa.int32(), "types 19, 23: epoch of the member's, or the group's, topology"),
        optional("validated_topology_epoch", pa.int32(), "type 17, tag 0 (Kafka 4.2+)"),
        optional("active", list_of(TASKS), "types 21, 22: active tasks"),
        optional("standby", list_of(TASKS), "types 21, 22: standby tasks"),
        optional("warmup", list_of(TASKS), "types 21, 22: warm-up tasks"),
        optional("active_pending_revocation", list_of(TASKS), "type 22: active tasks it must give up"),
        optional("subtopologies", list_of(SUBTOPOLOGY), "type 23"),
        optional("share_deleting", list_of(pa.string()), "type 15: ids of topics whose share state is being deleted"),
    ),
    comment="one record that describes a group whose members the server assigns",
)
