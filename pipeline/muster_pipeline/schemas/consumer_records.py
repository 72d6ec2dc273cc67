"""Decoded records of KIP-848 groups: types 3 to 8 and 16, one row per record in one wide table.

Which columns are filled depends on `record_type`; a tombstone has its key's columns only. Source of the layouts:
Kafka's group coordinator record schemas (KIP-848, KIP-1101). Unknown tagged fields are skipped.
"""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import list_of, optional, required, schema, struct
from muster_pipeline.schemas.records import ORIGIN

KINDS: Final = {
    3: "group_epoch",
    4: "partition_metadata",
    5: "member",
    6: "target_epoch",
    7: "target_assignment",
    8: "current_assignment",
    16: "regular_expression",
}

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
        required("record_type", pa.int16(), "3 to 8, 16"),
        required("kind", pa.string(), "KINDS[record_type]"),
        required("is_tombstone", pa.bool_(), "tombstone: the entity of the key was removed"),
        optional("member_id", pa.string(), "types 5, 7, 8: from the key"),
        optional("regular_expression", pa.string(), "type 16: from the key"),
        optional("group_epoch", pa.int32(), "type 3: epoch of the group"),
        optional("metadata_hash", pa.int64(), "type 3, tag 0 (Kafka 4.1+): hash of the subscribed topics' metadata"),
        optional("topics_metadata", list_of(TOPIC_METADATA), "type 4 (Kafka 4.0 and before)"),
        optional("instance_id", pa.string(), "type 5: group.instance.id"),
        optional("rack_id", pa.string(), "type 5"),
        optional("client_id", pa.string(), "type 5"),
        optional("client_host", pa.string(), "type 5"),
        optional("subscribed_topics", list_of(pa.string()), "type 5: names; type 16: topics the expression matches"),
        optional("subscribed_regex", pa.string(), "type 5: RE2 expression"),
        optional("rebalance_timeout_ms", pa.int32(), "type 5, ms"),
        optional("server_assignor", pa.string(), "type 5: the assignor the member prefers"),
        optional("classic_session_timeout_ms", pa.int32(), "type 5, tag 0: the member speaks the classic protocol"),
        optional("classic_protocols", list_of(PROTOCOL), "type 5, tag 0"),
        optional("target_epoch", pa.int32(), "type 6: epoch of the target assignment"),
        optional("target", list_of(ID_PARTITIONS), "type 7: partitions of the member's target assignment"),
        optional(
            "member_epoch", pa.int32(), "type 8: epoch the member has reached; -2: a static member has left for now"
        ),
        optional("previous_member_epoch", pa.int32(), "type 8"),
        optional("member_state", pa.int8(), "type 8: 0 stable, 1 unrevoked partitions, 2 unreleased partitions"),
        optional("assigned", list_of(ID_PARTITIONS), "type 8: partitions the member owns"),
        optional("pending_revocation", list_of(ID_PARTITIONS), "type 8: partitions it must give up"),
        optional("regex_version", pa.int64(), "type 16: version of the metadata image it was resolved with"),
        optional("regex_timestamp_ms", pa.int64(), "type 16: when it was resolved, ms since 1970"),
    ),
    comment="one record that describes a KIP-848 consumer group",
)
