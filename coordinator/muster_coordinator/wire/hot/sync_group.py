"""SyncGroup: bytes to `groups.requests.SyncGroup`, and the member's assignment to bytes."""

import struct
from collections.abc import Callable
from functools import cache

from muster_coordinator.context import RequestContext
from muster_coordinator.groups.requests import SyncGroup, SyncGroupAnswer
from muster_coordinator.wire.heap_budget import STRUCT_COST, TEXT_COST, Frame
from muster_coordinator.wire.hot.primitives import count_of, form
from muster_coordinator.wire.versions import Api, is_flexible

_THROTTLE_SINCE, _INSTANCE_SINCE, _PROTOCOL_SINCE = 1, 3, 5
_UNPACK_I32 = struct.Struct(">i").unpack_from
_PACK_I16 = struct.Struct(">h").pack


@cache
def decoder(version: int) -> Callable[[Frame, int, RequestContext], tuple[SyncGroup, int]]:
    """The decoder of one version's request."""
    spell = form(flexible=is_flexible(Api.SYNC_GROUP, version))
    text, nullable_text, tags = spell.text, spell.nullable_text, spell.tags
    smallest = spell.text_size + spell.bytes_size + spell.tags_size

    def decode(frame: Frame, pos: int, _context: RequestContext) -> tuple[SyncGroup, int]:
        group, pos = text(frame, pos)
        generation = _UNPACK_I32(frame.data, pos)[0]
        member, pos = text(frame, pos + 4)
        instance = protocol_type = protocol = None
        if version >= _INSTANCE_SINCE:
            instance, pos = nullable_text(frame, pos)
        if version >= _PROTOCOL_SINCE:
            protocol_type, pos = nullable_text(frame, pos)
            protocol, pos = nullable_text(frame, pos)
        count, pos = count_of(frame, pos, spell.length, smallest, STRUCT_COST + 2 * TEXT_COST)
        assignments = []
        for _ in range(count):
            name, pos = text(frame, pos)
            assignment, pos = spell.blob(frame, pos)
            pos = tags(frame, pos)
            assignments.append((name, assignment))
        request = SyncGroup(
            group=group,
            generation=generation,
            member=member,
            instance=instance,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments=tuple(assignments),
        )
        return request, tags(frame, pos)

    return decode


@cache
def encoder(version: int) -> Callable[[bytearray, SyncGroupAnswer], None]:
    """The encoder of one version's answer."""
    spell = form(flexible=is_flexible(Api.SYNC_GROUP, version))

    def encode(out: bytearray, answer: SyncGroupAnswer) -> None:
        if version >= _THROTTLE_SINCE:
            out += b"\x00\x00\x00\x00"
        out += _PACK_I16(answer.error)
        if version >= _PROTOCOL_SINCE:
            spell.write_text(out, answer.protocol_type)
            spell.write_text(out, answer.protocol)
        spell.write_bytes(out, answer.assignment)
        spell.write_tags(out)

    return encode
