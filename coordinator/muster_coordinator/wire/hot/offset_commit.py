"""OffsetCommit: bytes to `groups.requests.OffsetCommit`, and the list of partition errors to bytes.

A topic of a v10 request has an id and the name ""; a topic of an older request has a name and the zero id.
`api.commits` fills in the missing one.
"""

import struct
from collections.abc import Callable, Sequence
from functools import cache

from muster_coordinator.context import RequestContext
from muster_coordinator.groups.requests import OffsetCommit, PartitionCommit, TopicCommit
from muster_coordinator.wire.heap_budget import POINTER_COST, STRUCT_COST, TEXT_COST, Frame
from muster_coordinator.wire.hot.primitives import Form, count_of, form
from muster_coordinator.wire.versions import Api, is_flexible

CommitAnswer = Sequence[tuple[str | bytes, Sequence[tuple[int, int]]]]
"""(topic name, or id in v10; ((partition, error), ...)), in the order of the request."""

_EPOCH_SINCE, _INSTANCE_SINCE, _IDS_SINCE, _THROTTLE_SINCE, _UNKNOWN_69_SINCE = 6, 7, 10, 3, 9
_RETENTION = range(2, 5)
_NO_ID = bytes(16)
_PARTITION_COST = STRUCT_COST + 4 * (POINTER_COST + 32) + TEXT_COST
_UNPACK_I32 = struct.Struct(">i").unpack_from
_UNPACK_I64 = struct.Struct(">q").unpack_from
_PACK_ERROR = struct.Struct(">ih").pack


def _partition_reader(version: int, spell: Form) -> tuple[Callable[[Frame, int], tuple[PartitionCommit, int]], int]:
    has_epoch = version >= _EPOCH_SINCE
    layout = struct.Struct(">iqi" if has_epoch else ">iq")
    unpack, size = layout.unpack_from, layout.size
    nullable_text, tags = spell.nullable_text, spell.tags

    def read(frame: Frame, pos: int) -> tuple[PartitionCommit, int]:
        if has_epoch:
            partition, offset, epoch = unpack(frame.data, pos)
        else:
            partition, offset = unpack(frame.data, pos)
            epoch = -1
        metadata, pos = nullable_text(frame, pos + size)
        return PartitionCommit(partition, offset, epoch, metadata or ""), tags(frame, pos)

    return read, size + spell.text_size + spell.tags_size


@cache
def decoder(version: int) -> Callable[[Frame, int, RequestContext], tuple[OffsetCommit, int]]:
    """The decoder of one version's request."""
    spell = form(flexible=is_flexible(Api.OFFSET_COMMIT, version))
    text, length, tags = spell.text, spell.length, spell.tags
    read_partition, partition_size = _partition_reader(version, spell)
    topic_size = (16 if version >= _IDS_SINCE else spell.text_size) + spell.text_size + spell.tags_size

    def topic_at(frame: Frame, pos: int) -> tuple[TopicCommit, int]:
        name, topic_id = "", _NO_ID
        if version >= _IDS_SINCE:
            topic_id = frame.data[pos : pos + 16]
            pos += 16
        else:
            name, pos = text(frame, pos)
        count, pos = count_of(frame, pos, length, partition_size, _PARTITION_COST)
        partitions = []
        for _ in range(count):
            partition, pos = read_partition(frame, pos)
            partitions.append(partition)
        return TopicCommit(name, topic_id, tuple(partitions)), tags(frame, pos)

    def decode(frame: Frame, pos: int, _context: RequestContext) -> tuple[OffsetCommit, int]:
        group, pos = text(frame, pos)
        generation = _UNPACK_I32(frame.data, pos)[0]
        member, pos = text(frame, pos + 4)
        instance, retention_ms = None, -1
        if version >= _INSTANCE_SINCE:
            instance, pos = spell.nullable_text(frame, pos)
        if version in _RETENTION:
            retention_ms = _UNPACK_I64(frame.data, pos)[0]
            pos += 8
        count, pos = count_of(frame, pos, length, topic_size, STRUCT_COST + 2 * TEXT_COST)
        topics = []
        for _ in range(count):
            topic, pos = topic_at(frame, pos)
            topics.append(topic)
        request = OffsetCommit(
            group=group,
            generation=generation,
            member=member,
            instance=instance,
            topics=tuple(topics),
            retention_ms=retention_ms,
            unknown_group_is_69=version >= _UNKNOWN_69_SINCE,
        )
        return request, tags(frame, pos)

    return decode


@cache
def encoder(version: int) -> Callable[[bytearray, CommitAnswer], None]:
    """The encoder of one version's answer."""
    spell = form(flexible=is_flexible(Api.OFFSET_COMMIT, version))
    write_count, write_text, write_tags = spell.write_count, spell.write_text, spell.write_tags
    tail = b"\x00" * spell.tags_size

    def encode(out: bytearray, answer: CommitAnswer) -> None:
        if version >= _THROTTLE_SINCE:
            out += b"\x00\x00\x00\x00"
        write_count(out, len(answer))
        for topic, partitions in answer:
            if version >= _IDS_SINCE:
                assert isinstance(topic, bytes)
                out += topic
            else:
                assert isinstance(topic, str)
                write_text(out, topic)
            write_count(out, len(partitions))
            for partition, error in partitions:
                out += _PACK_ERROR(partition, error)
                out += tail
            write_tags(out)
        write_tags(out)

    return encode
