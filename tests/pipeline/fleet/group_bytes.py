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


def target_epoch(group: str, number: int) -> Record:
    """Type 6."""
    return Record(key=key(6, group), value=V0 + struct.pack(">i", number) + NO_TAGS)


def target(group: str, member_id: str, owned: Owned) -> Record:
    """Type 7."""
    return Record(key=key(7, group, member_id), value=V0 + _owned(owned) + NO_TAGS)


def current(group: str, member_id: str, number: int, owned: Owned, revoking: Owned) -> Record:
    """Type 8."""
    state = 1 if revoking else 0
    head = V0 + struct.pack(">iib", number, number - 1, state)
    return Record(key=key(8, group, member_id), value=head + _owned(owned) + _owned(revoking) + NO_TAGS)


def _owned(owned: Owned) -> bytes:
    out = logs.uvarint(len(owned) + 1)
    for topic_id, numbers in owned.items():
        out += topic_id + logs.uvarint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers) + NO_TAGS
    return out
