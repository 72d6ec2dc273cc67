"""The positions of every record's key and value, for all batches of a chunk at once.

Records are chained by varints, so one batch is sequential; many batches are not. Step k reads record k of every batch
that has one, as numpy columns ("lock step"). The few batches that are much longer than the rest are finished by a plain
loop. A batch whose records do not fill it exactly as its header says is marked bad as a whole.

Record headers (an offsets log has none) are skipped. Layout: Kafka's DefaultRecord.
"""

from dataclasses import dataclass

import numpy as np

from muster_pipeline.decode import varints
from muster_pipeline.decode.limits import LOCK_STEP_MIN
from muster_pipeline.decode.view import I64, Bools, View

_FIELDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One row per record, in log order. Lengths are -1 for null. `bad`: one row per batch."""

    start: I64
    """Position after the record's length varint."""
    end: I64
    timestamp_delta: I64
    offset_delta: I64
    key_at: I64
    key_length: I64
    value_at: I64
    value_length: I64
    bad: Bools


def walk(view: View, start: I64, end: I64, count: I64) -> Walk:
    """Walk the `count` records in [start, end) of each batch. Rows of bad batches have no meaning."""
    first = np.cumsum(count) - count
    rows = np.zeros((_FIELDS, int(count.sum())), np.int64)
    bad = np.zeros(len(count), np.bool_)
    order = np.argsort(-count, kind="stable")
    position = start[order].copy()
    limit = end[order]
    ends_by_step = np.searchsorted(-count[order], np.arange(0, -int(count.max(initial=0)) - 1, -1), side="left")
    step = 0
    while True:
        active = int(ends_by_step[step]) if step < len(ends_by_step) else 0
        if active < LOCK_STEP_MIN:
            break
        batch = order[:active]
        found, behind, wrong = _step(view, position[:active], limit[:active])
        rows[:, first[batch] + step] = found
        bad[batch] |= wrong
        position[:active] = np.where(wrong, start[batch], behind)
        step += 1
    for slot in range(active):
        number = int(order[slot])
        if not bad[number]:
            position[slot], bad[number] = _rest(
                view,
                int(position[slot]),
                int(limit[slot]),
                rows[:, first[number] + step : first[number] + count[number]],
            )
    final = np.empty_like(position)
    final[order] = position
    bad |= final != end
    return Walk(
        start=rows[0],
        end=rows[1],
        timestamp_delta=rows[2],
        offset_delta=rows[3],
        key_at=rows[4],
        key_length=rows[5],
        value_at=rows[6],
        value_length=rows[7],
        bad=bad,
    )


def _step(view: View, at: I64, limit: I64) -> tuple[list[I64], I64, Bools]:
    """Read one record of each batch: its eight fields, the position after it, and which records are bad."""
    length, start, bad = varints.zigzag(view, at, 5)
    end = start + length
    bad = bad | (length < 0) | (end > limit)
    stamp, at, wrong = varints.zigzag(view, _clamp(start + 1, limit), 10)
    bad |= wrong
    delta, at, wrong = varints.zigzag(view, _clamp(at, limit), 5)
    bad |= wrong
    key_length, key_at, wrong = varints.zigzag(view, _clamp(at, limit), 5)
    bad |= wrong | (key_length < -1)
    at = key_at + np.maximum(key_length, 0)
    bad |= at >= end
    value_length, value_at, wrong = varints.zigzag(view, _clamp(at, limit), 5)
    bad |= wrong | (value_length < -1)
    at = value_at + np.maximum(value_length, 0)
    bad |= at >= end
    headers, at, wrong = varints.zigzag(view, _clamp(at, limit), 5)
    bad |= wrong | (headers < 0) | (at > end) | ((headers == 0) & (at != end))
    return [start, end, stamp, delta, key_at, key_length, value_at, value_length], end, bad


def _clamp(at: I64, limit: I64) -> I64:
    """Positions cut to `limit`, so that they may be read; the caller marks those beyond it bad."""
    return np.minimum(at, limit)


def _varint(data: bytearray, at: int, bytes_max: int) -> tuple[int, int]:
    value = 0
    for step in range(bytes_max):
        byte = data[at + step]
        value |= (byte & 0x7F) << (7 * step)
        if byte < 0x80:
            if value >= 1 << (32 if bytes_max == 5 else 64):
                break
            return (value >> 1) ^ -(value & 1), at + step + 1
    raise ValueError("varint")


def _rest(view: View, at: int, limit: int, rows: I64) -> tuple[int, bool]:
    """Walk the remaining records of one batch, one after another; returns (position after them, bad)."""
    data = view.data
    try:
        for number in range(rows.shape[1]):
            length, start = _varint(data, at, 5)
            end = start + length
            if length < 0 or end > limit:
                return at, True
            stamp, at = _varint(data, min(start + 1, limit), 10)
            delta, at = _varint(data, min(at, limit), 5)
            key_length, key_at = _varint(data, min(at, limit), 5)
            at = key_at + max(key_length, 0)
            if key_length < -1 or at >= end:
                return at, True
            value_length, value_at = _varint(data, at, 5)
            at = value_at + max(value_length, 0)
            if value_length < -1 or at >= end:
                return at, True
            headers, at = _varint(data, at, 5)
            if headers < 0 or at > end or (headers == 0 and at != end):
                return at, True
            rows[:, number] = (start, end, stamp, delta, key_at, key_length, value_at, value_length)
            at = end
    except ValueError:
        return at, True
    return at, False
