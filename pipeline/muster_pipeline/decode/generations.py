"""Rows of `records` of types 2, 1000 and 1001 as rows of `generation_records`: members, subscriptions, assignments.

It works record by record, because these records are nested and only about one in a hundred; it is pure. A value that
breaks its schema stays in `records` (raw) and gives a quarantine entry. Layouts: Kafka's GroupMetadataValue (versions 0
to 4) and docs/format.md for Muster's own types.
"""

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.decode.fields import FieldError, Fields
from muster_pipeline.decode.origin import Damage, of_record
from muster_pipeline.decode.subscriptions import assignment, subscription
from muster_pipeline.schemas.generation_records import GENERATION_RECORDS
from muster_pipeline.schemas.records import (
    CANDIDATE_GENERATION_TYPE,
    GENERATION_TYPES,
    GROUP_METADATA_TYPE,
)

NEEDED: Final = frozenset(
    {"cluster", "log_partition", "log_offset", "append_timestamp_ms", "key_type", "group_id", "key", "value"}
)
"""Columns of `records` that the functions of this module and of `consumer_groups` read."""
GROUP_METADATA_VERSION_MAX: Final = 4
_CONSUMER: Final = "consumer"
_MEMBER_BYTES_MIN: Final = 10

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Rows in log order, and a damage for each value that breaks its schema."""

    rows: pa.RecordBatch
    damages: tuple[Damage, ...]
    unread: tuple[tuple[int, str], ...] = ()
    """Log offset and group of each record that could not be read."""


def decode_generations(records: pa.RecordBatch | pa.Table) -> Decoded:
    """Decode the rows of GENERATION_TYPES among `records` (columns NEEDED at least); other rows are ignored."""
    chosen = records.filter(pc.is_in(records["key_type"], pa.array(GENERATION_TYPES, pa.int16())))
    rows: list[Row] = []
    damages: list[Damage] = []
    unread: list[tuple[int, str]] = []
    for record in chosen.select(sorted(NEEDED)).to_pylist():
        try:
            rows.append(_row(record))
        except FieldError as error:
            damages.append(value_damage(record, error))
            unread.append((record["log_offset"], record["group_id"]))
    made = pa.RecordBatch.from_pylist(rows, schema=GENERATION_RECORDS)
    return Decoded(rows=made, damages=tuple(damages), unread=tuple(unread))


def value_damage(record: Row, error: FieldError) -> Damage:
    """Quarantine entry of a record whose value, or the rest of its key, breaks the schema."""
    detail = f"record type {record['key_type']}: {error}"
    raw = (record["key"] or b"") + (record["value"] or b"")
    return of_record("value_schema", detail, record["log_offset"], (None, None), raw)


def origin_columns(record: Row) -> Row:
    """The columns that every decoded row copies from its record."""
    return {
        name: record[name] for name in ("cluster", "log_partition", "log_offset", "append_timestamp_ms", "group_id")
    } | {"record_type": record["key_type"]}


def _row(record: Row) -> Row:
    head = origin_columns(record)
    kind, value = record["key_type"], record["value"]
    if value is None:
        return head | {"stage": "deleted" if kind == GROUP_METADATA_TYPE else "settled"}
    fields = Fields(value)
    version = fields.i16()
    if kind == GROUP_METADATA_TYPE:
        return head | _group_metadata(fields, version)
    if version != 0:
        raise FieldError(f"value version {version} of type {kind} is not known")
    return head | (_candidate(fields) if kind == CANDIDATE_GENERATION_TYPE else _rebalance(fields))


def _group_metadata(fields: Fields, version: int) -> Row:
    if not 0 <= version <= GROUP_METADATA_VERSION_MAX:
        raise FieldError(f"value version {version} of type {GROUP_METADATA_TYPE} is not known")
    flexible = version >= 4
    protocol_type = fields.compact_string() if flexible else fields.string()
    generation = fields.i32()
    protocol = fields.compact_nullable_string() if flexible else fields.nullable_string()
    leader = fields.compact_nullable_string() if flexible else fields.nullable_string()
    stamp = fields.i64() if version >= 2 else -1
    count = fields.compact_count(_MEMBER_BYTES_MIN) if flexible else fields.count(_MEMBER_BYTES_MIN)
    members = [_member(fields, version, protocol_type) for _ in range(count)]
    if flexible:
        fields.tags()
    fields.done()
    return {
        "stage": "completed" if members else "empty",
        "generation": generation,
        "protocol_type": protocol_type,
        "protocol": protocol,
        "leader": leader,
        "state_timestamp_ms": None if stamp < 0 else stamp,
        "members": members,
    }


def _member(fields: Fields, version: int, protocol_type: str) -> Row:
    flexible = version >= 4
    text = fields.compact_string if flexible else fields.string
    raw = fields.compact_bytes if flexible else fields.bytes_
    member_id = text()
    instance_id = None
    if version >= 3:
        instance_id = fields.compact_nullable_string() if flexible else fields.nullable_string()
    client_id, client_host = text(), text()
    rebalance_timeout = fields.i32() if version >= 1 else None
    session_timeout = fields.i32()
    subscribed, assigned = raw(), raw()
    if flexible:
        fields.tags()
    return {
        "member_id": member_id,
        "instance_id": instance_id,
        "client_id": client_id,
        "client_host": client_host,
        "session_timeout_ms": session_timeout,
        "rebalance_timeout_ms": rebalance_timeout,
        **_embedded(protocol_type, subscribed, assigned),
    }


def _embedded(protocol_type: str, subscribed: bytes, assigned: bytes) -> Row:
    """The raw bytes and, if the group uses the consumer protocol, their decoded fields."""
    row: Row = {"subscription": subscribed, "assignment": assigned}
    if protocol_type == _CONSUMER:
        row |= subscription(subscribed) | {"assigned": assignment(assigned)}
    return row


def _candidate(fields: Fields) -> Row:
    protocol_type, generation = fields.compact_string(), fields.i32()
    protocol, leader = fields.compact_string(), fields.compact_string()
    return _own(fields, protocol_type, generation, protocol, leader, {"stage": "candidate"})


def _rebalance(fields: Fields) -> Row:
    protocol_type, generation = fields.compact_string(), fields.i32()
    protocol, leader = fields.compact_nullable_string(), fields.compact_nullable_string()
    return _own(fields, protocol_type, generation, protocol, leader, {"stage": "rebalance"})


def _own(
    fields: Fields, protocol_type: str, generation: int, protocol: str | None, leader: str | None, head: Row
) -> Row:
    stamp = fields.i64()
    count = fields.compact_count(_MEMBER_BYTES_MIN)
    members = [_own_member(fields, protocol_type, protocol) for _ in range(count)]
    reason = fields.compact_string() if head["stage"] == "rebalance" else None
    fields.tags()
    fields.done()
    return head | {
        "generation": generation,
        "protocol_type": protocol_type,
        "protocol": protocol,
        "leader": leader,
        "state_timestamp_ms": None if stamp < 0 else stamp,
        "reason": reason,
        "members": members,
    }


def _own_member(fields: Fields, protocol_type: str, chosen: str | None) -> Row:
    member_id, instance_id = fields.compact_string(), fields.compact_nullable_string()
    client_id, client_host = fields.compact_string(), fields.compact_string()
    rebalance_timeout, session_timeout = fields.i32(), fields.i32()
    protocols: dict[str, bytes] = {}
    first = b""
    for number in range(fields.compact_count(2)):
        name, metadata = fields.compact_string(), fields.compact_bytes()
        protocols.setdefault(name, metadata)
        first = metadata if number == 0 else first
    assigned = fields.compact_bytes()
    fields.tags()
    return {
        "member_id": member_id,
        "instance_id": instance_id,
        "client_id": client_id,
        "client_host": client_host,
        "session_timeout_ms": session_timeout,
        "rebalance_timeout_ms": rebalance_timeout,
        **_embedded(protocol_type, protocols.get(chosen or "", first), assigned),
    }
