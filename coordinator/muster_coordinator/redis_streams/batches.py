"""Entries of a stream as record batches for a Fetch.

Problem: offsets of entries are sparse (a millisecond without entries skips 1,024 of them), and a batch tells a record's
offset as a difference of 32 bits, which spans 35 minutes. Mechanism: a batch ends before the entry that is too far from
its first one, or that would make it larger than a Fetch's limits can cut; its last offset is its last entry's. Readers
take gaps, as a compacted log has them. What this does not do: compress, or say who leads.
"""

import struct
from collections.abc import Iterable, Iterator

from muster_coordinator.records.batch import MAGIC, NO_PRODUCER_ID, NO_SEQUENCE
from muster_coordinator.records.crc import crc32c
from muster_coordinator.records.varint import encode_varint
from muster_coordinator.redis_streams.entries import Headers, StreamRecord
from muster_coordinator.redis_streams.limits import BATCH_OUT_BYTES_MAX

DELTA_MAX = 2**31 - 1
TIME_DELTA_MAX = 2**63 - 1
_UNCOVERED = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")
_AFTER_LENGTH = 9
"""Bytes of leader epoch, magic and CRC, which batchLength counts besides what the CRC covers."""
_NULL, _NO_HEADERS = encode_varint(-1), encode_varint(0)


def batches(
    entries: Iterable[tuple[int, StreamRecord]], leader_epoch: int, bytes_max: int = BATCH_OUT_BYTES_MAX
) -> Iterator[bytes]:
    """Whole batches of (offset, record) with rising offsets. One record may be larger than `bytes_max`."""
    base = last = base_timestamp = greatest = size = 0
    pieces: list[bytes] = []
    for offset, record in entries:
        timestamp_ms = record.timestamp_ms
        body = b""
        if pieces:
            assert offset > last, "offsets rise"
            delta, time_delta = offset - base, timestamp_ms - base_timestamp
            body = _encode(record, delta, time_delta)
            far = delta > DELTA_MAX or not -TIME_DELTA_MAX <= time_delta <= TIME_DELTA_MAX
            if far or size + len(body) > bytes_max:
                yield _batch(base, last, base_timestamp, greatest, leader_epoch, pieces)
                pieces = []
        if not pieces:
            base, base_timestamp, greatest, size = offset, timestamp_ms, timestamp_ms, 0
            body = _encode(record, 0, 0)
        pieces.append(body)
        size += len(body)
        last = offset
        if timestamp_ms > greatest:
            greatest = timestamp_ms
    if pieces:
        yield _batch(base, last, base_timestamp, greatest, leader_epoch, pieces)


def _batch(base: int, last: int, base_timestamp: int, greatest: int, leader_epoch: int, pieces: list[bytes]) -> bytes:
    head = _COVERED.pack(
        0, last - base, base_timestamp, greatest, NO_PRODUCER_ID, -1, NO_SEQUENCE, len(pieces)
    )  # fmt: skip
    covered = head + b"".join(pieces)
    return _UNCOVERED.pack(base, len(covered) + _AFTER_LENGTH, leader_epoch, MAGIC, crc32c(covered)) + covered


def _encode(record: StreamRecord, delta: int, time_delta: int) -> bytes:
    _, key, value, headers = record
    body = b"".join((
        b"\0", encode_varint(time_delta), encode_varint(delta),
        _NULL if key is None else encode_varint(len(key)) + key,
        _NULL if value is None else encode_varint(len(value)) + value,
        _headers(headers) if headers else _NO_HEADERS,
    ))  # fmt: skip
    return encode_varint(len(body)) + body


def _headers(headers: Headers) -> bytes:
    pieces = [encode_varint(len(headers))]
    for name, value in headers:
        pieces += (encode_varint(len(name)), name)
        pieces += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(pieces)
