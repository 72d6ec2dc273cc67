"""Writes offsets logs byte by byte: record batches v2 with any content, for tests. Shares no code with the product.

log = log_of([Batch(records=[commit("g", "t", 0, 42)])])
"""

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cramjam
import crc32c

NOW_MS = 1_700_000_000_000
HEADER_BYTES = 61
CODECS = (0, 1, 2, 3, 4)
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def varint(value: int) -> bytes:
    """Zig-zag varint."""
    return uvarint((value << 1) ^ (value >> 63) if value < 0 else value << 1)


def uvarint(value: int) -> bytes:
    """Unsigned varint."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def text(value: str | None) -> bytes:
    """Classic nullable string."""
    if value is None:
        return struct.pack(">h", -1)
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def compact(value: str | bytes | None) -> bytes:
    """Flexible nullable string or bytes."""
    if value is None:
        return b"\x00"
    raw = value.encode() if isinstance(value, str) else value
    return uvarint(len(raw) + 1) + raw


def blob(value: bytes) -> bytes:
    """Classic bytes."""
    return struct.pack(">i", len(value)) + value


@dataclass(frozen=True, kw_only=True)
class Record:
    """One record; `delta_ms` and `skip` are added to the batch's time and to the offset that would follow."""

    key: bytes | None
    value: bytes | None
    delta_ms: int = 0
    skip: int = 0
    headers: int = 0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One batch; `gap` offsets are missing before it and `end_gap` at its end, as compaction leaves them."""

    records: Sequence[Record]
    codec: int = 0
    epoch: int = 0
    timestamp_ms: int = NOW_MS
    append_time: bool = False
    transactional: bool = False
    control: bool = False
    horizon: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    gap: int = 0
    end_gap: int = 0
    base: int = field(default=-1)


def commit_key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


def commit_value(
    offset: int,
    *,
    version: int = 3,
    epoch: int = -1,
    metadata: str = "",
    commit_ms: int = NOW_MS,
    expire_ms: int = -1,
    topic_id: bytes | None = None,
    other_tag: bytes | None = None,
) -> bytes:
    out = struct.pack(">hq", version, offset)
    if version >= 3:
        out += struct.pack(">i", epoch)
    out += compact(metadata) if version >= 4 else text(metadata)
    out += struct.pack(">q", commit_ms)
    if version == 1:
        out += struct.pack(">q", expire_ms)
    if version >= 4:
        tags = [(0, topic_id)] if topic_id is not None else []
        tags += [(7, other_tag)] if other_tag is not None else []
        out += uvarint(len(tags))
        for tag, value in tags:
            assert value is not None
            out += uvarint(tag) + uvarint(len(value)) + value
    return out


def commit(group: str, topic: str, partition: int, offset: int | None) -> Record:
    """An offset commit as brokers write it, or its tombstone."""
    value = None if offset is None else commit_value(offset)
    return Record(key=commit_key(group, topic, partition), value=value)


def marker(kind: int, coordinator_epoch: int = 0) -> Record:
    """A control record: 0 abort, 1 commit."""
    return Record(key=struct.pack(">hh", 0, kind), value=struct.pack(">hi", 0, coordinator_epoch))


def encode(batch: Batch, base: int) -> bytes:
    """The bytes of a batch at this base offset."""
    area = bytearray()
    offset = -1
    latest = batch.timestamp_ms
    for record in batch.records:
        offset += 1 + record.skip
        latest = max(latest, batch.timestamp_ms + record.delta_ms)
        body = b"\x00" + varint(record.delta_ms) + varint(offset)
        for part in (record.key, record.value):
            body += varint(-1) if part is None else varint(len(part)) + part
        body += varint(record.headers) + b"".join(varint(1) + b"h" + varint(-1) for _ in range(record.headers))
        area += varint(len(body)) + body
    attributes = (
        batch.codec | batch.append_time << 3 | batch.transactional << 4 | batch.control << 5 | batch.horizon << 6
    )
    last_delta = max(offset, 0) + batch.end_gap
    tail = struct.pack(
        ">hiqqqhii",
        attributes,
        last_delta,
        batch.timestamp_ms,
        latest,
        batch.producer_id,
        batch.producer_epoch,
        -1,
        len(batch.records),
    ) + deflate(batch.codec, bytes(area))
    crc = struct.pack(">I", crc32c.crc32c(tail))
    return struct.pack(">qiib", base, len(tail) + 9, batch.epoch, 2) + crc + tail


def deflate(codec: int, data: bytes) -> bytes:
    """As Kafka's clients and brokers write it; snappy in xerial's frames, raw for odd lengths, as librdkafka does."""
    if codec == 0:
        return data
    if codec == 1:
        return gzip.compress(data, mtime=0)
    if codec == 2:
        if len(data) % 2:
            return bytes(cramjam.snappy.compress_raw(data))
        out = XERIAL
        for at in range(0, len(data), 32 * 1024):
            part = bytes(cramjam.snappy.compress_raw(data[at : at + 32 * 1024]))
            out += blob(part)
        return out
    return bytes(cramjam.lz4.compress(data) if codec == 3 else cramjam.zstd.compress(data))


def placed(batches: Sequence[Batch], base: int = 0) -> list[Batch]:
    """The batches with their base offsets filled in."""
    out = []
    for batch in batches:
        base += batch.gap
        out.append(replace(batch, base=base))
        base += max(sum(1 + record.skip for record in batch.records) - 1, 0) + batch.end_gap + 1
    return out


def log_of(batches: Sequence[Batch], base: int = 0) -> bytes:
    """A segment of these batches."""
    return b"".join(encode(batch, batch.base) for batch in placed(batches, base))


def resealed(batch: bytes, at: int, patch: bytes) -> bytes:
    """An encoded batch with `patch` at position `at` behind the CRC, and a CRC that fits it."""
    changed = batch[:at] + patch + batch[at + len(patch) :]
    return changed[:17] + struct.pack(">I", crc32c.crc32c(changed[21:])) + changed[21:]
