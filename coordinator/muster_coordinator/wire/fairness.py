"""Who is served next when more requests have arrived than one turn of the loop may take.

A rebalance of a thousand members is three thousand requests within milliseconds. Served in the order of arrival, they
would hold up every other group's heartbeats for as long as all of them take. So what does not fit into a turn is queued
by its *subject*: the group that a request is about, or the connection where that is no group. Subjects take turns, one
connection each; a busy group delays itself, and another one's heartbeat waits for one request of each busy group.

Reading the subject decodes nothing: it is the bytes of the first string behind the request header, which is the group
id in every hot group request. What this part does not do: say when a turn is over (the driver does), or reorder one
connection's requests, which stay in line.
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
"""Two groups that agree in so many bytes share a place in the round: harmless, and keys stay small."""
_ONE_BYTE_VARINT = 0x80


def subject_of(data: bytes) -> bytes:
    """The group id's bytes of the frame at the start of `data` (its length first); empty when it names none, or when
    the frame is too short or too odd to tell. Never raises: whether a frame is a request is judged elsewhere."""
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
    """Items by subject; `take` goes round the subjects, and within one it is first in, first out."""

    def __init__(self) -> None:
        self._subjects: dict[bytes, deque[T]] = {}
        """In the order in which they are served next."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, subject: bytes, item: T) -> None:
        """A subject that is new joins the round at its end."""
        waiting = self._subjects.get(subject)
        if waiting is None:
            self._subjects[subject] = deque((item,))
        else:
            waiting.append(item)
        self._count += 1

    def take(self) -> T:
        """The next item; there must be one."""
        assert self._count, "nothing waits"
        subject, waiting = next(iter(self._subjects.items()))
        del self._subjects[subject]
        item = waiting.popleft()
        if waiting:
            self._subjects[subject] = waiting
        self._count -= 1
        return item
