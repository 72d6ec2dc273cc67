"""Values of Kafka's record types 0 to 2: committed offsets and group metadata, in every version Kafka ever wrote.

Written: OffsetCommitValue v3, or v1 when the commit has its own expiry, or v4 when the topic's id is known
(decision 27); GroupMetadataValue v3. Read: 0 to 4 of both. A higher version raises UnsupportedError, as its meaning is
unknown. Null values (tombstones) never reach these functions. Field tables: protocol notes 5.2 and 5.3, docs/format.md.
"""

import struct
from typing import NamedTuple

from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.fields import (
    I16,
    I16_MAX,
    I32,
    I64,
    Reader,
    compact_string,
    data_bytes,
    nullable_string,
    string,
)

NO_TOPIC_ID = bytes(16)
VERSION_MAX = 4
_COMMIT_HEAD = struct.Struct(">hqih")
_COMMIT_HEAD_V1 = struct.Struct(">hqh")
_COMMIT_HEAD_V4 = struct.Struct(">hqi")
_TWO_I64 = struct.Struct(">qq")
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""One tag: number 0, 16 bytes."""


class OffsetCommitValue(NamedTuple):
    """One committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: bytes = NO_TOPIC_ID


class MetadataMember(NamedTuple):
    """One member of a completed generation: only the metadata of the chosen protocol is kept (Kafka's schema)."""

    id: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    """-1 in v0: use the session timeout."""
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(NamedTuple):
    """A completed generation, or an empty group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[MetadataMember, ...]


def encode_offset_value(
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int = -1,
    topic_id: bytes = NO_TOPIC_ID,
) -> bytes:
    """v1 with an expiry (v1 has neither epoch nor topic id; Kafka drops them too), else v4 with an id, else v3."""
    if expire_timestamp_ms != -1:
        text = _text_bytes(metadata)
        stamps = _TWO_I64.pack(commit_timestamp_ms, expire_timestamp_ms)
        return _COMMIT_HEAD_V1.pack(1, offset, len(text)) + text + stamps
    if topic_id != NO_TOPIC_ID:
        head = _COMMIT_HEAD_V4.pack(4, offset, leader_epoch)
        return head + compact_string(metadata) + I64.pack(commit_timestamp_ms) + _TOPIC_ID_TAG + topic_id
    text = _text_bytes(metadata)
    return _COMMIT_HEAD.pack(3, offset, leader_epoch, len(text)) + text + I64.pack(commit_timestamp_ms)


def decode_offset_value(value: bytes) -> OffsetCommitValue:
    """Decode any version from 0 to 4."""
    reader = Reader(value)
    version = _version(reader, "OffsetCommitValue")
    offset = reader.i64()
    epoch = reader.i32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    timestamp_ms = reader.i64()
    expire_ms = reader.i64() if version == 1 else -1
    topic_id = NO_TOPIC_ID
    if version >= 4:
        topic_id = reader.tags().get(0, NO_TOPIC_ID)
        if len(topic_id) != len(NO_TOPIC_ID):
            raise MalformedError("a topic id that is not 16 bytes")
    reader.end()
    return OffsetCommitValue(offset, epoch, metadata, timestamp_ms, expire_ms, topic_id)


def encode_group_value(value: GroupMetadataValue) -> bytes:
    """The value as v3."""
    pieces = [
        I16.pack(3),
        string(value.protocol_type),
        I32.pack(value.generation),
        nullable_string(value.protocol),
        nullable_string(value.leader),
        I64.pack(value.state_timestamp_ms),
        I32.pack(len(value.members)),
    ]
    for member in value.members:
        pieces += (
            string(member.id),
            nullable_string(member.instance),
            string(member.client_id),
            string(member.client_host),
            I32.pack(member.rebalance_timeout_ms),
            I32.pack(member.session_timeout_ms),
            data_bytes(member.subscription),
            data_bytes(member.assignment),
        )
    return b"".join(pieces)


def decode_group_value(value: bytes) -> GroupMetadataValue:
    """Decode any version from 0 to 4."""
    reader = Reader(value)
    version = _version(reader, "GroupMetadataValue")
    if version >= 4:
        found = _group_value_v4(reader)
    else:
        protocol_type, generation = reader.string(), reader.i32()
        protocol, leader = reader.nullable_string(), reader.nullable_string()
        timestamp_ms = reader.i64() if version >= 2 else -1
        count = reader.count(compact=False, least_bytes=18)
        members = tuple(_member(reader, version) for _ in range(count))
        found = GroupMetadataValue(protocol_type, generation, protocol, leader, timestamp_ms, members)
    reader.end()
    return found


def _member(reader: Reader, version: int) -> MetadataMember:
    return MetadataMember(
        reader.string(),
        reader.nullable_string() if version >= 3 else None,
        reader.string(),
        reader.string(),
        reader.i32() if version >= 1 else -1,
        reader.i32(),
        reader.bytes_field(),
        reader.bytes_field(),
    )


def _group_value_v4(reader: Reader) -> GroupMetadataValue:
    protocol_type, generation = reader.compact_string(), reader.i32()
    protocol, leader = reader.compact_nullable_string(), reader.compact_nullable_string()
    timestamp_ms = reader.i64()
    count = reader.count(compact=True, least_bytes=15)
    members = tuple(_member_v4(reader) for _ in range(count))
    reader.tags()
    return GroupMetadataValue(protocol_type, generation, protocol, leader, timestamp_ms, members)


def _member_v4(reader: Reader) -> MetadataMember:
    member = MetadataMember(
        reader.compact_string(),
        reader.compact_nullable_string(),
        reader.compact_string(),
        reader.compact_string(),
        reader.i32(),
        reader.i32(),
        reader.compact_bytes(),
        reader.compact_bytes(),
    )
    reader.tags()
    return member


def _version(reader: Reader, what: str) -> int:
    version = reader.i16()
    if version < 0:
        raise MalformedError(f"{what} version {version}")
    if version > VERSION_MAX:
        raise UnsupportedError(f"{what} version {version}")
    return version


def _text_bytes(text: str) -> bytes:
    data = text.encode()
    if len(data) > I16_MAX:
        raise MalformedError("commit metadata above 32,767 bytes")
    return data
