"""A reader of sound offsets logs, one record after another, as plain as can be: what the vectorised decoder must equal.

It shares nothing with the product but the names of the columns; gzip comes from the standard library, other codecs from
cramjam's unbounded calls. It raises on damage: tests hand it sound logs only.
"""

import base64
import gzip
import struct
from typing import Any

import cramjam
import crc32c

Row = dict[str, Any]
XERIAL_BYTES = 16
LATER = (
    *("control_type", "key_type", "key_version", "value_version", "group_id", "topic", "partition", "committed_offset"),
    *("committed_leader_epoch", "metadata", "commit_timestamp_ms", "expire_timestamp_ms", "topic_id", "key", "value"),
)
GROUP_FIRST = (*range(2, 24), 1000, 1001)
TWO_NAMES = (5, 7, 8, 10, 13, 14, 16, 19, 21, 22)
"""Types whose key has a member id or an expression, too (key schemas of Kafka's group coordinator)."""


class Bytes:
    """A cursor."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        assert 0 <= size <= len(self.data) - self.at, (size, self.at)
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str) -> int:
        return int(struct.unpack(">" + form, self.take(struct.calcsize(form)))[0])

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def varint(self) -> int:
        value = self.uvarint()
        return (value >> 1) ^ -(value & 1)

    def text(self) -> str:
        return self.take(self.number("h")).decode()

    def nullable(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)


def read(data: bytes, cluster: str, log_partition: int, segment_base: int) -> list[Row]:
    """All rows of a sound segment."""
    cursor = Bytes(data)
    rows: list[Row] = []
    while cursor.at < len(data):
        base, length = cursor.number("q"), cursor.number("i")
        batch = Bytes(cursor.take(length))
        epoch, magic, crc = batch.number("i"), batch.number("b"), batch.number("I")
        assert magic == 2
        assert crc32c.crc32c(batch.data[batch.at :]) == crc
        common = {"cluster": cluster, "log_partition": log_partition, "segment_base": segment_base}
        rows += _batch(batch, common | {"batch_base": base, "leader_epoch": epoch})
    return rows


def _batch(batch: Bytes, common: Row) -> list[Row]:
    attributes, _, first_ms, last_ms = batch.number("h"), batch.number("i"), batch.number("q"), batch.number("q")
    producer_id, producer_epoch, _, count = batch.number("q"), batch.number("h"), batch.number("i"), batch.number("i")
    area = Bytes(_inflate(attributes & 7, batch.data[batch.at :]))
    rows = []
    for _ in range(count):
        record = Bytes(area.take(area.varint()))
        record.take(1)
        delta_ms, delta = record.varint(), record.varint()
        row = common | {
            "log_offset": common["batch_base"] + delta,
            "append_timestamp_ms": last_ms if attributes & 8 else first_ms + delta_ms,
            "timestamp_type": attributes >> 3 & 1,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "is_transactional": bool(attributes & 16),
            "is_control": bool(attributes & 32),
        }
        rows.append(row | _content(record.nullable(), record.nullable(), control=bool(attributes & 32)))
    assert area.at == len(area.data)
    return rows


def _inflate(codec: int, data: bytes) -> bytes:
    if codec == 1:
        return gzip.decompress(data)
    if codec == 2 and data.startswith(b"\x82SNAPPY\x00"):
        frames, out = Bytes(data[XERIAL_BYTES:]), b""
        while frames.at < len(frames.data):
            out += bytes(cramjam.snappy.decompress_raw(frames.take(frames.number("i"))))
        return out
    if codec == 2:
        return bytes(cramjam.snappy.decompress_raw(data))
    if codec == 3:
        return bytes(cramjam.lz4.decompress(data))
    return bytes(cramjam.zstd.decompress(data)) if codec == 4 else data


def _content(key: bytes | None, value: bytes | None, *, control: bool) -> Row:
    assert key is not None
    empty = dict.fromkeys(LATER)
    if control:
        kind = struct.unpack(">h", key[2:4])[0]
        return empty | {"control_type": kind, "is_tombstone": False, "key": key, "value": value}
    cursor = Bytes(key)
    kind = cursor.number("h")
    row = empty | {"key_type": kind, "is_tombstone": value is None}
    if value is not None and len(value) >= 2:
        row["value_version"] = struct.unpack(">h", value[:2])[0]
    if kind in (0, 1):
        row |= {"key_version": kind, "group_id": cursor.text(), "topic": cursor.text()}
        row["partition"] = cursor.number("i")
        return row | (_commit(Bytes(value)) if value is not None else {})
    if kind in GROUP_FIRST:
        row |= {"key_version": 0, "group_id": cursor.text()}
    return row | {"key": key, "value": value}


def _commit(value: Bytes) -> Row:
    version, offset = value.number("h"), value.number("q")
    epoch = value.number("i") if version >= 3 else -1
    metadata = value.take(value.uvarint() - 1).decode() if version >= 4 else value.text()
    row: Row = {"committed_offset": offset, "committed_leader_epoch": None if epoch < 0 else epoch}
    row |= {"metadata": metadata, "commit_timestamp_ms": value.number("q")}
    if version == 1:
        expire = value.number("q")
        row["expire_timestamp_ms"] = None if expire < 0 else expire
    for _ in range(value.uvarint() if version >= 4 else 0):
        tag, raw = value.uvarint(), value.take(value.uvarint())
        if tag == 0:
            row["topic_id"] = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert value.at == len(value.data)
    return row
