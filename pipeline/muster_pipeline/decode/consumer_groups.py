"""Rows of `records` of types 3 to 23 (KIP-848, share and Streams groups) as rows of `consumer_records`.

Record by record and pure, like `decode.generations`. All values are version 0, flexible, and grow by tagged fields:
known tags are read, unknown ones skipped. Layouts: Kafka's group coordinator record schemas. Values of KIP-848 groups
are here, those of the others in `decode.share_groups` and `decode.streams_groups`.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.decode.fields import FieldError, Fields
from muster_pipeline.decode.generations import NEEDED, Decoded, Row, origin_columns, value_damage
from muster_pipeline.decode.origin import Damage
from muster_pipeline.decode.share_groups import SHARE_VALUES
from muster_pipeline.decode.streams_groups import STREAMS_VALUES
from muster_pipeline.decode.structs import current, group_of, id_partitions, partition_metadata, target_epoch
from muster_pipeline.schemas.consumer_records import CONSUMER_RECORDS, KINDS
from muster_pipeline.schemas.records import CONSUMER_TYPES, MODERN_TYPES

_MEMBER_KEYS: Final = (5, 7, 8, 10, 13, 14, 19, 21, 22)
_REGEX_KEY: Final = 16


def decode_consumer_groups(records: pa.RecordBatch | pa.Table) -> Decoded:
    """Decode the rows of MODERN_TYPES among `records` (columns NEEDED at least); other rows are ignored."""
    chosen = records.filter(pc.is_in(records["key_type"], pa.array(MODERN_TYPES, pa.int16())))
    rows: list[Row] = []
    damages: list[Damage] = []
    unread: list[tuple[int, str]] = []
    for record in chosen.select(sorted(NEEDED)).to_pylist():
        try:
            rows.append(_row(record))
        except FieldError as error:
            damages.append(value_damage(record, error))
            group_id = group_of(record["key"])
            unread += [] if group_id is None else [(record["log_offset"], group_id)]
    made = pa.RecordBatch.from_pylist(rows, schema=CONSUMER_RECORDS)
    return Decoded(rows=made, damages=tuple(damages), unread=tuple(unread))


def _row(record: Row) -> Row:
    kind = record["key_type"]
    row = origin_columns(record) | {"kind": KINDS[kind], "is_tombstone": record["value"] is None}
    key = Fields(record["key"], at=2)
    row["group_id"] = key.string()  # Release 0.1 left the column null for types that it did not know.
    if kind in _MEMBER_KEYS:
        row["member_id"] = key.string()
    elif kind == _REGEX_KEY:
        row["regular_expression"] = key.string()
    key.done()
    if record["value"] is not None:
        fields = Fields(record["value"])
        version = fields.i16()
        if version != 0:
            raise FieldError(f"value version {version} of type {kind} is not known")
        row |= _VALUES[kind](fields)
        fields.done()
    return row


def _group_epoch(fields: Fields) -> Row:
    row: Row = {"group_epoch": fields.i32()}
    tags = fields.tags()
    if 0 in tags:
        row["metadata_hash"] = fields.within(tags[0]).i64()
    return row


def _member(fields: Fields) -> Row:
    row: Row = {
        "instance_id": fields.compact_nullable_string(),
        "rack_id": fields.compact_nullable_string(),
        "client_id": fields.compact_string(),
        "client_host": fields.compact_string(),
        "subscribed_topics": [fields.compact_string() for _ in range(fields.compact_count(1))],
        "subscribed_regex": fields.compact_nullable_string(),
        "rebalance_timeout_ms": fields.i32(),
        "server_assignor": fields.compact_nullable_string(),
    }
    tags = fields.tags()
    if 0 in tags:
        row |= _classic_member(fields.within(tags[0]))
    return row


def _classic_member(fields: Fields) -> Row:
    """Tag 0 of a member: a nullable struct; its first byte is 0 for null."""
    if fields.uvarint() == 0:
        return {}
    session_timeout = fields.i32()
    protocols = []
    for _ in range(fields.compact_count(3)):
        protocols.append({"name": fields.compact_string(), "metadata": fields.compact_bytes()})
        fields.tags()
    fields.tags()
    return {"classic_session_timeout_ms": session_timeout, "classic_protocols": protocols}


def _target(fields: Fields) -> Row:
    row = {"target": id_partitions(fields)}
    fields.tags()
    return row


def _current(fields: Fields) -> Row:
    row: Row = current(fields)
    row |= {"assigned": id_partitions(fields), "pending_revocation": id_partitions(fields)}
    fields.tags()
    return row


def _regular_expression(fields: Fields) -> Row:
    topics = [fields.compact_string() for _ in range(fields.compact_count(1))]
    row = {"subscribed_topics": topics, "regex_version": fields.i64(), "regex_timestamp_ms": fields.i64()}
    fields.tags()
    return row


_CONSUMER_VALUES: Final[dict[int, Callable[[Fields], Row]]] = {
    3: _group_epoch,
    4: partition_metadata,
    5: _member,
    6: target_epoch,
    7: _target,
    8: _current,
    16: _regular_expression,
}
_VALUES: Final = {**_CONSUMER_VALUES, **SHARE_VALUES, **STREAMS_VALUES}
assert tuple(_CONSUMER_VALUES) == CONSUMER_TYPES
assert _VALUES.keys() == KINDS.keys() == set(MODERN_TYPES)
