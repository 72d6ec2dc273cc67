"""Bytes of the COMMAND entries of log-bearing partitions: log_start_offset moves, producer expiry, segment rolls.

Problem: what is replicated but is not a record must not take an offset (decision 1), and retention must be a decision
of the leader, never of each replica's clock (protocol notes 17.1). Mechanism: two leading bytes, version and kind, then
fixed-width fields. `MoveLogStart` is for topic *and* offsets partitions (history bound, decision 3), `ExpireProducers`
for topic partitions only. `SetRoll` sets at which size and age all later segments end, so that they end at the same
batch on every replica, whenever each replica applies an altered config. What it does not do: delete or create files;
the host does.
"""

import struct
from typing import NamedTuple

from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.topics import limits

VERSION = 1

# Kinds are part of docs/format.md: never renumber, never reuse.
MOVE_LOG_START = 1
EXPIRE_PRODUCERS = 2
SET_ROLL = 3

_MOVE = struct.Struct(">BBq")
_EXPIRE = struct.Struct(">BBI")
_PRODUCER = struct.Struct(">qq")
_ROLL = struct.Struct(">BBqq")


class MoveLogStart(NamedTuple):
    """The log begins at `offset` from now on, unless it already begins later."""

    offset: int


class ExpireProducers(NamedTuple):
    """Drop these idempotent producers, each only if it wrote nothing after the offset given here."""

    producers: tuple[tuple[int, int], ...]
    """(producer id, offset of its last record)."""


class SetRoll(NamedTuple):
    """From now on a segment ends before a batch that would make it larger, or longer in record time, than this."""

    segment_bytes: int
    segment_ms: int


LogCommand = MoveLogStart | ExpireProducers | SetRoll


def encode_log_command(command: LogCommand) -> bytes:
    """The bytes of a COMMAND entry."""
    if isinstance(command, MoveLogStart):
        return _MOVE.pack(VERSION, MOVE_LOG_START, command.offset)
    if isinstance(command, SetRoll):
        assert command.segment_bytes > 0
        assert command.segment_ms > 0
        return _ROLL.pack(VERSION, SET_ROLL, *command)
    producers = command.producers
    assert 0 < len(producers) <= limits.PRODUCERS_EXPIRED_PER_COMMAND_MAX
    return _EXPIRE.pack(VERSION, EXPIRE_PRODUCERS, len(producers)) + b"".join(
        _PRODUCER.pack(producer_id, offset) for producer_id, offset in producers
    )


def decode_log_command(data: bytes) -> LogCommand:
    """The command in `data`. Raises `UnsupportedFormat` for another version or kind, `Corruption` for malformed
    bytes."""
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
    if data[1] == SET_ROLL:
        if len(data) != _ROLL.size:
            raise Corruption(f"a segment roll of {len(data)} bytes")
        roll = SetRoll(*_ROLL.unpack(data)[2:])
        if roll.segment_bytes <= 0 or roll.segment_ms <= 0:
            raise Corruption(f"a segment roll of {roll}")
        return roll
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
    """The log start after `command`. Invariant: log_start_offset <= result <= next_offset."""
    return max(log_start_offset, min(command.offset, next_offset))
