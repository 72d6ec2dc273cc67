"""Values of Muster's own record types in the offsets log: what Kafka's coordinator keeps only in memory.

1000 CandidateGeneration (decision 6): the join phase ended; replay restores CompletingRebalance with all members whose
JoinGroup was answered. 1001 GroupRebalance (decision 7): members joined, left or were expelled; replay restores
PreparingRebalance with the members that remain. Both are version 0, flexible (compact lengths, a tag section after each
member and at the end), so that later releases can add tags without a new version. Kafka's tools skip types they do not
know. Byte table: docs/format.md.
"""

from typing import NamedTuple

from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.fields import I16, I32, I64, NO_TAGS, Reader, compact_bytes, compact_string
from muster_coordinator.records.varint import encode_unsigned

OWN_VERSION = 0
_MEMBER_BYTES_MIN = 15


class OwnMember(NamedTuple):
    """One member with all its protocols: another protocol may be chosen in the next generation."""

    id: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) in the member's order of preference."""
    assignment: bytes = b""
    """The member's last assignment when the record was written; empty when it had none, or when the record has no room
    for assignments."""


class CandidateGeneration(NamedTuple):
    """Own type 1000: a generation that waits for its leader's assignments."""

    protocol_type: str
    generation: int
    protocol: str
    leader: str
    state_timestamp_ms: int
    members: tuple[OwnMember, ...]


class GroupRebalance(NamedTuple):
    """Own type 1001: the members that remain while a rebalance is prepared."""

    protocol_type: str
    generation: int
    """The generation that ended; the next candidate generation is one higher."""
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[OwnMember, ...]
    reason: str


def encode_candidate(value: CandidateGeneration) -> bytes:
    """Value of a record of type 1000."""
    return b"".join([*_common(value), NO_TAGS])


def decode_candidate(value: bytes) -> CandidateGeneration:
    """Inverse of `encode_candidate`."""
    reader = _reader(value, "CandidateGeneration")
    protocol_type, generation = reader.compact_string(), reader.i32()
    protocol, leader = reader.compact_string(), reader.compact_string()
    timestamp_ms, members = reader.i64(), _members(reader)
    reader.tags()
    reader.end()
    return CandidateGeneration(protocol_type, generation, protocol, leader, timestamp_ms, members)


def encode_rebalance(value: GroupRebalance) -> bytes:
    """Value of a record of type 1001."""
    return b"".join([*_common(value), compact_string(value.reason), NO_TAGS])


def decode_rebalance(value: bytes) -> GroupRebalance:
    """Inverse of `encode_rebalance`."""
    reader = _reader(value, "GroupRebalance")
    protocol_type, generation = reader.compact_string(), reader.i32()
    protocol, leader = reader.compact_nullable_string(), reader.compact_nullable_string()
    timestamp_ms, members = reader.i64(), _members(reader)
    reason = reader.compact_string()
    reader.tags()
    reader.end()
    return GroupRebalance(protocol_type, generation, protocol, leader, timestamp_ms, members, reason)


def _common(value: CandidateGeneration | GroupRebalance) -> list[bytes]:
    pieces = [
        I16.pack(OWN_VERSION),
        compact_string(value.protocol_type),
        I32.pack(value.generation),
        compact_string(value.protocol),
        compact_string(value.leader),
        I64.pack(value.state_timestamp_ms),
        encode_unsigned(len(value.members) + 1),
    ]
    for member in value.members:
        pieces += (
            compact_string(member.id),
            compact_string(member.instance),
            compact_string(member.client_id),
            compact_string(member.client_host),
            I32.pack(member.rebalance_timeout_ms),
            I32.pack(member.session_timeout_ms),
            encode_unsigned(len(member.protocols) + 1),
        )
        for name, metadata in member.protocols:
            pieces += (compact_string(name), compact_bytes(metadata))
        pieces += (compact_bytes(member.assignment), NO_TAGS)
    return pieces


def _members(reader: Reader) -> tuple[OwnMember, ...]:
    return tuple(_member(reader) for _ in range(reader.count(compact=True, least_bytes=_MEMBER_BYTES_MIN)))


def _member(reader: Reader) -> OwnMember:
    member = OwnMember(
        reader.compact_string(),
        reader.compact_nullable_string(),
        reader.compact_string(),
        reader.compact_string(),
        reader.i32(),
        reader.i32(),
        tuple(
            (reader.compact_string(), reader.compact_bytes()) for _ in range(reader.count(compact=True, least_bytes=2))
        ),
        reader.compact_bytes(),
    )
    reader.tags()
    return member


def _reader(value: bytes, what: str) -> Reader:
    reader = Reader(value)
    version = reader.i16()
    if version < 0:
        raise MalformedError(f"{what} version {version}")
    if version > OWN_VERSION:
        raise UnsupportedError(f"{what} version {version}")
    return reader
