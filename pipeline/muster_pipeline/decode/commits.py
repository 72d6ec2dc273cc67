"""Offset commits, thousands at a time: keys of types 0 and 1, values of versions 0 to 4.

Layouts: Kafka's OffsetCommitKey and OffsetCommitValue schemas. Fields of fixed size follow strings, so every field's
position is computed as a column from the lengths before it; a record whose fields do not end exactly where its key or
value ends is marked bad. Version 4's tagged fields are read in columns for the two forms that brokers write (none;
topic id alone) and one by one otherwise.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_pipeline.decode import varints
from muster_pipeline.decode.fields import FieldError, Fields
from muster_pipeline.decode.view import I64, Bools, View

VALUE_VERSION_MAX: Final = 4
FLEXIBLE_FROM: Final = 4
_TOPIC_ID_ALONE: Final = 0x010010
"""One tagged field, tag 0, 16 bytes."""
_TOPIC_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitKeys:
    """One row per key; the other columns of `bad` rows have no meaning."""

    group_at: I64
    group_length: I64
    topic_at: I64
    topic_length: I64
    partition: I64
    bad: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitValues:
    """One row per value; `topic_id_at` is -1 without a topic id."""

    version: I64
    offset: I64
    leader_epoch: I64
    metadata_at: I64
    metadata_length: I64
    commit_timestamp: I64
    expire_timestamp: I64
    topic_id_at: I64
    bad: Bools


def keys(view: View, at: I64, length: I64) -> CommitKeys:
    """Read commit keys [at, at + length), the two type bytes included."""
    end = at + length
    group_length = view.i16(at + 2)
    bad = (length < 4) | (group_length < 0)
    topic_head = np.minimum(at + 4 + np.maximum(group_length, 0), end)
    topic_length = view.i16(topic_head)
    bad |= topic_length < 0
    tail = topic_head + 2 + np.maximum(topic_length, 0)
    bad |= tail + 4 != end
    return CommitKeys(
        group_at=at + 4,
        group_length=np.where(bad, 0, group_length),
        topic_at=topic_head + 2,
        topic_length=np.where(bad, 0, topic_length),
        partition=view.i32(np.minimum(tail, end)),
        bad=bad,
    )


def values(view: View, at: I64, length: I64) -> CommitValues:
    """Read commit values [at, at + length), none of them null."""
    end = at + length
    version = view.i16(at)
    bad = (length < 2) | (version < 0) | (version > VALUE_VERSION_MAX)
    has_epoch = version >= 3
    epoch = np.where(has_epoch, view.i32(np.minimum(at + 10, end)), -1)
    head = np.minimum(at + 10 + np.where(has_epoch, 4, 0), end)
    flexible = version >= FLEXIBLE_FROM
    text_length, text_at = view.i16(head), head + 2
    if flexible.any():
        plus_one, behind, wrong = varints.unsigned(view, head, 5)
        text_length = np.where(flexible, plus_one - 1, text_length)
        text_at = np.where(flexible, behind, text_at)
        bad |= flexible & wrong
    bad |= text_length < 0
    stamp_at = np.minimum(text_at + np.maximum(text_length, 0), end)
    rest = stamp_at + 8
    has_expiry = version == 1
    expiry = np.where(has_expiry, view.i64(np.minimum(rest, end)), -1)
    rest = rest + np.where(has_expiry, 8, 0)
    bad |= (rest > end) | (~flexible & (rest != end))
    topic_id_at = np.full(len(at), -1, np.int64)
    if flexible.any():
        _tags(view, np.flatnonzero(flexible & ~bad), rest, end, topic_id_at, bad)
    return CommitValues(
        version=version,
        offset=view.i64(np.minimum(at + 2, end)),
        leader_epoch=epoch,
        metadata_at=text_at,
        metadata_length=np.where(bad, 0, text_length),
        commit_timestamp=view.i64(stamp_at),
        expire_timestamp=expiry,
        topic_id_at=topic_id_at,
        bad=bad,
    )


def _tags(view: View, rows: I64, at: I64, end: I64, topic_id_at: I64, bad: Bools) -> None:
    """Tagged fields of the named rows, which begin at `at` and must end at `end`; fills `topic_id_at` and `bad`."""
    size = end[rows] - at[rows]
    none = (size == 1) & (view.u8[at[rows]] == 0)
    alone = (size == 3 + _TOPIC_ID_BYTES) & (view.i32(at[rows]) >> 8 == _TOPIC_ID_ALONE)
    topic_id_at[rows[alone]] = at[rows[alone]] + 3
    for row in rows[~none & ~alone].tolist():
        fields = Fields(view.data, int(at[row]), int(end[row]))
        try:
            found = fields.tags()
            fields.done()
            if 0 in found:
                start, stop = found[0]
                if stop - start != _TOPIC_ID_BYTES:
                    raise FieldError(f"a topic id of {stop - start} bytes")
                topic_id_at[row] = start
        except FieldError:
            bad[row] = True
