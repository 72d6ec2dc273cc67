"""A classic group as every replica keeps it: the bytes of its records, and the few fields that are read often.

Followers never decode members (decision 20); a leader does when it first uses the group. Which records count is a rule
of the log: the last own record (1000 or 1001), and the last GroupMetadata if it came after that. A GroupMetadata of
another generation, or without members, supersedes the own record before it.
"""

from typing import NamedTuple

from muster_coordinator.groups.state.classic_group import ClassicGroup, State
from muster_coordinator.groups.state.group_records import decode_group
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.fields import Reader
from muster_coordinator.records.offsets_log import VERSION_MAX
from muster_coordinator.records.own import OWN_VERSION


class StoredGroup(NamedTuple):
    """Immutable, so copying the dict that holds all groups makes a snapshot of them."""

    state: State
    generation: int
    member_count: int
    protocol_type: str | None
    protocol: str | None
    own_state: State | None
    """The state that `own` restores: PREPARING or COMPLETING."""
    own: bytes | None
    metadata: bytes | None

    def decode(self) -> ClassicGroup:
        """The group with all its members."""
        base = None if self.own is None or self.own_state is None else (self.own_state, self.own)
        return decode_group(base, self.metadata)


def after_metadata(before: StoredGroup | None, value: bytes) -> StoredGroup:
    """The group after a GroupMetadata record."""
    head = _metadata_head(value)
    own_state, own = None, None
    if before is not None and head.members and before.generation == head.generation:
        own_state, own = before.own_state, before.own
    state = State.STABLE if head.members else State.EMPTY
    return StoredGroup(
        state, head.generation, head.members, head.protocol_type or None, head.protocol, own_state, own, value
    )


def after_own(state: State, value: bytes) -> StoredGroup:
    """The group after a record of type 1000 (COMPLETING) or 1001 (PREPARING)."""
    head = _own_head(value)
    return StoredGroup(
        state, head.generation, head.members, head.protocol_type or None, head.protocol, state, value, None
    )


class _Head(NamedTuple):
    protocol_type: str
    generation: int
    protocol: str | None
    members: int


def _metadata_head(value: bytes) -> _Head:
    reader = Reader(value)
    version = reader.i16()
    if not 0 <= version <= VERSION_MAX:
        raise MalformedError(f"GroupMetadataValue version {version}")
    if version == VERSION_MAX:
        protocol_type, generation = reader.compact_string(), reader.i32()
        protocol = reader.compact_nullable_string()
        reader.compact_nullable_string()
        reader.i64()
        return _Head(protocol_type, generation, protocol, reader.count(compact=True, least_bytes=15))
    protocol_type, generation = reader.string(), reader.i32()
    protocol = reader.nullable_string()
    reader.nullable_string()
    if version >= 2:
        reader.i64()
    return _Head(protocol_type, generation, protocol, reader.count(compact=False, least_bytes=18))


def _own_head(value: bytes) -> _Head:
    reader = Reader(value)
    version = reader.i16()
    if version != OWN_VERSION:
        raise MalformedError(f"own group record version {version}")
    protocol_type, generation = reader.compact_string(), reader.i32()
    protocol = reader.compact_nullable_string()
    reader.compact_nullable_string()
    reader.i64()
    return _Head(protocol_type, generation, protocol, reader.count(compact=True, least_bytes=15))
