"""Table `records`: one row per record of the offsets log, the contract between the decoder and every table.

Offset commits (key types 0 and 1, about 99 % of a log) are decoded into columns, and their bytes are not kept. Every
other type keeps `key` and `value` unchanged; `decode.generations` and `decode.consumer_groups` are pure functions from
such rows to `schemas.generation_records` and `schemas.consumer_records`. An unknown type stays raw. Records of a sound
batch whose key, or offset commit's value, breaks its schema are not here but in `quarantine`, as are all unreadable
bytes. So every log offset is a row here, in `quarantine`, or in a gap (compaction, retention). Only one case is in both
tables: a group record whose value is broken stays here, raw, and `quarantine` says what is wrong.

Primary key: (cluster, log_partition, log_offset). Order within a log partition: log_offset, ascending.
"""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import optional, required, schema

OFFSET_COMMIT_TYPES: Final = (0, 1)
GROUP_METADATA_TYPE: Final = 2
CONSUMER_TYPES: Final = (3, 4, 5, 6, 7, 8, 16)
SHARE_TYPES: Final = (9, 10, 11, 12, 13, 14, 15)
"""KIP-932. Type 9 is of Kafka 4.0's early access."""
STREAMS_TYPES: Final = (17, 18, 19, 20, 21, 22, 23)
"""KIP-1071. No release wrote type 18."""
MODERN_TYPES: Final = (*CONSUMER_TYPES, *SHARE_TYPES, *STREAMS_TYPES)
"""Groups whose members the server assigns: record by record instead of whole generations."""
CANDIDATE_GENERATION_TYPE: Final = 1000
GROUP_REBALANCE_TYPE: Final = 1001
GENERATION_TYPES: Final = (GROUP_METADATA_TYPE, CANDIDATE_GENERATION_TYPE, GROUP_REBALANCE_TYPE)
NAMED_TYPES: Final = (*OFFSET_COMMIT_TYPES, *GENERATION_TYPES, *MODERN_TYPES)
"""Key types whose first key field is the group id, which is in `group_id`."""

CONTROL_ABORT: Final = 0
CONTROL_COMMIT: Final = 1

ORIGIN = (
    required("cluster", pa.string(), "name of the cluster as given to the run (option `cluster`)"),
    required("log_partition", pa.int32(), "partition of __consumer_offsets"),
    required("log_offset", pa.int64(), "offset of the record in that partition; order of events within the partition"),
)
"""The first columns of every decoded row."""

BATCH = (
    required("segment_base", pa.int64(), "base offset in the segment file's name; -1 if read from a live cluster"),
    required("batch_base", pa.int64(), "base offset of the record's batch"),
    required("leader_epoch", pa.int32(), "partition leader epoch of the batch (Raft term in Muster); -1 none"),
    required("append_timestamp_ms", pa.int64(), "record timestamp, ms since 1970; of the coordinator that appended"),
    required("timestamp_type", pa.int8(), "0 create time, 1 log append time (batch attribute bit 3)"),
    required("producer_id", pa.int64(), "-1 for plain commits; else the transactional producer"),
    required("producer_epoch", pa.int16(), "-1 without producer"),
    required("is_transactional", pa.bool_(), "batch attribute bit 4: pending until its marker in this partition"),
    required("is_control", pa.bool_(), "batch attribute bit 5: a marker"),
    optional("control_type", pa.int16(), "0 abort, 1 commit, others Kafka's; null if not a control record"),
)

KIND = (
    optional("key_type", pa.int16(), "record type, the first two bytes of the key; null for control records"),
    optional(
        "key_version", pa.int16(), "schema version of the key: 0 for type 0, 1 for type 1, else 0; null if unknown"
    ),
    optional(
        "value_version", pa.int16(), "schema version, first two bytes of the value; null for tombstone and control"
    ),
    required(
        "is_tombstone", pa.bool_(), "the value is null: the entity of the key was deleted; false for control records"
    ),
    optional("group_id", pa.string(), "group, for all known record types; null for unknown types and control records"),
)

COMMIT = (
    optional("topic", pa.string(), "offset commit: topic; null for every other kind"),
    optional("partition", pa.int32(), "offset commit: partition of the topic; null for every other kind"),
    optional("committed_offset", pa.int64(), "offset commit: next offset to read; null for tombstones and other kinds"),
    optional(
        "committed_leader_epoch", pa.int32(), "epoch of the last consumed record; null if none (-1) or value < v3"
    ),
    optional("metadata", pa.string(), "free text of the committer, often empty; null for tombstones and other kinds"),
    optional("commit_timestamp_ms", pa.int64(), "coordinator's clock at the commit, ms since 1970"),
    optional("expire_timestamp_ms", pa.int64(), "explicit expiry, ms since 1970 (value v1 only); null if none"),
    optional(
        "topic_id", pa.string(), "topic id as Kafka prints it (base64url, 22 characters); value v4 tag 0, else null"
    ),
)

RAW = (
    optional("key", pa.binary(), "raw key of every kind but offset commits (control records included)"),
    optional("value", pa.binary(), "raw value of every kind but offset commits; null for tombstones"),
)

RECORDS: Final = schema((*ORIGIN, *BATCH, *KIND, *COMMIT, *RAW), comment="one record of the offsets log")
