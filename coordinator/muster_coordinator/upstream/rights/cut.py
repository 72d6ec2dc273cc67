"""An answer of Metadata without the topics that its client may not see.

Problem: a question for all topics of a large Kafka is answered with a hundred thousand partitions, and to make objects
of them holds the loop for seconds, while heartbeats and Raft wait. Mechanism: topics are found in the frame by stepping
over what they contain, and the bytes of those that are kept are put together as they are. What this does not do: topics
by id (versions from 12 on), which are not judged (`upstream.apis`), or brokers (`upstream.brokers`).
"""

import struct
from collections.abc import Callable

from muster_coordinator.errors import WireError
from muster_coordinator.upstream.brokers import topics_at
from muster_coordinator.upstream.frames import HEAP_FACTOR
from muster_coordinator.wire.codecs import BAD_BYTES
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.hot.primitives import Form, form
from muster_coordinator.wire.versions import Api, is_flexible

_SIZE = struct.Struct(">i")
_TOPIC_IDS_SINCE, _OPERATIONS_SINCE, _OFFLINE_SINCE, _EPOCHS_SINCE, _INTERNAL_SINCE = 10, 8, 5, 7, 1
_I16, _I32, _UUID = 2, 4, 16
_BYTE_MAX = 127


def with_topics(version: int, frame: bytes, keeps: Callable[[str], bool]) -> bytearray:
    """The answer `frame` (size, header, body) with the topics whose name is kept. Raises `WireError` if it is none."""
    shape = form(flexible=is_flexible(Api.METADATA, version))
    reading = Frame(frame, len(frame), heap=HEAP_FACTOR * len(frame))
    kept: list[memoryview] = []
    whole = memoryview(frame)
    try:
        start = topics_at(version, reading)
        count, pos = shape.length(reading, start)
        for _ in range(count):
            began = pos
            name, pos = shape.text(reading, pos + _I16)
            pos = _behind(version, reading, pos, shape)
            if pos > len(frame):
                raise WireError("an answer ends early")
            if keeps(name):
                kept.append(whole[began:pos])
    except BAD_BYTES as error:
        raise WireError(f"an answer ends early or is no UTF-8: {error}") from error
    out = bytearray(whole[:start])
    shape.write_count(out, len(kept))
    out += b"".join([*kept, whole[pos:]])
    _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
    return out


def _behind(version: int, frame: Frame, pos: int, shape: Form) -> int:
    """The position behind a topic, whose name ends at `pos`."""
    data = frame.data
    pos += _UUID * (version >= _TOPIC_IDS_SINCE) + (version >= _INTERNAL_SINCE)
    fixed = _I16 + _I32 + _I32 + _I32 * (version >= _EPOCHS_SINCE)  # error, index, leader, its epoch
    lists = 3 if version >= _OFFLINE_SINCE else 2  # replicas, those in sync, those offline
    length, tags, is_compact = shape.length, shape.tags, shape.tags_size > 0
    count, pos = length(frame, pos)
    for _ in range(count):
        pos += fixed
        for _ in range(lists):
            if is_compact and 0 < data[pos] <= _BYTE_MAX:  # nearly all of them
                pos += 1 + _I32 * (data[pos] - 1)
            else:
                size, pos = length(frame, pos)
                pos += _I32 * max(0, size)
        pos = tags(frame, pos)
    pos += _I32 * (version >= _OPERATIONS_SINCE)
    return tags(frame, pos)
