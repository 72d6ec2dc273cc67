"""Which connection is served next when more requests have arrived than one turn of the loop may handle.

Problem: a rebalance of a thousand members is three thousand requests within milliseconds. Served in the order of
arrival, they would delay every other group's heartbeats until all are done. Mechanism: connections that do not fit into
a turn are queued by *subject*: the group that the next request is about, or the connection when it names no group.
Subjects take turns, one connection each; a busy group delays itself, and another group's heartbeat waits for one
request of each busy group.

Reading the subject decodes nothing: it is the bytes of the first string after the request header, which is the group
id in every hot group request. What it does not do: decide when a turn is over (the driver does), or reorder the
requests of one connection.
"""

import struct
from collections import deque
from typing import Generic, TypeVar

from muster_coordinator.wire.versions import Api, is_flexible

T = TypeVar("T")

GROUP_FIRST = frozenset(
    int(api)
    for api in (Api.OFFSET_COMMIT, Api.JOIN_GROUP, Api.HEARTBEAT, Api.LEAVE_GROUP, Api.SYNC_GROUP, Api.OFFSET_FETCH)
)
"""Requests whose body begins with a group id; OffsetFetch before `_GROUPS_SINCE` only."""
_GROUPS_SINCE = 8
_API_AND_VERSION = struct.Struct(">4xhh4xh")
_SHORT = struct.Struct(">h")
_SUBJECT_BYTES_MAX = 255
"""Groups whose ids agree in so many bytes share one subject: harmless, and it bounds the size of keys."""
_ONE_BYTE_VARINT = 0x80


def subject_of(data: bytes) -> bytes:
    """The bytes of the group id in the frame at the start of `data` (which begins with the frame's length). Empty when
    the request names no group, or when the frame is too short or malformed. Never raises: `connection` checks frames.
    """
    if len(data) < _API_AND_VERSION.size:
        return b""
    api, version, client_id_bytes = _API_AND_VERSION.unpack_from(data)
    if api not in GROUP_FIRST or (api == Api.OFFSET_FETCH and version >= _GROUPS_SINCE):
        return b""
    pos = _API_AND_VERSION.size + max(client_id_bytes, 0)
    if len(data) < pos + _SHORT.size:
        return b""
    if not is_flexible(api, version):
        size: int = _SHORT.unpack_from(data, pos)[0]
        pos += _SHORT.size
    elif data[pos] or data[pos + 1] >= _ONE_BYTE_VARINT:
        return b""  # tagged fields in the header, or an id of 127 bytes and more
    else:
        size = data[pos + 1] - 1
        pos += 2
    return bytes(data[pos : pos + min(max(size, 0), _SUBJECT_BYTES_MAX)])


class FairQueue(Generic[T]):
    """Items by subject; `take` is round robin over subjects, and first in, first out within one."""

    def __init__(self) -> None:
        self._subjects: dict[bytes, deque[T]] = {}
        """Ordered: the first subject is served next. Invariant: no queue is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, subject: bytes, item: T) -> None:
        """Add an item; a new subject is served after all others."""
        items = self._subjects.get(subject)
        if items is None:
            self._subjects[subject] = deque((item,))
        else:
            items.append(item)
        self._count += 1

    def take(self) -> T:
        """Remove and return the next item. Precondition: there is one."""
        assert self._count, "nothing waits"
        subject, items = next(iter(self._subjects.items()))
        del self._subjects[subject]
        item = items.popleft()
        if items:
            self._subjects[subject] = items
        self._count -= 1
        return item
