"""Kafka frames of a simulated client: a third, tiny codec, in an old dialect (plain types) and a new one (compact).

Requests are built from and answers read into named tuples; only the fields that the simulated clients use exist.
Every answer must be read to its last byte.
"""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
FETCH_LOG = 1
OLD = {COMMIT: 7, FETCH: 5, FIND: 2, JOIN: 5, HEARTBEAT: 3, LEAVE: 3, SYNC: 3}
NEW = {COMMIT: 9, FETCH: 7, FIND: 3, JOIN: 9, HEARTBEAT: 4, LEAVE: 5, SYNC: 5}

_SMALL = [bytes((value,)) for value in range(0x80)]
_I8, _I16, _I32, _I64 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class Out:
    """Builds a body; `flexible` chooses the dialect of strings, arrays and ends."""

    __slots__ = ("flexible", "parts")

    def __init__(self, flexible: bool) -> None:
        self.flexible = flexible
        self.parts: list[bytes] = []

    def i8(self, value: int) -> None:
        self.parts.append(_I8.pack(value))

    def i16(self, value: int) -> None:
        self.parts.append(_I16.pack(value))

    def i32(self, value: int) -> None:
        self.parts.append(_I32.pack(value))

    def i64(self, value: int) -> None:
        self.parts.append(_I64.pack(value))

    def _length(self, size: int | None, pack: struct.Struct) -> None:
        if self.flexible:
            self.parts.append(_unsigned(0 if size is None else size + 1))
        else:
            self.parts.append(pack.pack(-1 if size is None else size))

    def string(self, value: str | None) -> None:
        data = None if value is None else value.encode()
        self._length(None if data is None else len(data), _I16)
        self.parts.append(data or b"")

    def data(self, value: bytes | None) -> None:
        self._length(None if value is None else len(value), _I32)
        self.parts.append(value or b"")

    def count(self, value: int | None) -> None:
        self._length(value, _I32)

    def end(self) -> None:
        if self.flexible:
            self.parts.append(b"\0")


