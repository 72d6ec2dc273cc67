"""Body of payload 19 (docs/format.md): what partitions weigh, as their leader says, and how much room its disk has."""

import struct
from collections.abc import Sequence

from muster_coordinator.controller.weighing import UNKNOWN, Weight
from muster_coordinator.errors import WireError
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import PEER_FRAME_BYTES_MAX, RAFT_GROUPS_MAX
from muster_coordinator.replica.multiraft.payloads import HEAD_BYTES, HEADS, Kind, table

WEIGHTS_PER_FRAME_MAX = RAFT_GROUPS_MAX
_FIXED = struct.Struct(">qI")
_ROW = struct.Struct(">IQqq")
_SIZE_MAX, _RATE_MAX = 2**64 - 1, 2**63 - 1

WeightRow = tuple[GroupNo, Weight]

assert HEAD_BYTES + _FIXED.size + WEIGHTS_PER_FRAME_MAX * _ROW.size <= PEER_FRAME_BYTES_MAX


def encode_weights(room_bytes: int, rows: Sequence[WeightRow]) -> bytes:
    """`room_bytes`: what the sender can take before its disk is low; `UNKNOWN` if it does not know."""
    assert len(rows) <= WEIGHTS_PER_FRAME_MAX
    packed = [
        _ROW.pack(
            group,
            min(weight.size_bytes, _SIZE_MAX),
            min(weight.write_rate, _RATE_MAX),
            min(weight.read_rate, _RATE_MAX),
        )
        for group, weight in rows
    ]
    return b"".join([HEADS[Kind.WEIGHTS], _FIXED.pack(min(room_bytes, _RATE_MAX), len(rows)), *packed])


def decode_weights(payload: bytes) -> tuple[int, list[WeightRow]]:
    """The sender's room, and its rows."""
    if len(payload) < HEAD_BYTES + _FIXED.size:
        raise WireError("a report of weights is cut short")
    room, count = _FIXED.unpack_from(payload, HEAD_BYTES)
    if count > WEIGHTS_PER_FRAME_MAX:
        raise WireError(f"{count} weights in one payload")
    rows, _ = table(_ROW, payload, HEAD_BYTES + _FIXED.size, count, "a report of weights")
    found = [(GroupNo(group), Weight(size, write, read)) for group, size, write, read in rows]
    if room < UNKNOWN or any(one.write_rate < UNKNOWN or one.read_rate < UNKNOWN for _, one in found):
        raise WireError("a report of weights with less than nothing")
    return room, found
