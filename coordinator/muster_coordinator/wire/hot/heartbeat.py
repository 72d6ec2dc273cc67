"""Heartbeat: the request that members send most often. Each error code's answer is encoded once and kept."""

import struct
from collections.abc import Callable
from functools import cache

from muster_coordinator.context import RequestContext
from muster_coordinator.groups.requests import Heartbeat, HeartbeatAnswer
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.hot.primitives import form
from muster_coordinator.wire.versions import Api, is_flexible

_UNPACK_I32 = struct.Struct(">i").unpack_from
_INSTANCE_SINCE, _THROTTLE_SINCE = 3, 1


@cache
def decoder(version: int) -> Callable[[Frame, int, RequestContext], tuple[Heartbeat, int]]:
    """The decoder of one version's request."""
    spell = form(flexible=is_flexible(Api.HEARTBEAT, version))
    text, nullable_text, tags = spell.text, spell.nullable_text, spell.tags
    has_instance = version >= _INSTANCE_SINCE

    def decode(frame: Frame, pos: int, _context: RequestContext) -> tuple[Heartbeat, int]:
        group, pos = text(frame, pos)
        generation = _UNPACK_I32(frame.data, pos)[0]
        member, pos = text(frame, pos + 4)
        instance = None
        if has_instance:
            instance, pos = nullable_text(frame, pos)
        return Heartbeat(group, generation, member, instance), tags(frame, pos)

    return decode


@cache
def encoder(version: int) -> Callable[[bytearray, HeartbeatAnswer], None]:
    """The encoder of one version's answer."""
    layout = struct.Struct(">ih" if version >= _THROTTLE_SINCE else ">h")
    tail = b"\x00" if is_flexible(Api.HEARTBEAT, version) else b""
    made: dict[int, bytes] = {}

    def encode(out: bytearray, answer: HeartbeatAnswer) -> None:
        code = int(answer.error)
        body = made.get(code)
        if body is None:
            body = made[code] = (layout.pack(0, code) if version >= _THROTTLE_SINCE else layout.pack(code)) + tail
        out += body

    return encode
