"""JoinGroup: bytes to `groups.requests.JoinGroup`, and the answer with the generation's members to bytes."""

import struct
from collections.abc import Callable
from functools import cache

from muster_coordinator.context import RequestContext
from muster_coordinator.groups.requests import JoinGroup, JoinGroupAnswer, Protocol
from muster_coordinator.wire.heap_budget import STRUCT_COST, TEXT_COST, Frame
from muster_coordinator.wire.hot.primitives import count_of, form
from muster_coordinator.wire.versions import Api, is_flexible

_REBALANCE_TIMEOUT_SINCE, _THROTTLE_SINCE, _TWO_STEPS_SINCE, _INSTANCE_SINCE = 1, 2, 4, 5
_TYPE_SINCE, _REASON_SINCE, _SKIP_SINCE = 7, 8, 9


@cache
def decoder(version: int) -> Callable[[Frame, int, RequestContext], tuple[JoinGroup, int]]:
    """The decoder of one version's request. v0 has no rebalance timeout: the session timeout stands for it."""
    spell = form(flexible=is_flexible(Api.JOIN_GROUP, version))
    text, nullable_text, tags = spell.text, spell.nullable_text, spell.tags
    has_rebalance = version >= _REBALANCE_TIMEOUT_SINCE
    timeouts = struct.Struct(">ii" if has_rebalance else ">i")
    protocol_size = spell.text_size + spell.bytes_size + spell.tags_size

    def decode(frame: Frame, pos: int, context: RequestContext) -> tuple[JoinGroup, int]:
        group, pos = text(frame, pos)
        times = timeouts.unpack_from(frame.data, pos)
        member, pos = text(frame, pos + timeouts.size)
        instance, reason = None, None
        if version >= _INSTANCE_SINCE:
            instance, pos = nullable_text(frame, pos)
        protocol_type, pos = text(frame, pos)
        count, pos = count_of(frame, pos, spell.length, protocol_size, STRUCT_COST + 2 * TEXT_COST)
        protocols = []
        for _ in range(count):
            name, pos = text(frame, pos)
            metadata, pos = spell.blob(frame, pos)
            pos = tags(frame, pos)
            protocols.append(Protocol(name, metadata))
        if version >= _REASON_SINCE:
            reason, pos = nullable_text(frame, pos)
        request = JoinGroup(
            group=group,
            member=member,
            instance=instance,
            client_id=context.client_id,
            client_host=context.client_host,
            session_timeout_ms=times[0],
            rebalance_timeout_ms=times[-1],
            protocol_type=protocol_type,
            protocols=tuple(protocols),
            reason=reason or "",
            requires_known_member=version >= _TWO_STEPS_SINCE,
            supports_skip_assignment=version >= _SKIP_SINCE,
        )
        return request, tags(frame, pos)

    return decode


@cache
def encoder(version: int) -> Callable[[bytearray, JoinGroupAnswer], None]:
    """The encoder of one version's answer. The chosen protocol may be null from v7 on; before, null becomes ""."""
    spell = form(flexible=is_flexible(Api.JOIN_GROUP, version))
    write_text, write_bytes, write_tags = spell.write_text, spell.write_bytes, spell.write_tags
    pack_head = struct.Struct(">hi").pack

    def encode(out: bytearray, answer: JoinGroupAnswer) -> None:
        if version >= _THROTTLE_SINCE:
            out += b"\x00\x00\x00\x00"
        out += pack_head(answer.error, answer.generation)
        if version >= _TYPE_SINCE:
            write_text(out, answer.protocol_type)
            write_text(out, answer.protocol)
        else:
            write_text(out, answer.protocol or "")
        write_text(out, answer.leader)
        if version >= _SKIP_SINCE:
            out.append(answer.skip_assignment)
        write_text(out, answer.member)
        spell.write_count(out, len(answer.members))
        for one in answer.members:
            write_text(out, one.member)
            if version >= _INSTANCE_SINCE:
                write_text(out, one.instance)
            write_bytes(out, one.metadata)
            write_tags(out)
        write_tags(out)

    return encode
