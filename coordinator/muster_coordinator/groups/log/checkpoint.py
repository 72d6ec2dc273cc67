"""A shard's state as a checkpoint body: taken in one turn, encoded on an I/O thread, equal bytes for equal state.

The snapshot copies two dicts whose values are immutable (or frozen, see `offsets_store`) and the small remainder. A
group is one blob: its records as they are in the log, and its packed offsets. Restoring slices the blobs and decodes
nothing (decision 20).

Body, version 1. All integers big-endian; `bytes` is u32 length and data; `str` is `bytes` of UTF-8.

    head:  u16 version | u32 count | pending offset* | bytes producer table (records.producers)
           pending offset: i64 producer | str group | str topic | i32 partition | bytes row
    blob "g" + group id: u8 flags (2 own record, 4 metadata record, 8 offsets) | u8 own record's state
                         | bytes each of own record, metadata record, packed offsets, where its flag says so
    blob "r" + key:      a record of a kind that is kept but not interpreted
"""

import hashlib
import struct
from collections.abc import Iterator
from itertools import chain

from muster_coordinator.errors import Corruption
from muster_coordinator.groups.effects import CheckpointBody, CheckpointParts
from muster_coordinator.groups.state.classic_group import State
from muster_coordinator.groups.state.offset_table import OffsetTable
from muster_coordinator.groups.state.offsets_store import PackedOrTable
from muster_coordinator.groups.state.pending_offsets import Partition
from muster_coordinator.groups.state.shard_state import ShardState
from muster_coordinator.groups.state.stored_group import StoredGroup, after_metadata, after_own
from muster_coordinator.ordering import in_order
from muster_coordinator.records.producers import ProducerTable

VERSION = 1
_HEAD = struct.Struct(">HI")
_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")
_U32 = struct.Struct(">I")
_OWN = 2
_METADATA = 4
_OFFSETS = 8
_OWN_STATES = (State.PREPARING, State.COMPLETING)
_GROUP = b"g"
_RAW = b"r"


class ShardImage:
    """An immutable snapshot of one shard."""

    __slots__ = ("_groups", "_offsets", "_pending_offsets", "_producers", "_raw")

    def __init__(self, state: ShardState) -> None:
        self._groups = state.groups.copy()
        self._offsets = state.offsets.snapshot()
        self._pending_offsets = state.pending_offsets.rows()
        self._producers = state.producers.copy()
        self._raw = state.raw.copy()

    def encode(self) -> CheckpointBody:
        """The whole body. O(state)."""
        return self.parts().whole()

    def parts(self) -> CheckpointParts:
        """The body with blobs made on demand. It reads nothing that the loop may change: safe on an I/O thread."""
        return CheckpointParts(self._encode_head(), self._blobs())

    def _blobs(self) -> Iterator[tuple[bytes, bytes]]:
        """Groups by the order of their code points, which is also the order of their UTF-8 keys."""
        assert _GROUP < _RAW
        only_offsets = (group for group in self._offsets if group not in self._groups)
        for group in in_order(chain(self._groups, only_offsets)):
            yield _GROUP + group.encode(), _encode_group(self._groups.get(group), self._offsets.get(group))
        for key in in_order(self._raw):
            yield _RAW + key, self._raw[key]

    def _encode_head(self) -> bytes:
        parts = [_HEAD.pack(VERSION, len(self._pending_offsets))]
        for producer, key, row in self._pending_offsets:
            parts += (_I64.pack(producer), _bytes(key.group.encode()), _bytes(key.topic.encode()))
            parts += (_I32.pack(key.partition), _bytes(row))
        parts.append(_bytes(self._producers.encode()))
        return b"".join(parts)


def restore_state(body: CheckpointBody) -> ShardState:
    """The state of which `body` was made. Raises Corruption when `encode` cannot have written it."""
    state = ShardState()
    try:
        _restore_head(state, body.head)
        for key, blob in body.blobs:
            if key[:1] == _RAW:
                state.raw[key[1:]] = blob
            elif key[:1] == _GROUP:
                _restore_group(state, key[1:].decode(), blob)
            else:
                raise Corruption(f"checkpoint blob of unknown kind {key[:1]!r}")
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise Corruption(f"checkpoint of a group shard: {error}") from error
    return state


def body_hash(body: CheckpointBody) -> str:
    """SHA-256 over head, keys and blobs with their lengths."""
    digest = hashlib.sha256(_bytes(body.head))
    for key, blob in body.blobs:
        digest.update(_bytes(key))
        digest.update(_bytes(blob))
    return digest.hexdigest()


def _bytes(data: bytes) -> bytes:
    return _U32.pack(len(data)) + data


def _take(data: bytes, at: int) -> tuple[bytes, int]:
    start = at + 4
    end = start + _U32.unpack_from(data, at)[0]
    if end > len(data):
        raise Corruption("checkpoint of a group shard is cut short")
    return data[start:end], end


def _encode_group(stored: StoredGroup | None, offsets: PackedOrTable | None) -> bytes:
    own = None if stored is None else stored.own
    metadata = None if stored is None else stored.metadata
    packed = offsets.pack() if isinstance(offsets, OffsetTable) else offsets
    flags = 0
    parts = []
    for flag, part in ((_OWN, own), (_METADATA, metadata), (_OFFSETS, packed)):
        if part is not None:
            flags |= flag
            parts.append(_bytes(part))
    own_state = 0 if stored is None or stored.own_state is None else _OWN_STATES.index(stored.own_state)
    return bytes((flags, own_state)) + b"".join(parts)


def _restore_group(state: ShardState, group: str, blob: bytes) -> None:
    flags, own_state = blob[0], blob[1]
    at = 2
    stored: StoredGroup | None = None
    if flags & _OWN:
        own, at = _take(blob, at)
        stored = after_own(_OWN_STATES[own_state], own)
    if flags & _METADATA:
        metadata, at = _take(blob, at)
        stored = after_metadata(stored, metadata)
    if flags & _OFFSETS:
        packed, at = _take(blob, at)
        state.offsets.restore(group, packed)
    if at != len(blob):
        raise Corruption("bytes after a group's checkpoint blob")
    if stored is not None:
        state.set_group(group, stored)


def _restore_head(state: ShardState, head: bytes) -> None:
    version, count = _HEAD.unpack_from(head)
    if version != VERSION:
        raise Corruption(f"checkpoint of a group shard has version {version}, this release reads {VERSION}")
    at = _HEAD.size
    for _ in range(count):
        producer = _I64.unpack_from(head, at)[0]
        group, at = _take(head, at + 8)
        topic, at = _take(head, at)
        partition = _I32.unpack_from(head, at)[0]
        row, at = _take(head, at + 4)
        state.pending_offsets.put(producer, Partition(group.decode(), topic.decode(), partition), row)
    producers, at = _take(head, at)
    state.producers = ProducerTable.decode(producers)
    if at != len(head):
        raise Corruption("bytes after a checkpoint's head")
