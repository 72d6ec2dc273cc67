"""One pass over the records of an uncompressed batch: structure, offset deltas, range of timestamps, missing keys.

Problem: a producer's uncompressed batch is checked record by record (protocol notes 12.2 rows 14, 17, 18), on the loop
that serves all clients. Mechanism: `scan` decodes varints of one or two bytes without a call, and keeps only the two
extremes of the timestamp deltas; 10,000 records of 100 bytes take about 5 ms. Only when an extreme is out of bounds
does the caller use `timestamp_deltas` or `keyless` to find the bad records. What it does not do: interpret keys, values
or record attributes, decompress anything, or read compressed batches (decision 25).

Layout of a record (varints zig-zag): length, attributes i8, timestamp delta, offset delta, key length (-1 null), key,
value length (-1 null), value, header count, then per header key length, key, value length (-1 null), value.
"""

from collections.abc import Iterator
from typing import NamedTuple

from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.varint import decode_unsigned

_TWO_BYTES_MAX = 2**14 - 1
_NULL = 1
"""Zig-zag of -1."""
_KEY_AND_VALUE = (0, 1)


class Scan(NamedTuple):
    """Extremes of the timestamp deltas of a well-formed batch, in ms from baseTimestamp."""

    least_delta_ms: int
    greatest_delta_ms: int


class BadRecordError(MalformedError):
    """A record does not match its lengths and counts; `record` is the first such one."""

    def __init__(self, record: int, why: str) -> None:
        super().__init__(why)
        self.record = record
        self.why = why


def scan(batch: bytes, position: int, count: int) -> Scan:  # noqa: C901 (unrolled for speed)
    """Walk `count` > 0 records that fill `batch` from `position` on. `BadRecordError` names the first bad one."""
    greatest, least = -1 << 70, 1 << 70
    index = 0
    try:
        for index in range(count):
            # Each block that begins with `raw =` reads one varint, unrolled for one and two bytes: calls would double
            # the time.
            raw = batch[position]
            position += 1
            if raw > 127:
                raw += (batch[position] << 7) - 128
                position += 1
                if raw > _TWO_BYTES_MAX:
                    raw, position = decode_unsigned(batch, position - 2, 64)
            odd = raw  # Collects the lowest bits of all lengths: a zig-zag number is odd when it is negative.
            stop = position + (raw >> 1)
            raw = batch[position + 1]  # The timestamp delta, after the attributes.
            position += 2
            if raw > 127:
                raw += (batch[position] << 7) - 128
                position += 1
                if raw > _TWO_BYTES_MAX:
                    raw, position = decode_unsigned(batch, position - 2, 64)
            delta = ~(raw >> 1) if raw & 1 else raw >> 1
            if delta > greatest:
                greatest = delta
            if delta < least:
                least = delta
            raw = batch[position]  # The offset delta.
            position += 1
            if raw > 127:
                raw += (batch[position] << 7) - 128
                position += 1
                if raw > _TWO_BYTES_MAX:
                    raw, position = decode_unsigned(batch, position - 2, 64)
            if raw != index + index:
                raise BadRecordError(index, f"record {index} has a wrong offset delta")
            for _ in _KEY_AND_VALUE:
                raw = batch[position]
                position += 1
                if raw > 127:
                    raw += (batch[position] << 7) - 128
                    position += 1
                    if raw > _TWO_BYTES_MAX:
                        raw, position = decode_unsigned(batch, position - 2, 64)
                if raw != _NULL:
                    odd |= raw
                    position += raw >> 1
            if batch[position]:
                position = _headers(batch, position)
            else:
                position += 1
            if position != stop or odd & 1:
                raise BadRecordError(index, f"record {index} has lengths that do not match its size")
    except (IndexError, MalformedError) as error:
        if isinstance(error, BadRecordError):
            raise
        raise BadRecordError(index, f"record {index} goes beyond the batch, or has a varint without end") from None
    if position != len(batch):
        raise BadRecordError(count - 1, "bytes are left after the last record")
    return Scan(least, greatest)


def timestamp_deltas(batch: bytes, position: int, count: int) -> Iterator[int]:
    """The timestamp delta of each record of a batch that `scan` accepted, in ms."""
    for _ in range(count):
        raw, position = decode_unsigned(batch, position, 64)
        stop = position + (raw >> 1)
        raw, _end = decode_unsigned(batch, position + 1, 64)
        yield ~(raw >> 1) if raw & 1 else raw >> 1
        position = stop


def keyless(batch: bytes, position: int, count: int) -> Iterator[int]:
    """Indexes of the records without a key, in a batch that `scan` accepted."""
    for index in range(count):
        raw, position = decode_unsigned(batch, position, 64)
        stop = position + (raw >> 1)
        _delta, position = decode_unsigned(batch, position + 1, 64)
        _delta, position = decode_unsigned(batch, position, 64)
        raw, _end = decode_unsigned(batch, position, 64)
        if raw == _NULL:
            yield index
        position = stop


def _headers(batch: bytes, position: int) -> int:
    """Skip a record's headers. Raises MalformedError when a length is negative where it must not be."""
    raw, position = decode_unsigned(batch, position, 64)
    if raw & 1 or raw >> 1 > len(batch) - position:
        raise MalformedError("a negative length")
    for _ in range(raw >> 1):
        raw, position = decode_unsigned(batch, position, 64)
        if raw & 1:
            raise MalformedError("a negative length")
        position += raw >> 1
        raw, position = decode_unsigned(batch, position, 64)
        if raw != _NULL:
            if raw & 1:
                raise MalformedError("a negative length")
            position += raw >> 1
    return position
