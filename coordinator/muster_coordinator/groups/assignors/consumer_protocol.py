"""Codec of the embedded consumer protocol: the opaque bytes of members whose protocol type is `consumer`.

Layouts (big endian; `string` = i16 length and UTF-8, `bytes` = i32 length, -1 = null, `[x]` = i32 count and items):

    Subscription: i16 version; [string topic]; bytes user_data; v1+ [string topic, [i32 partition]] owned;
                  v2+ i32 generation_id; v3+ nullable string rack_id
    Assignment:   i16 version; [string topic, [i32 partition]] assigned; bytes user_data
    Sticky user data: [string topic, [i32 partition]] previous; v1 i32 generation
    Cooperative-sticky user data: i32 generation

A reader takes any version: every version only appends fields, so one above the highest known is read as the highest,
and the rest of its bytes is ignored. Writers sort topics and partitions, so that an unchanged subscription has the same
bytes: the coordinator compares bytes to tell a repeated JoinGroup from a changed one. Source: protocol notes 6.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from muster_coordinator.errors import CallerError
from muster_coordinator.groups.assignors.membership import Subscription, TopicPartition

VERSION_MAX = 3

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


class ConsumerProtocolError(CallerError):
    """Bytes that are no subscription or assignment."""


class Assignment(NamedTuple):
    """What the leader gives one member."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


class StickyClaim(NamedTuple):
    """The sticky assignor's user data. `generation` is None in version 0, which has no such field, and -1 when the data
    cannot be read."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


def encode_subscription(subscription: Subscription, version: int = VERSION_MAX) -> bytes:
    """The subscription in `version` (0-3); fields that the version lacks are left out."""
    assert 0 <= version <= VERSION_MAX
    parts = [_I16.pack(version), _I32.pack(len(subscription.topics))]
    parts += [_string(topic) for topic in sorted(subscription.topics)]
    parts.append(_bytes(subscription.user_data))
    if version >= 1:
        parts.append(_partitions(subscription.owned))
    if version >= 2:
        parts.append(_I32.pack(subscription.generation_id))
    if version >= 3:
        parts.append(_I16.pack(-1) if subscription.rack_id is None else _string(subscription.rack_id))
    return b"".join(parts)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription of any version. Raises ConsumerProtocolError."""
    reader = _Reader(data)
    version = reader.version()
    topics = tuple(reader.string() for _ in range(reader.count(2)))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else ()
    generation_id = reader.i32() if version >= 2 else -1
    rack_id = reader.nullable_string() if version >= 3 else None
    return Subscription(
        topics=topics, user_data=user_data, owned=owned, generation_id=max(generation_id, -1), rack_id=rack_id
    )


def encode_assignment(assignment: Assignment, version: int = VERSION_MAX) -> bytes:
    """The assignment in `version`; all versions have the same layout."""
    assert 0 <= version <= VERSION_MAX
    return b"".join((_I16.pack(version), _partitions(assignment.partitions), _bytes(assignment.user_data)))


def decode_assignment(data: bytes) -> Assignment:
    """Decode an assignment of any version; no bytes mean that nothing is assigned. Raises ConsumerProtocolError."""
    if not data:
        return Assignment()
    reader = _Reader(data)
    reader.version()
    return Assignment(reader.partitions(), reader.nullable_bytes())


def encode_sticky_user_data(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """The sticky assignor's user data, version 1."""
    return _partitions(partitions) + _I32.pack(generation)


def decode_sticky_user_data(data: bytes) -> StickyClaim:
    """Unreadable bytes claim nothing, as in Kafka: another member sent them, and they must not fail the rebalance."""
    reader = _Reader(data)
    try:
        partitions = reader.partitions()
    except ConsumerProtocolError:
        return StickyClaim((), -1)
    return StickyClaim(partitions, reader.i32() if reader.left() >= _I32.size else None)


def encode_cooperative_user_data(generation: int) -> bytes:
    """The cooperative-sticky user data. Only read when the subscription has no generation field (v0, v1)."""
    return _I32.pack(generation)


def decode_cooperative_user_data(data: bytes) -> int:
    """The generation; -1 when unreadable."""
    return int(_I32.unpack_from(data)[0]) if len(data) >= _I32.size else -1


def _string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > 0x7FFF:
        raise ConsumerProtocolError(f"a name of {len(encoded)} bytes does not fit the protocol's 32767")
    return _I16.pack(len(encoded)) + encoded


def _bytes(data: bytes | None) -> bytes:
    return _I32.pack(-1) if data is None else _I32.pack(len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [_I32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts.append(_string(topic))
        parts.append(struct.pack(f">{1 + len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)


class _Reader:
    """A cursor that raises ConsumerProtocolError instead of reading past the end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def left(self) -> int:
        return len(self._data) - self._at

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= self.left():
            raise ConsumerProtocolError(f"{length} bytes expected at {self._at}, {self.left()} are left")
        self._at += length
        return self._data[self._at - length : self._at]

    def i16(self) -> int:
        return int(_I16.unpack(self._take(_I16.size))[0])

    def i32(self) -> int:
        return int(_I32.unpack(self._take(_I32.size))[0])

    def version(self) -> int:
        version = self.i16()
        if version < 0:
            raise ConsumerProtocolError(f"version {version}")
        return min(version, VERSION_MAX)

    def count(self, item_bytes_min: int) -> int:
        """Number of items that follow. Raises, before any allocation, when the bytes left cannot hold so many."""
        count = self.i32()
        if not 0 <= count * item_bytes_min <= self.left():
            raise ConsumerProtocolError(f"{count} items announced, {self.left()} bytes are left")
        return count

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ConsumerProtocolError(f"null string at {self._at}")
        return text

    def nullable_string(self) -> str | None:
        length = self.i16()
        if length == -1:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise ConsumerProtocolError(f"a string before {self._at} is not UTF-8") from error

    def nullable_bytes(self) -> bytes | None:
        length = self.i32()
        return None if length == -1 else self._take(length)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.count(_I16.size + _I32.size)):
            topic = self.string()
            numbers = self._take(_I32.size * self.count(_I32.size))
            found += [TopicPartition(topic, number) for (number,) in _I32.iter_unpack(numbers)]
        return tuple(found)
