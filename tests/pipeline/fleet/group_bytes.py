"""Group records of both protocols as brokers write them, byte by byte. Shares no code with the product."""

import struct
from collections.abc import Mapping, Sequence

from tests.pipeline import logs
from tests.pipeline.logs import Record
from tests.pipeline.store.logfolder import Assigned, plan, subscription

Owned = Mapping[bytes, Sequence[int]]
"""Topic id (16 bytes) to partitions."""
V0 = b"\x00\x00"
NO_TAGS = b"\x00"


def key(kind: int, group: str, second: str | None = None) -> bytes:
    """Keys of all group records: type, group, and a member id or an expression."""
    return struct.pack(">h", kind) + logs.text(group) + (logs.text(second) if second is not None else b"")


def gone(kind: int, group: str, second: str | None = None) -> Record:
    """A tombstone."""
    return Record(key=key(kind, group, second), value=None)


def candidate(group: str, generation: int, members: Mapping[str, Assigned], at_ms: int) -> Record:
    """Type 1000 (docs/format.md): the join phase ended."""
    head = V0 + logs.compact("consumer") + struct.pack(">i", generation) + logs.compact("range")
    head += logs.compact(next(iter(members)).split("#")[0]) + struct.pack(">q", at_ms)
    return Record(key=key(1000, group), value=head + _own_members(members) + NO_TAGS)


def rebalance(group: str, ended: int, members: Mapping[str, Assigned], reason: str, at_ms: int) -> Record:
    """Type 1001 (docs/format.md): a rebalance began."""
    head = V0 + logs.compact("consumer") + struct.pack(">i", ended) + logs.compact(None) + logs.compact(None)
    return Record(
        key=key(1001, group),
        value=head + struct.pack(">q", at_ms) + _own_members(members) + logs.compact(reason) + NO_TAGS,
    )


def _own_members(members: Mapping[str, Assigned]) -> bytes:
    out = logs.uvarint(len(members) + 1)
    for name, assigned in members.items():
        member_id, _, instance = name.partition("#")
        out += logs.compact(member_id) + logs.compact(instance or None) + logs.compact("c") + logs.compact("/10.1.1.1")
        out += struct.pack(">ii", 300_000, 45_000) + logs.uvarint(2) + logs.compact("range")
        out += logs.compact(subscription(sorted({*assigned, "t"}))) + logs.compact(plan(assigned)) + NO_TAGS
    return out


def epoch(group: str, number: int) -> Record:
    """Type 3; odd epochs carry the hash of the topics' metadata, as Kafka 4.1 and later do."""
    tags = b"\x01\x00\x08" + struct.pack(">q", number * 7919) if number % 2 else NO_TAGS
    return Record(key=key(3, group), value=V0 + struct.pack(">i", number) + tags)


def topics(group: str, named: Mapping[bytes, tuple[str, int]]) -> Record:
    """Type 4 of Kafka 4.0: id to (name, partitions)."""
    out = V0 + logs.uvarint(len(named) + 1)
    for topic_id, (name, count) in named.items():
        out += topic_id + logs.compact(name) + struct.pack(">i", count) + logs.uvarint(1) + NO_TAGS
    return Record(key=key(4, group), value=out + NO_TAGS)


def member(group: str, member_id: str, names: Sequence[str], instance: str | None = None) -> Record:
    """Type 5."""
    out = V0 + logs.compact(instance) + logs.compact(None) + logs.compact("client") + logs.compact("/10.2.2.2")
    out += logs.uvarint(len(names) + 1) + b"".join(map(logs.compact, names)) + logs.compact("")
    return Record(
        key=key(5, group, member_id), value=out + struct.pack(">i", 300_000) + logs.compact("uniform") + NO_TAGS
    )


def target_epoch(group: str, number: int, at_ms: int | None = None, kind: int = 6) -> Record:
    """Type 6 (12, 20 alike); Kafka 4.3 and later stamp it with the time."""
    tags = NO_TAGS if at_ms is None else b"\x01\x00\x08" + struct.pack(">q", at_ms)
    return Record(key=key(kind, group), value=V0 + struct.pack(">i", number) + tags)


def target(group: str, member_id: str, owned: Owned, kind: int = 7) -> Record:
    """Type 7 (13 alike)."""
    return Record(key=key(kind, group, member_id), value=V0 + _owned(owned) + NO_TAGS)


STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
"""Of Kafka's MemberState."""


def current(group: str, member_id: str, number: int, owned: Owned, revoking: Owned, state: int | None = None) -> Record:
    """Type 8."""
    state = (UNREVOKED if revoking else STABLE) if state is None else state
    head = V0 + struct.pack(">iib", number, number - 1, state)
    return Record(key=key(8, group, member_id), value=head + _owned(owned) + _owned(revoking) + NO_TAGS)


