"""Folders of offsets-log segments with everything in them, made of bytes: three log partitions."""

import struct
from collections.abc import Sequence
from pathlib import Path

from tests.pipeline import logs
from tests.pipeline.logs import NOW_MS, Batch, Record

MINUTE_MS = 60_000
Assigned = dict[str, list[int]]


def plan(assigned: Assigned) -> bytes:
    """ConsumerProtocolAssignment v0."""
    parts = [struct.pack(">hi", 0, len(assigned))]
    parts += [
        logs.text(topic) + struct.pack(f">{1 + len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in assigned.items()
    ]
    return b"".join([*parts, struct.pack(">i", -1)])


def subscription(topics: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription v0."""
    return b"".join([struct.pack(">hi", 0, len(topics)), *map(logs.text, topics), struct.pack(">i", -1)])


def generation(group: str, number: int, members: dict[str, Assigned], protocol: str = "range", at: int = 0) -> Record:
    """GroupMetadata v3; a member named with '#' is static: 'id#instance'."""
    topics = sorted({topic for assigned in members.values() for topic in assigned} | {"t"})
    value = [struct.pack(">h", 3), logs.text("consumer"), struct.pack(">i", number)]
    leader = next(iter(members), None)
    value += [logs.text(protocol if members else None), logs.text(leader and leader.split("#")[0])]
    value.append(struct.pack(">qi", NOW_MS + at, len(members)))
    for name, assigned in members.items():
        member_id, _, instance = name.partition("#")
        value += [logs.text(member_id), logs.text(instance or None), logs.text("client"), logs.text("/10.0.0.1")]
        value += [struct.pack(">ii", 300_000, 45_000), logs.blob(subscription(topics)), logs.blob(plan(assigned))]
    return Record(key=struct.pack(">h", 2) + logs.text(group), value=b"".join(value))


def commits(minutes: int, groups: Sequence[str], partitions: int) -> list[Batch]:
    """Every group commits every partition of topic t once a minute."""
    return [
        Batch(
            records=[logs.commit(group, "t", p, 10 * minute + p) for p in range(partitions)],
            timestamp_ms=NOW_MS + minute * MINUTE_MS,
        )
        for minute in range(minutes)
        for group in groups
    ]


def write(root: Path, log_partition: int, segments: Sequence[Sequence[Batch]], damage: bytes = b"") -> None:
    """The segments one after another; `damage` stands before the last batch's bytes of the first segment."""
    folder = root / f"__consumer_offsets-{log_partition}"
    folder.mkdir(parents=True)
    base = 0
    for number, batches in enumerate(segments):
        data = logs.log_of(batches, base)
        if damage and number == 0:
            cut = len(logs.log_of(batches[:-1], base))
            data = data[:cut] + damage + data[cut:]
        (folder / f"{base:020}.log").write_bytes(data)
        placed = logs.placed(batches, base)
        base = next_offset(placed, base)


def next_offset(batches: Sequence[Batch], base: int) -> int:
    """The offset behind the last batch."""
    data = logs.log_of(batches, base)
    at, last = 0, base
    while at < len(data):
        first, length = struct.unpack_from(">qi", data, at)
        last = first + struct.unpack_from(">i", data, at + 23)[0] + 1
        at += 12 + length
    return last


def make(root: Path) -> None:
    """A folder that a test can ingest."""
    history = [
        Batch(records=[generation("orders", 1, {"a#i-1": {"t": [0, 1]}})], timestamp_ms=NOW_MS + 100),
        *commits(4, ["orders", "plain"], 3),
        Batch(records=[generation("orders", 2, {"a#i-1": {"t": [0]}, "b": {"t": [1, 2]}}, at=200_000)],
              timestamp_ms=NOW_MS + 240_000),
        Batch(records=[generation("orders", 2, {"c#i-1": {"t": [0]}, "b": {"t": [1, 2]}}, at=200_000)],
              timestamp_ms=NOW_MS + 250_000),
        Batch(records=[generation("orders", 3, {"b": {"t": [0, 1, 2]}}, at=290_000)], timestamp_ms=NOW_MS + 300_000),
    ]  # fmt: skip
    transaction = [
        Batch(records=[logs.commit("txn", "t", 0, 5)], transactional=True, producer_id=9, producer_epoch=0),
        Batch(records=[logs.commit("txn", "t", 0, 4)], timestamp_ms=NOW_MS + 1),
        Batch(records=[logs.marker(1)], transactional=True, control=True, producer_id=9, producer_epoch=0),
        Batch(records=[logs.commit("txn", "t", 1, 7)], transactional=True, producer_id=9, producer_epoch=0),
        Batch(records=[logs.marker(1)], transactional=True, control=True, producer_id=9, producer_epoch=0),
        Batch(records=[logs.commit("txn", "t", 2, 8)], transactional=True, producer_id=10, producer_epoch=0),
    ]
    write(root, 0, [history[:5], history[5:]], damage=b"\x00garbage that is no batch" * 3)
    write(root, 7, [transaction, commits(3, ["ü:x", "late"], 2)])
    write(root, 23, [commits(30, [f"g{number}" for number in range(20)], 8)])