def _unsigned(value: int) -> bytes:
    if value <= 0x7F:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class In:
    """Reads a body."""

    __slots__ = ("at", "bytes", "flexible")

    def __init__(self, data: bytes, at: int, flexible: bool) -> None:
        self.bytes = data
        self.at = at
        self.flexible = flexible

    def _take(self, kind: struct.Struct) -> int:
        value: int = kind.unpack_from(self.bytes, self.at)[0]
        self.at += kind.size
        return value

    def i8(self) -> int:
        return self._take(_I8)

    def i16(self) -> int:
        return self._take(_I16)

    def i32(self) -> int:
        return self._take(_I32)

    def i64(self) -> int:
        return self._take(_I64)

    def _length(self, kind: struct.Struct) -> int:
        if not self.flexible:
            return self._take(kind)
        value, shift = 0, 0
        while True:
            byte = self.bytes[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - 1

    def data(self) -> bytes | None:
        return self._bytes(_I32)

    def _bytes(self, kind: struct.Struct) -> bytes | None:
        size = self._length(kind)
        if size < 0:
            return None
        assert self.at + size <= len(self.bytes), "an answer that ends early"
        self.at += size
        return self.bytes[self.at - size : self.at]

    def string(self) -> str | None:
        data = self._bytes(_I16)
        return None if data is None else data.decode()

    def text(self) -> str:
        value = self.string()
        assert value is not None, "null where the schema has none"
        return value

    def count(self) -> int:
        return self._length(_I32)

    def end(self) -> None:
        if self.flexible:
            tags = self._length(_I32) + 1
            assert tags == 0, "unexpected tagged fields"


class Request(NamedTuple):
    """A frame but for its correlation id, and how to read the answer."""

    api: int
    version: int
    flexible: bool
    body: bytes
    read: Callable[[In], object]

    def frame(self, correlation: int, client_id: str) -> bytes:
        name = client_id.encode()
        head = struct.pack(">hhih", self.api, self.version, correlation, len(name)) + name
        if self.flexible:
            head += b"\0"
        return _I32.pack(len(head) + len(self.body)) + head + self.body

    def answer(self, frame: bytes) -> object:
        """From a frame without its size."""
        at = 4
        if self.flexible:
            assert frame[4] == 0, "tags in a response header"
            at = 5
        source = In(frame, at, self.flexible)
        value = self.read(source)
        source.end()
        assert source.at == len(frame), f"{len(frame) - source.at} bytes left over after an answer of API {self.api}"
        return value


class Dialect:
    """Requests in one set of versions."""

    def __init__(self, *, new: bool) -> None:
        self.new = new
        self.versions = NEW if new else OLD

    def _request(self, api: int, out: Out, read: Callable[[In], object]) -> Request:
        out.end()
        return Request(api, self.versions[api], out.flexible, b"".join(out.parts), read)

    def find(self, key: str, kind: int = 0) -> Request:
        """`kind`: 0 for a group, 1 for a transactional id."""
        out = Out(self.new)
        out.string(key)
        out.i8(kind)
        return self._request(FIND, out, _read_found)

    def join(
        self,
        group: str,
        member: str,
        instance: str | None,
        session_ms: int,
        rebalance_ms: int,
        protocol_type: str,
        protocols: Sequence[tuple[str, bytes]],
    ) -> Request:
        out = Out(self.new)
        out.string(group)
        out.i32(session_ms)
        out.i32(rebalance_ms)
        out.string(member)
        out.string(instance)
        out.string(protocol_type)
        out.count(len(protocols))
        for name, metadata in protocols:
            out.string(name)
            out.data(metadata)
            out.end()
        if self.new:
            out.string(None)
        return self._request(JOIN, out, _read_join_new if self.new else _read_join_old)

    def sync(
        self,
        group: str,
        generation: int,
        member: str,
        instance: str | None,
        protocol_type: str,
        protocol: str,
        plan: Sequence[tuple[str, bytes]],
    ) -> Request:
        out = Out(self.new)
        out.string(group)
        out.i32(generation)
        out.string(member)
        out.string(instance)
        if self.new:
            out.string(protocol_type)
            out.string(protocol)
        out.count(len(plan))
        for name, assignment in plan:
            out.string(name)
            out.data(assignment)
            out.end()
        return self._request(SYNC, out, _read_sync_new if self.new else _read_sync_old)

    def heartbeat(self, group: str, generation: int, member: str, instance: str | None) -> Request:
        out = Out(self.new)
        out.string(group)
        out.i32(generation)
        out.string(member)
        out.string(instance)
        return self._request(HEARTBEAT, out, _read_error)

    def leave(self, group: str, member: str, instance: str | None) -> Request:
        out = Out(self.new)
        out.string(group)
        out.count(1)
        out.string(member)
        out.string(instance)
        if self.new:
            out.string("done")
        out.end()
        return self._request(LEAVE, out, _read_leave)

    def commit(
        self,
        group: str,
        generation: int,
        member: str,
        instance: str | None,
        offsets: Sequence[tuple[str, int, int, int, str]],
    ) -> Request:
        """`offsets`: (topic, partition, offset, leader epoch, metadata), grouped by topic."""
        out = Out(self.new)
        out.string(group)
        out.i32(generation)
        out.string(member)
        out.string(instance)
        topics: dict[str, list[tuple[str, int, int, int, str]]] = {}
        for row in offsets:
            topics.setdefault(row[0], []).append(row)
        out.count(len(topics))
        for topic, rows in topics.items():
            out.string(topic)
            out.count(len(rows))
            for _, partition, offset, epoch, metadata in rows:
                out.i32(partition)
                out.i64(offset)
                out.i32(epoch)
                out.string(metadata)
                out.end()
            out.end()
        return self._request(COMMIT, out, _read_committed)

    def fetch(self, group: str, keys: Sequence[tuple[str, int]]) -> Request:
        out = Out(self.new)
        out.string(group)
        topics: dict[str, list[int]] = {}
        for topic, partition in keys:
            topics.setdefault(topic, []).append(partition)
        out.count(len(topics))
        for topic, partitions in topics.items():
            out.string(topic)
            out.count(len(partitions))
            for partition in partitions:
                out.i32(partition)
            out.end()
        if self.new:
            out.i8(0)
        return self._request(FETCH, out, read_fetched)


class Found(NamedTuple):
    error: int
    broker: int
    host: str
    port: int


class Joined(NamedTuple):
    error: int
    generation: int
    protocol: str
    leader: str
    skip: bool
    member: str
    members: tuple[tuple[str, str | None, bytes], ...]


class Synced(NamedTuple):
    error: int
    assignment: bytes


class FetchedOffset(NamedTuple):
    offset: int
    epoch: int
    metadata: str
    error: int


class Fetched(NamedTuple):
    error: int
    offsets: dict[tuple[str, int], FetchedOffset]


def _read_found(source: In) -> Found:
    source.i32()
    error = source.i16()
    source.string()
    return Found(error, source.i32(), source.text(), source.i32())


def _read_join_new(source: In) -> Joined:
    source.i32()
    error, generation = source.i16(), source.i32()
    source.string()
    protocol, leader = source.string() or "", source.text()
    skip = source.i8() != 0
    member = source.text()
    return Joined(error, generation, protocol, leader, skip, member, _read_members(source))


def _read_join_old(source: In) -> Joined:
    source.i32()
    error, generation = source.i16(), source.i32()
    protocol, leader, member = source.text(), source.text(), source.text()
    return Joined(error, generation, protocol, leader, False, member, _read_members(source))


def _read_members(source: In) -> tuple[tuple[str, str | None, bytes], ...]:
    found = []
    for _ in range(source.count()):
        found.append((source.text(), source.string(), source.data() or b""))
        source.end()
    return tuple(found)


def _read_sync_new(source: In) -> Synced:
    source.i32()
    error = source.i16()
    source.string()
    source.string()
    return Synced(error, source.data() or b"")


def _read_sync_old(source: In) -> Synced:
    source.i32()
    return Synced(source.i16(), source.data() or b"")


def _read_error(source: In) -> int:
    source.i32()
    return source.i16()


def _read_leave(source: In) -> int:
    source.i32()
    error = source.i16()
    for _ in range(source.count()):
        source.string()
        source.string()
        error = error or source.i16()
        source.end()
    return error


def _read_committed(source: In) -> dict[tuple[str, int], int]:
    source.i32()
    found = {}
    for _ in range(source.count()):
        topic = source.text()
        for _ in range(source.count()):
            partition = source.i32()
            found[topic, partition] = source.i16()
            source.end()
        source.end()
    return found


def read_fetched(source: In) -> Fetched:
    source.i32()
    found = {}
    for _ in range(source.count()):
        topic = source.text()
        for _ in range(source.count()):
            partition = source.i32()
            offset, epoch = source.i64(), source.i32()
            metadata = source.string() or ""
            found[topic, partition] = FetchedOffset(offset, epoch, metadata, source.i16())
            source.end()
        source.end()
    return Fetched(source.i16(), found)
