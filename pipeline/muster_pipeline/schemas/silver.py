"""Silver tables: the meaning of the log's records, one event per row, before anything is counted or compared.

Rows of one log partition are in the order in which they took effect. Transactional commits take effect at their marker,
so `commits` is ordered by `resolved_at_offset`, commits of open transactions last.
"""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import list_of, optional, required, schema
from muster_pipeline.schemas.history import MAY_MISS, historic
from muster_pipeline.schemas.records import ORIGIN

COMMIT_OUTCOMES: Final = {
    "committed": "plain commit: took effect at once",
    "txn_committed": "transactional commit: took effect at its COMMIT marker",
    "txn_superseded": "its COMMIT marker came, but a later commit of the same partition had been stored meanwhile",
    "txn_replaced": "the same producer committed the partition again before its marker",
    "txn_aborted": "its ABORT marker came",
    "txn_removed": "a tombstone removed it before its marker",
    "txn_open": "no marker up to the end of the log that was read",
    "tombstone": "the committed offset was removed: deletion, expiry or reset",
}

COMMITS: Final = schema(
    (
        *ORIGIN,
        required("append_timestamp_ms", pa.int64(), "record timestamp, ms since 1970; coordinator's clock"),
        required("group_id", pa.string(), "group"),
        required("topic", pa.string(), "topic"),
        required("partition", pa.int32(), "partition of the topic"),
        required("outcome", pa.string(), "one of COMMIT_OUTCOMES: " + ", ".join(COMMIT_OUTCOMES)),
        optional(
            "resolved_at_offset",
            pa.int64(),
            "log offset at which the outcome was settled: its own, or the marker's; null for txn_open",
        ),
        optional(
            "visible_at_offset",
            pa.int64(),
            "log offset from which OffsetFetch answers this value; null if it never did (or not yet)",
        ),
        optional(
            "committed_offset",
            pa.int64(),
            historic("next offset to read; null for tombstones", MAY_MISS),
        ),
        optional("committed_leader_epoch", pa.int32(), "epoch of the last consumed record; null if not given"),
        optional("metadata", pa.string(), "committer's free text; null for tombstones"),
        optional(
            "commit_timestamp_ms", pa.int64(), "coordinator's clock at the commit, ms since 1970; null: tombstone"
        ),
        optional("expire_timestamp_ms", pa.int64(), "explicit expiry, ms since 1970; null if none"),
        optional("topic_id", pa.string(), "topic id as Kafka prints it; null if the record has none"),
        required("producer_id", pa.int64(), "transactional producer; -1 for plain commits and tombstones"),
        required("producer_epoch", pa.int16(), "its epoch; -1 without producer"),
    ),
    comment="one offset commit, or removal of a committed offset, with its outcome",
)

GROUP_KINDS: Final = {
    "classic": "join and sync by the group's leader",
    "consumer": "KIP-848: assigned by the server",
    "share": "KIP-932: partitions are shared by several members",
    "streams": "KIP-1071: members own tasks, not partitions",
}

_GROUP = (
    required("append_timestamp_ms", pa.int64(), "record timestamp, ms since 1970"),
    required("group_id", pa.string(), "group"),
    required("group_kind", pa.string(), "one of GROUP_KINDS: " + ", ".join(GROUP_KINDS)),
)

GENERATIONS: Final = schema(
    (
        *ORIGIN,
        *_GROUP,
        required(
            "record_type", pa.int16(), "2, 1000, 1001 (classic); 3, 6 (consumer); 11, 12 (share); 17, 20 (streams)"
        ),
        required(
            "stage",
            pa.string(),
            "completed, empty, candidate, rebalance, deleted, settled (see generation records); epoch: group epoch "
            "raised; target: assignment for the epoch computed (both not classic)",
        ),
        optional(
            "generation",
            pa.int32(),
            historic("generation or group epoch; rebalance: the one that ended; null for tombstones", MAY_MISS),
        ),
        optional("protocol_type", pa.string(), "classic: 'consumer' for consumers; null otherwise and if none"),
        optional("protocol", pa.string(), "classic: chosen assignor; null if none"),
        optional("leader", pa.string(), "classic: member id of the leader; null if none"),
        optional("state_timestamp_ms", pa.int64(), "when the group entered its state, ms since 1970; null if unknown"),
        optional("reason", pa.string(), "type 1001: why the rebalance began; null otherwise"),
        optional("member_count", pa.int32(), "members in the record; consumer: members known so far; null if deleted"),
    ),
    comment="one step in the life of a group",
)

MEMBERSHIPS: Final = schema(
    (
        *ORIGIN,
        *_GROUP,
        optional(
            "generation", pa.int32(), historic("generation, or the group epoch last seen; null if none", MAY_MISS)
        ),
        required(
            "stage", pa.string(), "of the record: completed, candidate, rebalance (classic); joined, left (all others)"
        ),
        required("member_id", pa.string(), "id given by the coordinator or chosen by the member"),
        optional("instance_id", pa.string(), "group.instance.id; null for a dynamic member, or a tombstone's member"),
        optional("client_id", pa.string(), "client.id; null if left"),
        optional("client_host", pa.string(), "address as Kafka writes it; null if left"),
        optional("session_timeout_ms", pa.int32(), "ms; null for consumer groups (it is the server's)"),
        optional("rebalance_timeout_ms", pa.int32(), "ms; null if the record has none"),
        optional("rack_id", pa.string(), "client.rack; null if none"),
        optional("subscribed_topics", list_of(pa.string()), "topics by name; null if the subscription is not readable"),
        optional("owned_count", pa.int32(), "partitions it reported as owned; null without a report"),
        required("is_leader", pa.bool_(), "classic: computes the assignment"),
    ),
    comment="one member in one record",
)

ASSIGNMENT_KINDS: Final = {
    "assigned": "classic: assigned by the leader",
    "target": "consumer, share: in the target assignment",
    "current": "consumer: owns; share: reads, perhaps with others",
    "revoking": "consumer: must be revoked",
}

ASSIGNMENTS: Final = schema(
    (
        *ORIGIN,
        *_GROUP,
        optional(
            "generation", pa.int32(), historic("generation, target epoch or member epoch; null if none", MAY_MISS)
        ),
        required("kind", pa.string(), "one of ASSIGNMENT_KINDS: " + ", ".join(ASSIGNMENT_KINDS)),
        required("member_id", pa.string(), "owner"),
        optional("instance_id", pa.string(), "owner's group.instance.id; null if dynamic or not known"),
        optional("topic", pa.string(), "topic; null if the record has its id only and no earlier record names it"),
        optional("topic_id", pa.string(), "topic id as Kafka prints it; null for classic groups"),
        required("partition", pa.int32(), "partition"),
    ),
    comment="one partition that one record assigns to one member; tasks of Streams groups are not here",
)
