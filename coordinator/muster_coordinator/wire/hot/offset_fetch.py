"""OffsetFetch: one group (v1-7) or several (v8+) to `Asked` values, and the committed offsets to bytes.

Topics are names, or ids in v10; `api.commits` translates. A null list of topics asks for all topics with a committed
offset.
"""

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import WireError
from muster_coordinator.groups.requests import FetchedOffset
from muster_coordinator.wire.heap_budget import INT_COST, POINTER_COST, STRUCT_COST, TEXT_COST, Frame
from muster_coordinator.wire.hot.primitives import Form, count_of, form
from muster_coordinator.wire.versions import Api, is_flexible

_NULL_TOPICS_SINCE, _GROUP_ERROR_SINCE, _THROTTLE_SINCE, _EPOCH_SINCE = 2, 2, 3, 5
_STABLE_SINCE, _GROUPS_SINCE, _MEMBER_SINCE, _IDS_SINCE = 7, 8, 9, 10
_I32_SIZE = 4

Topic = str | bytes


class Asked(NamedTuple):
    """The offsets of one group that a request asks for."""

    group: str
    topics: tuple[tuple[Topic, tuple[int, ...]], ...] | None
    require_stable: bool


class GroupOffsets(NamedTuple):
    """One group's answer; topics are names or ids, as in the request."""

    group: str
    error: int
    topics: Sequence[tuple[Topic, Sequence[FetchedOffset]]]


def _topics_reader(
    version: int, spell: Form
) -> Callable[[Frame, int], tuple[tuple[tuple[Topic, tuple[int, ...]], ...] | None, int]]:
    by_id = version >= _IDS_SINCE
    text, length, tags = spell.text, spell.length, spell.tags
    smallest = (16 if by_id else spell.text_size) + (1 if spell.tags_size else 4) + spell.tags_size

    def read(frame: Frame, pos: int) -> tuple[tuple[tuple[Topic, tuple[int, ...]], ...] | None, int]:
        count, pos = length(frame, pos)
        if count < 0:
            if count != -1 or version < _NULL_TOPICS_SINCE:
                raise WireError("null or negative array")
            return None, pos
        frame.claim(pos, count, smallest, 2 * STRUCT_COST + TEXT_COST)
        topics = []
        for _ in range(count):
            topic: Topic
            if by_id:
                topic = frame.data[pos : pos + 16]
                pos += 16
            else:
                topic, pos = text(frame, pos)
            size, pos = count_of(frame, pos, length, _I32_SIZE, INT_COST + POINTER_COST)
            partitions = struct.unpack_from(f">{size}i", frame.data, pos)
            pos = tags(frame, pos + size * _I32_SIZE)
            topics.append((topic, partitions))
        return tuple(topics), pos

    return read


@cache
def decoder(version: int) -> Callable[[Frame, int, RequestContext], tuple[tuple[Asked, ...], int]]:
    """The decoder of one version's request: a tuple of groups, of length one before v8."""
    spell = form(flexible=is_flexible(Api.OFFSET_FETCH, version))
    text, tags, read_topics = spell.text, spell.tags, _topics_reader(version, spell)
    smallest = spell.text_size + 1 + spell.tags_size

    def one(frame: Frame, pos: int, _context: RequestContext) -> tuple[tuple[Asked, ...], int]:
        group, pos = text(frame, pos)
        topics, pos = read_topics(frame, pos)
        stable = False
        if version >= _STABLE_SINCE:
            stable = frame.data[pos] != 0
            pos += 1
        return (Asked(group, topics, stable),), tags(frame, pos)

    def several(frame: Frame, pos: int, _context: RequestContext) -> tuple[tuple[Asked, ...], int]:
        count, pos = count_of(frame, pos, spell.length, smallest, 2 * STRUCT_COST + TEXT_COST)
        groups = []
        for _ in range(count):
            group, pos = text(frame, pos)
            if version >= _MEMBER_SINCE:
                # Member and epoch concern KIP-848 groups only; a classic group's fetch ignores them.
                _member, pos = spell.nullable_text(frame, pos)
                pos += _I32_SIZE
            topics, pos = read_topics(frame, pos)
            pos = tags(frame, pos)
            groups.append((group, topics))
        stable = frame.data[pos] != 0
        return tuple(Asked(group, topics, stable) for group, topics in groups), tags(frame, pos + 1)

    return several if version >= _GROUPS_SINCE else one


@cache
def encoder(version: int) -> Callable[[bytearray, Sequence[GroupOffsets]], None]:
    """The encoder of one version's answer."""
    spell = form(flexible=is_flexible(Api.OFFSET_FETCH, version))
    write_count, write_text, write_tags = spell.write_count, spell.write_text, spell.write_tags
    has_epoch = version >= _EPOCH_SINCE
    pack_offset = struct.Struct(">iqi" if has_epoch else ">iq").pack
    pack_error = struct.Struct(">h").pack
    tail = b"\x00" * spell.tags_size
    # Nearly all offsets have no metadata: those take one pack instead of four pieces.
    empty_text = bytearray()
    write_text(empty_text, "")
    pack_bare = struct.Struct(f">iqi{len(empty_text)}sh{len(tail)}s").pack
    empty = bytes(empty_text)

    def write_topics(out: bytearray, topics: Sequence[tuple[Topic, Sequence[FetchedOffset]]]) -> None:
        write_count(out, len(topics))
        for topic, offsets in topics:
            if version >= _IDS_SINCE:
                assert isinstance(topic, bytes)
                out += topic
            else:
                assert isinstance(topic, str)
                write_text(out, topic)
            write_count(out, len(offsets))
            for partition, offset, epoch, metadata, error in offsets:
                if has_epoch and not metadata:
                    out += pack_bare(partition, offset, epoch, empty, error, tail)
                    continue
                out += pack_offset(partition, offset, epoch) if has_epoch else pack_offset(partition, offset)
                write_text(out, metadata)
                out += pack_error(error)
                out += tail
            out += tail

    def encode(out: bytearray, groups: Sequence[GroupOffsets]) -> None:
        if version >= _THROTTLE_SINCE:
            out += b"\x00\x00\x00\x00"
        if version >= _GROUPS_SINCE:
            write_count(out, len(groups))
            for group in groups:
                write_text(out, group.group)
                write_topics(out, group.topics)
                out += pack_error(group.error)
                write_tags(out)
        else:
            write_topics(out, groups[0].topics)
            if version >= _GROUP_ERROR_SINCE:
                out += pack_error(groups[0].error)
        write_tags(out)

    return encode