def _owned(owned: Owned) -> bytes:
    out = logs.uvarint(len(owned) + 1)
    for topic_id, numbers in owned.items():
        out += topic_id + logs.uvarint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers) + NO_TAGS
    return out


def share_member(group: str, member_id: str, names: Sequence[str]) -> Record:
    """Type 10."""
    out = V0 + logs.compact(None) + logs.compact("sharer") + logs.compact("/10.3.3.3")
    out += logs.uvarint(len(names) + 1) + b"".join(map(logs.compact, names))
    return Record(key=key(10, group, member_id), value=out + NO_TAGS)


def hashed_epoch(kind: int, group: str, number: int, validated: int | None = None) -> Record:
    """Types 11 and 17; of a Streams group Kafka 4.2 and later add the epoch of the validated topology."""
    tags = NO_TAGS if validated is None else b"\x01\x00\x04" + struct.pack(">i", validated)
    return Record(key=key(kind, group), value=V0 + struct.pack(">iq", number, number * 31) + tags)


def share_current(group: str, member_id: str, number: int, owned: Owned) -> Record:
    """Type 14."""
    head = V0 + struct.pack(">iib", number, number - 1, STABLE)
    return Record(key=key(14, group, member_id), value=head + _owned(owned) + NO_TAGS)


def share_topics(group: str, named: Mapping[bytes, tuple[str, int]]) -> Record:
    """Type 15: all of them have their state."""
    out = V0 + logs.uvarint(1) + logs.uvarint(len(named) + 1)
    for topic_id, (name, count) in named.items():
        out += topic_id + logs.compact(name) + logs.uvarint(count + 1)
        out += struct.pack(f">{count}i", *range(count)) + NO_TAGS
    return Record(key=key(15, group), value=out + logs.uvarint(1) + NO_TAGS)


Tasks = Mapping[str, Sequence[int]]
"""Subtopology to partitions."""


def streams_member(group: str, member_id: str, topology: int, instance: str | None = None) -> Record:
    """Type 19, with an endpoint or without."""
    out = V0 + logs.compact(instance) + logs.compact(None) + logs.compact("streamer") + logs.compact("/10.4.4.4")
    out += struct.pack(">ii", 300_000, topology) + logs.compact("process-1")
    out += b"\xff" if instance else b"\x01" + logs.compact("host") + struct.pack(">H", 65_535) + NO_TAGS
    out += logs.uvarint(2) + logs.compact("zone") + logs.compact("a") + NO_TAGS
    return Record(key=key(19, group, member_id), value=out + NO_TAGS)


def streams_target(group: str, member_id: str, active: Tasks) -> Record:
    """Type 21."""
    return Record(key=key(21, group, member_id), value=V0 + _tasks(active) + _tasks({"0": [7]}) + _tasks({}) + NO_TAGS)


def streams_current(
    group: str, member_id: str, number: int, active: Tasks, revoking: Tasks, state: int = STABLE
) -> Record:
    """Type 22; a standby task beside the active ones."""
    head = V0 + struct.pack(">iib", number, number - 1, state)
    parts = [active, {"0": [7]}, {}, revoking, {}, {}]
    return Record(key=key(22, group, member_id), value=head + b"".join(map(_tasks, parts)) + NO_TAGS)


def topology(group: str, number: int, parts: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> Record:
    """Type 23: subtopology to (source topics, repartition topics)."""
    out = V0 + struct.pack(">i", number) + logs.uvarint(len(parts) + 1)
    for name, (sources, repartitioned) in parts.items():
        out += logs.compact(name) + logs.uvarint(len(sources) + 1) + b"".join(map(logs.compact, sources))
        out += logs.uvarint(1) + logs.uvarint(1) + logs.uvarint(1) + logs.uvarint(len(repartitioned) + 1)
        for topic in repartitioned:
            out += logs.compact(topic) + struct.pack(">ih", 2, 3) + logs.uvarint(1) + NO_TAGS
        out += logs.uvarint(2) + (logs.uvarint(2) + struct.pack(">h", 0)) * 3 + NO_TAGS + NO_TAGS
    return Record(key=key(23, group), value=out + NO_TAGS)


def of_the_future(group: str) -> Record:
    """Type 24 of the Kafka after 4.3."""
    return Record(key=key(24, group), value=V0 + b"\x00\x00\x00\x01\x01\x00")


def _tasks(tasks: Tasks) -> bytes:
    out = logs.uvarint(len(tasks) + 1)
    for name, numbers in tasks.items():
        out += logs.compact(name) + logs.uvarint(len(numbers) + 1)
        out += struct.pack(f">{len(numbers)}i", *numbers) + NO_TAGS
    return out
