"""Bytes of the COMMAND entries of log-bearing partitions: log_start_offset moves and producer expiry.

Problem: what is replicated but is no record must not take an offset (decision 1), and retention must be one decision
of the leader, never of a local clock (data_plane.md 7.1). Mechanism: two leading bytes, version and kind, then
fixed-width fields. `replica` uses `MoveLogStart` for topic *and* offsets partitions (history bound, decision 3);
`ExpireProducers` is for topic partitions only. What it does not do: delete files; the host does when it sees the log
start move.
"""

import struct
from typing import NamedTuple

from muster_coordinator import limits
from muster_coordinator.errors import Corruption, UnsupportedFormat

VERSION = 1

# Kinds are part of docs/format.md: never renumber, never reuse.
MOVE_LOG_START = 1
EXPIRE_PRODUCERS = 2

_MOVE = struct.Struct(">BBq")
_EXPIRE = struct.Struct(">BBI")
_PRODUCER = struct.Struct(">qq")


class MoveLogStart(NamedTuple):
    """The log begins at `offset` from here on, unless it begins later already."""

    offset: int


class ExpireProducers(NamedTuple):
    """Forget these idempotent producers, each only if it wrote nothing after the offset named here."""

    producers: tuple[tuple[int, int], ...]
    """(producer id, offset of its last record)."""


LogCommand = MoveLogStart | ExpireProducers


def encode_log_command(command: LogCommand) -> bytes:
    """The bytes of a COMMAND entry."""
    if isinstance(command, MoveLogStart):
        return _MOVE.pack(VERSION, MOVE_LOG_START, command.offset)
    producers = command.producers
    assert 0 < len(producers) <= limits.PRODUCERS_EXPIRED_PER_COMMAND_MAX
    return _EXPIRE.pack(VERSION, EXPIRE_PRODUCERS, len(producers)) + b"".join(
        _PRODUCER.pack(producer_id, offset) for producer_id, offset in producers
    )


def decode_log_command(data: bytes) -> LogCommand:
    """The command in `data`; `UnsupportedFormat` for another version or kind, `Corruption` for malformed bytes."""
    if len(data) < 2:
        raise Corruption(f"a log command of {len(data)} bytes")
    if data[0] != VERSION:
        raise UnsupportedFormat(f"log command version {data[0]}; this binary knows {VERSION}")
    if data[1] == MOVE_LOG_START:
        if len(data) != _MOVE.size:
            raise Corruption(f"a log start move of {len(data)} bytes")
        offset: int = _MOVE.unpack(data)[2]
        if offset < 0:
            raise Corruption(f"a log start move to {offset}")
        return MoveLogStart(offset)
    if data[1] == EXPIRE_PRODUCERS:
        if len(data) < _EXPIRE.size:
            raise Corruption(f"a producer expiry of {len(data)} bytes")
        count: int = _EXPIRE.unpack_from(data)[2]
        if len(data) != _EXPIRE.size + count * _PRODUCER.size:
            raise Corruption(f"a producer expiry of {len(data)} bytes for {count} producers")
        return ExpireProducers(
            tuple((int(pid), int(last)) for pid, last in _PRODUCER.iter_unpack(data[_EXPIRE.size :]))
        )
    raise UnsupportedFormat(f"log command kind {data[1]} is unknown to this binary")


def moved_log_start(log_start_offset: int, next_offset: int, command: MoveLogStart) -> int:
    """The log start after `command`: it never goes back and never passes the end of what is applied."""
    return max(log_start_offset, min(command.offset, next_offset))
