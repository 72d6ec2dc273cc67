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
from muster_coordinator.redis_streams.entries import Headers, Parts
from muster_coordinator.redis_streams.limits import BATCH_OUT_BYTES_MAX

DELTA_MAX = 2**31 - 1
TIME_DELTA_MAX = 2**63 - 1
_UNCOVERED = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")
_AFTER_LENGTH = 9
"""Bytes of leader epoch, magic and CRC, which batchLength counts besides what the CRC covers."""
_ATTRIBUTES = b"\0"
_NULL, _NO_HEADERS = encode_varint(-1), encode_varint(0)
_Pieces = tuple[bytes, ...]


def batches(
    entries: Iterable[tuple[int, Parts]], leader_epoch: int, bytes_max: int = BATCH_OUT_BYTES_MAX
) -> Iterator[bytes]:
    """Whole batches of (offset, record) with rising offsets. One record may be larger than `bytes_max`."""
    base = last = base_timestamp = greatest = size = count = 0
    pieces: list[bytes] = []
    for offset, record in entries:
        timestamp_ms = record[0]
        taken = 0
        record_pieces: _Pieces = ()
        if count:
            assert offset > last, "offsets rise"
            delta, time_delta = offset - base, timestamp_ms - base_timestamp
            taken, record_pieces = _pieces(record, delta, time_delta)
            far = delta > DELTA_MAX or not -TIME_DELTA_MAX <= time_delta <= TIME_DELTA_MAX
            if far or size + taken > bytes_max:
                yield _batch(base, last, base_timestamp, greatest, leader_epoch, count, pieces)
                count = 0
        if not count:
            base, base_timestamp, greatest, size, pieces = offset, timestamp_ms, timestamp_ms, 0, []
            taken, record_pieces = _pieces(record, 0, 0)
        pieces += record_pieces
        size += taken
        count += 1
        last = offset
        if timestamp_ms > greatest:
            greatest = timestamp_ms
    if count:
        yield _batch(base, last, base_timestamp, greatest, leader_epoch, count, pieces)


def _batch(
    base: int, last: int, base_timestamp: int, greatest: int, leader_epoch: int, count: int, pieces: list[bytes]
) -> bytes:
    head = _COVERED.pack(0, last - base, base_timestamp, greatest, NO_PRODUCER_ID, -1, NO_SEQUENCE, count)
    covered = head + b"".join(pieces)
    return _UNCOVERED.pack(base, len(covered) + _AFTER_LENGTH, leader_epoch, MAGIC, crc32c(covered)) + covered


def _pieces(record: Parts, delta: int, time_delta: int) -> tuple[int, _Pieces]:
    """A record's bytes and their number. They are joined once, with the batch's: this runs for each record of each
    Fetch."""
    _, key, value, headers = record
    time_text, delta_text = encode_varint(time_delta), encode_varint(delta)
    key_head, key_text = (_NULL, b"") if key is None else (encode_varint(len(key)), key)
    value_head, value_text = (_NULL, b"") if value is None else (encode_varint(len(value)), value)
    header_text = _headers(headers) if headers else _NO_HEADERS
    size = 1 + len(time_text) + len(delta_text) + len(key_head) + len(key_text)
    size += len(value_head) + len(value_text) + len(header_text)
    length = encode_varint(size)
    return size + len(length), (
        length, _ATTRIBUTES, time_text, delta_text, key_head, key_text, value_head, value_text, header_text
    )  # fmt: skip


def _headers(headers: Headers) -> bytes:
    pieces = [encode_varint(len(headers))]
    for name, value in headers:
        pieces += (encode_varint(len(name)), name)
        pieces += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(pieces)
