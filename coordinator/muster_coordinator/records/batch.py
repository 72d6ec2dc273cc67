"""RecordBatch v2 (KIP-98): building, splitting, checking, stamping, reading; byte table in docs/format.md.

Problem: every commit becomes one batch and every produced batch passes here, so each step must cost microseconds.
Mechanism: the 61-byte header is one precompiled struct; records are joined from pieces in one pass; `stamp` rewrites
base offset and leader epoch, which lie outside the CRC. What it deliberately does not do: inflate (see `inflate`,
decision 25), decide what a broker accepts (see `topics.validation`), or convert magic 0 and 1.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.varint import decode_varint, decode_varlong, encode_varint

HEADER_BYTES = 61
LOG_OVERHEAD = 12
"""Bytes of baseOffset and batchLength: a batch takes 12 + batchLength bytes in a log."""
BATCH_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD
MAGIC = 2
CRC_FROM = 21

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1

Header = tuple[str, bytes | None]
RecordParts = tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Sequence[Header]]
"""(key, value) or (key, value, headers); value None is a tombstone."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_COVERED = struct.Struct(">hiqqqhii")
"""The part of the header under the CRC: attributes to recordCount."""
_UNCOVERED = struct.Struct(">qiibI")
_STAMP = struct.Struct(">qii")
_EMPTY_LENGTHS = b"\x01"
_NO_HEADERS = b"\x00"


class BatchHeader(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    batch_length: int
    """Bytes after this field."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    """The delete horizon when DELETE_HORIZON is set."""
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody calls

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def next_offset(self) -> int:
        """Offset after the batch; log cleaning keeps it even when it removes records."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0


class Record(NamedTuple):
    """One record of a batch, decoded."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def encode_batch(
    records: Iterable[RecordParts],
    *,
    timestamp_ms: int,
    timestamps_ms: Sequence[int] | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """One uncompressed batch. All records have `timestamp_ms` unless `timestamps_ms` gives each its own."""
    pieces: list[bytes] = [b""]
    add = pieces.append
    varint = encode_varint
    count = 0
    stamp_delta = _NO_HEADERS
    for record in records:
        key = record[0]
        value = record[1]
        if timestamps_ms is not None:
            stamp_delta = varint(timestamps_ms[count] - timestamp_ms)
        key_part = _EMPTY_LENGTHS if key is None else varint(len(key)) + key
        value_length = _EMPTY_LENGTHS if value is None else varint(len(value))
        head = b"\0" + stamp_delta + varint(count) + key_part + value_length
        tail = _NO_HEADERS if len(record) == 2 else _encode_headers(record[2])
        add(varint(len(head) + (len(value) if value is not None else 0) + len(tail)))
        add(head)
        if value is not None:
            add(value)
        add(tail)
        count += 1
    assert count, "a batch without records"
    attributes = (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    pieces[0] = _COVERED.pack(
        attributes,
        count - 1,
        timestamp_ms,
        timestamp_ms if timestamps_ms is None else max(timestamps_ms),
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    covered = b"".join(pieces)
    return _UNCOVERED.pack(base_offset, len(covered) + 9, leader_epoch, MAGIC, crc32c(covered)) + covered


def parse_header(data: bytes | memoryview, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked; MalformedError when fewer than 61 bytes are there."""
    if len(data) - position < HEADER_BYTES:
        raise MalformedError("a batch header is cut short")
    return BatchHeader._make(_HEADER.unpack_from(data, position))


def check(batch: bytes | memoryview, *, in_log: bool = True) -> BatchHeader:
    """The header of exactly one batch whose lengths, magic 2, CRC and counts are right; else raises MalformedError.

    `in_log` allows fewer records than offsets, or none, which is what log cleaning leaves.
    """
    header = parse_header(batch)
    if header.batch_length < BATCH_LENGTH_MIN or header.batch_length + LOG_OVERHEAD != len(batch):
        raise MalformedError(f"a batch of {len(batch)} bytes says it has {header.batch_length + LOG_OVERHEAD}")
    if header.magic != MAGIC:
        raise MalformedError(f"batch magic {header.magic}, expected {MAGIC}")
    if crc32c(batch[CRC_FROM:] if isinstance(batch, memoryview) else memoryview(batch)[CRC_FROM:]) != header.crc:
        raise MalformedError("batch CRC does not match")
    offsets = header.last_offset_delta + 1
    if header.last_offset_delta < 0 or not 0 <= header.count <= offsets or (header.count != offsets and not in_log):
        raise MalformedError(f"{header.count} records at {offsets} offsets")
    return header


def stamp(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """`batch` with another base offset and leader epoch: only bytes outside the CRC change (decision 1)."""
    return _STAMP.pack(base_offset, len(batch) - LOG_OVERHEAD, leader_epoch) + batch[16:]


def iter_records(batch: bytes, block: bytes | None = None) -> Iterator[Record]:
    """The records of one batch whose CRC was checked. Of a compressed batch, `block` is the inflated record area."""
    header = parse_header(batch)
    data, position = batch, HEADER_BYTES
    if block is not None:
        data, position = block, 0
    elif header.compression:
        raise MalformedError("a compressed batch: inflate it first")
    fixed_ms = header.max_timestamp_ms if header.attributes & LOG_APPEND_TIME else None
    for _ in range(header.count):
        length, position = decode_varint(data, position)
        stop = position + length
        if length < 0 or stop > len(data):
            raise MalformedError("a record ends after its batch")
        delta_ms, position = decode_varlong(data, position + 1)
        delta, position = decode_varint(data, position)
        key, position = _nullable(data, position)
        value, position = _nullable(data, position)
        headers: tuple[Header, ...] = ()
        if position < len(data) and data[position] == 0:
            position += 1
        else:
            headers, position = _decode_headers(data, position, stop)
        if position != stop:
            raise MalformedError("a record's lengths do not add up")
        timestamp_ms = header.base_timestamp_ms + delta_ms if fixed_ms is None else fixed_ms
        yield Record(header.base_offset + delta, timestamp_ms, key, value, headers)
    if position != len(data):
        raise MalformedError("bytes after the last record")


def _nullable(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(data, position)
    if length < 0:
        if length != -1:
            raise MalformedError(f"length {length}")
        return None, position
    stop = position + length
    if stop > len(data):
        raise MalformedError("a field ends after its batch")
    return data[position:stop], stop


def _encode_headers(headers: Sequence[Header]) -> bytes:
    pieces = [encode_varint(len(headers))]
    for key, value in headers:
        name = key.encode()
        pieces += (encode_varint(len(name)), name)
        pieces += (_EMPTY_LENGTHS,) if value is None else (encode_varint(len(value)), value)
    return b"".join(pieces)


def _decode_headers(data: bytes, position: int, stop: int) -> tuple[tuple[Header, ...], int]:
    count, position = decode_varint(data, position)
    if not 0 <= count <= stop - position:
        raise MalformedError(f"{count} headers")
    headers = []
    for _ in range(count):
        name, position = _nullable(data, position)
        if name is None:
            raise MalformedError("a header without key")
        value, position = _nullable(data, position)
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError:
            raise MalformedError("a header key that is not UTF-8") from None
    return tuple(headers), position
