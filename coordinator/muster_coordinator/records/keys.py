"""Keys of the offsets log: i16 record type, then the key's fields, never flexible (protocol notes 5.1).

Kafka's types 0 to 2 and our own from 1000 are decoded; every other type is Kafka's and stays raw (decision 9). An own
type that this release does not know was written at a higher feature level: it raises UnsupportedError, and the replica
must not start.
"""

from typing import NamedTuple

from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.fields import I16, I16_MAX, I32, Reader, string

OFFSET_COMMIT_OLD = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2
OWN_TYPES_FROM = 1000
CANDIDATE_GENERATION = 1000
GROUP_REBALANCE = 1001

_OFFSET_COMMIT_BYTES = I16.pack(OFFSET_COMMIT)
_GROUP_METADATA_BYTES = I16.pack(GROUP_METADATA)
_CANDIDATE_GENERATION_BYTES = I16.pack(CANDIDATE_GENERATION)
_GROUP_REBALANCE_BYTES = I16.pack(GROUP_REBALANCE)


class OffsetCommitKey(NamedTuple):
    """Types 0 and 1: both are read, 1 is written."""

    group: str
    topic: str
    partition: int


class GroupMetadataKey(NamedTuple):
    """Type 2."""

    group: str


class CandidateGenerationKey(NamedTuple):
    """Own type 1000."""

    group: str


class GroupRebalanceKey(NamedTuple):
    """Own type 1001."""

    group: str


class RawKey(NamedTuple):
    """A Kafka type that we do not implement (3 to 8, 16, ...): its bytes are kept."""

    type: int
    data: bytes


Key = OffsetCommitKey | GroupMetadataKey | CandidateGenerationKey | GroupRebalanceKey | RawKey


def encode_offset_key(group: str, topic: str, partition: int) -> bytes:
    """Key of one committed offset."""
    name, about = group.encode(), topic.encode()
    if len(name) > I16_MAX or len(about) > I16_MAX:
        raise MalformedError("a name above 32,767 bytes")
    pack = I16.pack
    return b"%b%b%b%b%b%b" % (_OFFSET_COMMIT_BYTES, pack(len(name)), name, pack(len(about)), about, I32.pack(partition))


def encode_group_key(group: str) -> bytes:
    """Key of a group's metadata."""
    return _GROUP_METADATA_BYTES + string(group)


def encode_candidate_key(group: str) -> bytes:
    """Key of a candidate generation."""
    return _CANDIDATE_GENERATION_BYTES + string(group)


def encode_rebalance_key(group: str) -> bytes:
    """Key of a rebalance."""
    return _GROUP_REBALANCE_BYTES + string(group)


def decode_key(key: bytes) -> Key:
    """Decode any key of the offsets log. Raises MalformedError when it is none, UnsupportedError for an own type of a
    newer release."""
    reader = Reader(key)
    kind = reader.i16()
    found: Key
    if kind in (OFFSET_COMMIT, OFFSET_COMMIT_OLD):
        found = OffsetCommitKey(reader.string(), reader.string(), reader.i32())
    elif kind == GROUP_METADATA:
        found = GroupMetadataKey(reader.string())
    elif kind == CANDIDATE_GENERATION:
        found = CandidateGenerationKey(reader.string())
    elif kind == GROUP_REBALANCE:
        found = GroupRebalanceKey(reader.string())
    elif kind >= OWN_TYPES_FROM:
        raise UnsupportedError(f"own record type {kind}")
    elif kind < 0:
        raise MalformedError(f"record type {kind}")
    else:
        return RawKey(kind, key)
    reader.end()
    return found
