"""One committed offset as bytes: 29 to 53 bytes plus the metadata text.

A million offsets as objects take 300 MB, and 200 ms of every full garbage collection (decision 20); as bytes they take
a third, and the collector does not visit them. Fields at fixed positions let expiry and fetch read one without decoding
the rest. The layout is Muster's own, part of the checkpoint format, and independent of the schema version
"""

import struct
from typing import NamedTuple

NO_TOPIC_ID = bytes(16)
_HEAD = struct.Struct(">Bqqiq")
_I64 = struct.Struct(">q")
FETCHED = struct.Struct(">B8xqi").unpack_from
"""Fields of an OffsetFetch answer except the metadata: the flags, the offset and its leader epoch."""
_LIFETIME = struct.Struct(">B20xq").unpack_from
"""The flags, and the commit timestamp at `_TIMESTAMP_AT`."""
_TIMESTAMP_AT = 21
_HAS_EXPIRY = 1
HAS_TOPIC_ID = 2
"""Flag: the 16 bytes before the metadata text are the topic's id."""
METADATA_AT = tuple(
    _HEAD.size + (8 if flags & _HAS_EXPIRY else 0) + (16 if flags & HAS_TOPIC_ID else 0) for flags in range(4)
)
"""Position of the metadata text, indexed by the flags."""


class CommittedOffset(NamedTuple):
    """A decoded row."""

    record_offset: int
    """Kafka offset of the record; decides whether a plain or a transactional commit is newer (protocol notes 4.4)."""
    offset: int
    leader_epoch: int
    commit_timestamp_ms: int
    metadata: str
    expire_timestamp_ms: int = -1
    """Only from commits with a retention of their own (OffsetCommit v2-4); else -1."""
    topic_id: bytes = NO_TOPIC_ID


def encode_row(row: CommittedOffset) -> bytes:
    """The stored bytes of a row."""
    flags = 0
    tail = b""
    if row.expire_timestamp_ms != -1:
        flags = _HAS_EXPIRY
        tail = _I64.pack(row.expire_timestamp_ms)
    if row.topic_id != NO_TOPIC_ID:
        flags |= HAS_TOPIC_ID
        tail += row.topic_id
    head = _HEAD.pack(flags, row.record_offset, row.offset, row.leader_epoch, row.commit_timestamp_ms)
    return head + tail + row.metadata.encode()


def fetched_fields(row: bytes) -> tuple[int, int, str]:
    """(offset, leader epoch, metadata), the fields of an OffsetFetch answer."""
    flags, offset, leader_epoch = FETCHED(row)
    at = METADATA_AT[flags]
    return offset, leader_epoch, row[at:].decode() if len(row) > at else ""


def record_offset_of(row: bytes) -> int:
    return int(_I64.unpack_from(row, 1)[0])


def commit_timestamp_of(row: bytes) -> int:
    return int(_I64.unpack_from(row, _TIMESTAMP_AT)[0])


def lifetime_of(row: bytes) -> tuple[int, int]:
    """(commit timestamp, 1 when the row has an expire timestamp, else 0)."""
    flags, timestamp_ms = _LIFETIME(row)
    return timestamp_ms, flags & _HAS_EXPIRY


def expire_timestamp_of(row: bytes) -> int:
    """The expire timestamp; -1: retention applies."""
    return int(_I64.unpack_from(row, _HEAD.size)[0]) if row[0] & _HAS_EXPIRY else -1


def topic_id_of(row: bytes) -> bytes:
    flags = row[0]
    if not flags & HAS_TOPIC_ID:
        return NO_TOPIC_ID
    at = _HEAD.size + (8 if flags & _HAS_EXPIRY else 0)
    return row[at : at + 16]
