"""Decoded group metadata: completed generations (type 2) and Muster's own 1000 (candidate) and 1001 (rebalance began).

One row per record, in log order; `decode.generations.decode_generations` makes it from rows of `records`. Nothing is
derived across records here: durations, causes and moves are computed for the gold tables.
"""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import list_of, optional, required, schema, struct
from muster_pipeline.schemas.records import ORIGIN

STAGES: Final = {
    "completed": "type 2 with members: the leader's assignment was accepted (or a static member rejoined)",
    "empty": "type 2 without members",
    "candidate": "type 1000: the join phase ended, the leader's assignment is awaited",
    "rebalance": "type 1001: members joined, left or were expelled; lists the remaining members",
    "deleted": "tombstone of type 2: the group is gone",
    "settled": "tombstone of type 1000 or 1001: the state of that record has ended",
}

TOPIC_PARTITIONS: Final = struct(
    (
        required("topic", pa.string(), "topic name"),
        required("partitions", list_of(pa.int32()), "partitions in the order of the bytes"),
    )
)

MEMBER: Final = struct(
    (
        required("member_id", pa.string(), "id given by the coordinator"),
        optional("instance_id", pa.string(), "group.instance.id of a static member; null if dynamic or value < v3"),
        required("client_id", pa.string(), "client.id of the member's connection"),
        required("client_host", pa.string(), "address, as Kafka writes it: /10.0.0.7"),
        required("session_timeout_ms", pa.int32(), "ms"),
        optional("rebalance_timeout_ms", pa.int32(), "ms; null in value v0"),
        required(
            "subscription", pa.binary(), "member's metadata for the chosen protocol (own types: for its first one)"
        ),
        required("assignment", pa.binary(), "the leader's assignment for it; empty before there is one"),
        optional(
            "subscribed_topics", list_of(pa.string()), "from subscription; null if it is not the consumer protocol's"
        ),
        optional(
            "owned", list_of(TOPIC_PARTITIONS), "partitions it reported as owned (subscription v1+); null if unknown"
        ),
        optional("subscription_generation", pa.int32(), "generation of that report (subscription v2+); null if none"),
        optional("rack_id", pa.string(), "subscription v3+; null if none"),
        optional(
            "assigned", list_of(TOPIC_PARTITIONS), "from assignment; [] if empty; null if not the consumer protocol's"
        ),
    )
)

GENERATION_RECORDS: Final = schema(
    (
        *ORIGIN,
        required("append_timestamp_ms", pa.int64(), "record timestamp, ms since 1970"),
        required("group_id", pa.string(), "group"),
        required("record_type", pa.int16(), "2, 1000 or 1001"),
        required("stage", pa.string(), "one of STAGES"),
        optional("generation", pa.int32(), "generation; of 1001: the one that ended; null for tombstones"),
        optional("protocol_type", pa.string(), "'consumer' for consumers; null for tombstones"),
        optional("protocol", pa.string(), "chosen assignor; null if none"),
        optional("leader", pa.string(), "member id of the leader; null if none"),
        optional("state_timestamp_ms", pa.int64(), "when the group entered its state, ms since 1970; null if unknown"),
        optional("reason", pa.string(), "type 1001: why the rebalance began; null otherwise"),
        optional("members", list_of(MEMBER), "members in the order of the bytes; null for tombstones"),
    ),
    comment="one record that describes a classic group",
)
