"""Record batches written by the tests' own encoder, field by field, good and bad ones alike."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import crc32c

NO_TIMESTAMP = -1
T0 = 1_700_000_000_000


def varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def field(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


@dataclass
class Rec:
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    delta_ms: int = 0
    offset_delta: int | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()

    def encode(self, index: int) -> bytes:
        offset_delta = index if self.offset_delta is None else self.offset_delta
        body = b"\0" + varint(self.delta_ms) + varint(offset_delta) + field(self.key) + field(self.value)
        body += varint(len(self.headers)) + b"".join(field(name) + field(value) for name, value in self.headers)
        return varint(len(body)) + body


def batch(
    records: Sequence[Rec] | int = 1,
    *,
    base_offset: int = 0,
    epoch: int = -1,
    magic: int = 2,
    attributes: int = 0,
    base_timestamp: int = T0,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    last_offset_delta: int | None = None,
    count: int | None = None,
    body: bytes | None = None,
    crc: int | None = None,
    length: int | None = None,
) -> bytes:
    """One RecordBatch v2; every field that is None is made right."""
    if isinstance(records, int):
        records = [Rec() for _ in range(records)]
    if body is None:
        body = b"".join(record.encode(index) for index, record in enumerate(records))
    if max_timestamp is None:
        max_timestamp = base_timestamp + max((r.delta_ms for r in records), default=0)
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        len(records) - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
        len(records) if count is None else count,
    )
    covered += body
    if crc is None:
        crc = crc32c.crc32c(covered)
    size = 9 + len(covered) if length is None else length
    return struct.pack(">qiibI", base_offset, size, epoch, magic, crc) + covered


def idempotent(sequence: int, *, count: int = 1, pid: int = 7, epoch: int = 0, **more: int) -> bytes:
    return batch(count, producer_id=pid, producer_epoch=epoch, sequence=sequence, **more)


def stamped(data: bytes, base_offset: int, term: int) -> bytes:
    """As `apply` does it: offset and epoch lie outside the CRC."""
    return struct.pack(">q", base_offset) + data[8:12] + struct.pack(">i", term) + data[16:]


def crc_is_right(data: bytes) -> bool:
    return struct.unpack_from(">I", data, 17)[0] == crc32c.crc32c(data[21:])


def max_timestamp_of(data: bytes) -> int:
    return int(struct.unpack_from(">q", data, 35)[0])


def attributes_of(data: bytes) -> int:
    return int(struct.unpack_from(">h", data, 21)[0])
