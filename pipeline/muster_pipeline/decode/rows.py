"""Rows of table `records` from walked records, made column by column.

A record whose key or value breaks its schema becomes a quarantine entry instead of a row. Only values of offset commits
are decoded here; `decode.generations` and `decode.consumer_groups` decode the others.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muster_pipeline.decode import commits, strings
from muster_pipeline.decode.fields import topic_id
from muster_pipeline.decode.headers import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Headers
from muster_pipeline.decode.origin import Damage, Origin, of_record
from muster_pipeline.decode.view import I64, Bools, View
from muster_pipeline.decode.walk import Walk
from muster_pipeline.schemas.records import NAMED_TYPES, RECORDS

_MEMBER_KEY_TYPES = (5, 7, 8, 10, 13, 14, 16, 19, 21, 22)
"""Record types whose key holds a second string: a member id, or a regular expression."""
_CONTROL_KEY_BYTES = 4


@dataclass(frozen=True, slots=True)
class Batches:
    """Headers, the batch of each record, and the file position of the headers' buffer."""

    headers: Headers
    of: I64
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows in log order, and a damage for each record that did not become one."""

    records: pa.RecordBatch
    damages: tuple[Damage, ...]


class _Builder:
    """Collects columns by name; columns that are not wanted are dropped."""

    def __init__(self, columns: frozenset[str] | None) -> None:
        self.wanted = frozenset(RECORDS.names) if columns is None else columns
        self.made: dict[str, pa.Array] = {}

    def numbers(self, name: str, values: I64, null: Bools | None = None) -> None:
        if name in self.wanted:
            kind = RECORDS.field(name).type
            values = values.astype(kind.to_pandas_dtype(), copy=False)
            self.made[name] = pa.array(values, kind, mask=null if null is not None and null.any() else None)

    def array(self, name: str, values: pa.Array) -> None:
        if name in self.wanted:
            self.made[name] = values

    def batch(self) -> pa.RecordBatch:
        fields = [field for field in RECORDS if field.name in self.wanted]
        return pa.RecordBatch.from_arrays([self.made[field.name] for field in fields], schema=pa.schema(fields))


def rows(view: View, walked: Walk, batches: Batches, origin: Origin, columns: frozenset[str] | None) -> Rows:
    """Decode keys and values. `walked` holds records of sound batches only."""
    builder = _Builder(columns)
    headers, of = batches.headers, batches.of
    count = len(of)
    offset = headers.base[of] + walked.offset_delta
    control = (headers.attributes[of] & CONTROL) != 0
    has_type = ~control & (walked.key_length >= 2)
    key_type = np.where(has_type, view.i16(walked.key_at), -1)
    _origin(builder, origin, count)
    _batch_columns(builder, headers, of, walked, offset, control)
    defects: dict[str, Bools] = {"key_schema": np.where(control, walked.key_length < _CONTROL_KEY_BYTES, ~has_type)}
    is_commit = has_type & (key_type <= 1) & (key_type >= 0)
    tombstone = ~control & (walked.value_length < 0)
    builder.numbers("control_type", view.i16(walked.key_at + 2), ~control)
    builder.numbers("key_type", key_type, ~has_type)
    builder.numbers("key_version", (key_type == 1).astype(np.int64), ~np.isin(key_type, NAMED_TYPES))
    builder.numbers("value_version", view.i16(walked.value_at), control | (walked.value_length < 2))
    builder.array("is_tombstone", pa.array(tombstone))
    _keys(builder, view, walked, key_type, is_commit, defects)
    _values(builder, view, walked, is_commit & ~tombstone, defects)
    raw = ~is_commit
    if {"key", "value"} & builder.wanted:
        builder.array("key", strings.binary(view, walked.key_at, np.where(raw, walked.key_length, -1)))
        builder.array("value", strings.binary(view, walked.value_at, np.where(raw, walked.value_length, -1)))
    return _without_defects(builder.batch(), view, walked, batches, offset, defects)


def _origin(builder: _Builder, origin: Origin, count: int) -> None:
    if "cluster" in builder.wanted:
        builder.array("cluster", pa.repeat(pa.scalar(origin.cluster, pa.string()), count))
    builder.array("log_partition", pa.repeat(pa.scalar(origin.log_partition, pa.int32()), count))
    builder.array("segment_base", pa.repeat(pa.scalar(origin.segment_base, pa.int64()), count))


def _batch_columns(builder: _Builder, headers: Headers, of: I64, walked: Walk, offset: I64, control: Bools) -> None:
    attributes = headers.attributes[of]
    appended = (attributes & LOG_APPEND_TIME) != 0
    stamp = np.where(appended, headers.max_timestamp[of], headers.base_timestamp[of] + walked.timestamp_delta)
    builder.numbers("log_offset", offset)
    builder.numbers("batch_base", headers.base[of])
    builder.numbers("leader_epoch", headers.leader_epoch[of])
    builder.numbers("append_timestamp_ms", stamp)
    builder.numbers("timestamp_type", appended.astype(np.int64))
    builder.numbers("producer_id", headers.producer_id[of])
    builder.numbers("producer_epoch", headers.producer_epoch[of])
    builder.array("is_transactional", pa.array((attributes & TRANSACTIONAL) != 0))
    builder.array("is_control", pa.array(control))


def _keys(
    builder: _Builder, view: View, walked: Walk, key_type: I64, is_commit: Bools, defects: dict[str, Bools]
) -> None:
    found = commits.keys(view, walked.key_at, walked.key_length)
    end = walked.key_at + walked.key_length
    group_end = found.group_at + view.i16(walked.key_at + 2)
    second_end = group_end + 2 + view.i16(np.clip(group_end, 0, view.size))
    named = np.isin(key_type, NAMED_TYPES)
    two = np.isin(key_type, _MEMBER_KEY_TYPES)
    raw_bad = (walked.key_length < 4) | (np.where(two, second_end, group_end) != end) | (group_end < found.group_at)
    raw_bad |= two & (second_end < group_end + 2)
    bad = named & np.where(is_commit, found.bad, raw_bad)
    defects["key_schema"] |= bad
    group_length = np.where(named & ~bad, view.i16(walked.key_at + 2), -1)
    commit = is_commit & ~bad
    topic_length = np.where(commit, found.topic_length, -1)
    for name, at, length in (("group_id", found.group_at, group_length), ("topic", found.topic_at, topic_length)):
        text, wrong = strings.utf8(strings.binary(view, at, length))
        builder.array(name, text)
        if wrong is not None:
            defects["utf8"] = defects.get("utf8", np.zeros(len(at), np.bool_)) | wrong
    builder.numbers("partition", found.partition, ~commit)


def _values(builder: _Builder, view: View, walked: Walk, has_value: Bools, defects: dict[str, Bools]) -> None:
    """Columns of commit values. Rows without one are decoded too, at position 0, and set to null."""
    at = np.where(has_value, walked.value_at, 0)
    found = commits.values(view, at, np.where(has_value, walked.value_length, 0))
    bad = has_value & found.bad
    defects["value_schema"] = bad
    good = has_value & ~bad
    builder.numbers("committed_offset", found.offset, ~good)
    builder.numbers("committed_leader_epoch", found.leader_epoch, ~good | (found.leader_epoch < 0))
    builder.numbers("commit_timestamp_ms", found.commit_timestamp, ~good)
    builder.numbers("expire_timestamp_ms", found.expire_timestamp, ~good | (found.expire_timestamp < 0))
    text, wrong = strings.utf8(strings.binary(view, found.metadata_at, np.where(good, found.metadata_length, -1)))
    builder.array("metadata", text)
    if wrong is not None:
        defects["utf8"] = defects.get("utf8", np.zeros(len(at), np.bool_)) | wrong
    if "topic_id" in builder.wanted:
        builder.array("topic_id", _topic_ids(view, np.where(good, found.topic_id_at, -1)))


def _topic_ids(view: View, at: I64) -> pa.Array:
    """Topic ids as text; each distinct id is formatted once."""
    there = np.flatnonzero(at >= 0)
    if not len(there):
        return pa.nulls(len(at), pa.string())
    raw = view.u8[at[there][:, None] + np.arange(16)]
    ids, which = np.unique(np.ascontiguousarray(raw).view("V16").ravel(), return_inverse=True)
    picks = np.zeros(len(at), np.int64)
    picks[there] = which.ravel()
    texts = pa.array([topic_id(one.tobytes()) for one in ids], pa.string())
    return texts.take(pa.array(picks, mask=at < 0))


def _without_defects(
    batch: pa.RecordBatch, view: View, walked: Walk, batches: Batches, offset: I64, defects: dict[str, Bools]
) -> Rows:
    reason_of: dict[int, str] = {}
    for reason, mask in defects.items():
        for row in np.flatnonzero(mask).tolist():
            reason_of.setdefault(row, reason)
    if not reason_of:
        return Rows(records=batch, damages=())
    keep = np.ones(len(offset), np.bool_)
    keep[list(reason_of)] = False
    damages = []
    for row, reason in sorted(reason_of.items()):
        number = int(batches.of[row])
        span = (batches.at + int(batches.headers.at[number]), batches.at + int(batches.headers.end[number]))
        raw = bytes(view.data[int(walked.start[row]) : int(walked.end[row])])
        damages.append(
            of_record(reason, f"{reason} of the record at offset {offset[row]}", int(offset[row]), span, raw)
        )
    return Rows(records=batch.filter(pa.array(keep)), damages=tuple(damages))
