"""The records of one batch as the cleaner needs them: where each lies, its key, and whether it has a value.

Problem: a round of cleaning walks every record of a log twice. Mechanism: one loop over the record area with varints
of one and two bytes decoded in place, which gives plain tuples; keys are the only bytes copied. Compressed areas are
inflated within the bounds of `records.inflate`. A record area that cannot be read is no error here: such a batch is
kept as it is. What it does not do: read values or headers.
"""

from typing import NamedTuple

from muster_coordinator.records.batch import HEADER_BYTES, BatchHeader
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.inflate import inflate
from muster_coordinator.records.varint import decode_unsigned
from muster_coordinator.topics.cleaning.limits import BATCH_RECORDS_MAX

_TWO_BYTES_MAX = 2**14 - 1
_NULL = 1
"""Zig-zag of -1."""

Place = tuple[int, int, int, int, bytes | None, bool]
"""(begin, end, timestamp delta, offset delta, key, has a value) of one record; begin and end lie in `Area.data`."""


class Area(NamedTuple):
    """The decoded record area of one batch."""

    data: bytes
    """The whole batch, or the inflated area of a compressed one."""
    places: list[Place]


def area(batch: bytes, header: BatchHeader) -> Area | None:
    """None: the records cannot be read, are too large to be inflated, or are more than a round can be sure to map."""
    if header.count > BATCH_RECORDS_MAX:
        return None
    try:
        if header.compression:
            data, position = inflate(header.compression, batch[HEADER_BYTES:]), 0
        else:
            data, position = batch, HEADER_BYTES
        return Area(data, _walk(data, position, header.count, header.last_offset_delta))
    except (MalformedError, IndexError):
        return None


def _walk(data: bytes, position: int, count: int, last_delta: int) -> list[Place]:  # noqa: C901 (unrolled for speed)
    """Raises MalformedError or IndexError when the records do not fill `data`, or their offsets do not ascend."""
    places: list[Place] = []
    add = places.append
    before = -1
    for _ in range(count):
        begin = position
        # Each block that begins with `raw =` reads one varint, unrolled for one and two bytes: calls would double the
        # time.
        raw = data[position]
        position += 1
        if raw > 127:
            raw += (data[position] << 7) - 128
            position += 1
            if raw > _TWO_BYTES_MAX:
                raw, position = decode_unsigned(data, position - 2)
        end = position + (raw >> 1)
        if raw & 1 or end > len(data):
            raise MalformedError("a record ends after its batch")
        raw = data[position + 1]  # The timestamp delta, after the attributes.
        position += 2
        if raw > 127:
            raw += (data[position] << 7) - 128
            position += 1
            if raw > _TWO_BYTES_MAX:
                raw, position = decode_unsigned(data, position - 2, 64)
        delta_ms = ~(raw >> 1) if raw & 1 else raw >> 1
        raw = data[position]  # The offset delta.
        position += 1
        if raw > 127:
            raw += (data[position] << 7) - 128
            position += 1
            if raw > _TWO_BYTES_MAX:
                raw, position = decode_unsigned(data, position - 2)
        delta = raw >> 1
        if raw & 1 or not before < delta <= last_delta:
            raise MalformedError("a record has a wrong offset delta")
        before = delta
        raw = data[position]  # The key's length.
        position += 1
        if raw > 127:
            raw += (data[position] << 7) - 128
            position += 1
            if raw > _TWO_BYTES_MAX:
                raw, position = decode_unsigned(data, position - 2)
        key = None
        if raw != _NULL:
            if raw & 1:
                raise MalformedError("a negative length")
            key = data[position : position + (raw >> 1)]
            position += raw >> 1
        if position >= end:
            raise MalformedError("a key ends after its record")
        raw = data[position]  # The value's length: nothing behind it is read.
        add((begin, end, delta_ms, delta, key, raw != _NULL))
        position = end
    if position != len(data):
        raise MalformedError("bytes after the last record")
    return places
