"""Packed offsets: decision 20, format, copy on write, memory."""

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.groups import limits
from muster_coordinator.groups.state.offset_row import (
    NO_TOPIC_ID,
    CommittedOffset,
    commit_timestamp_of,
    encode_row,
    expire_timestamp_of,
    fetched_fields,
    lifetime_of,
    record_offset_of,
    topic_id_of,
)
from muster_coordinator.groups.state.offset_table import OffsetTable, packed_count, packed_oldest_ms, unpack
from muster_coordinator.groups.state.offsets_store import OffsetsStore

I64 = st.integers(-(2**63), 2**63 - 1)
ROWS = st.builds(
    CommittedOffset,
    record_offset=st.integers(0, 2**62),
    offset=I64,
    leader_epoch=st.integers(-1, 2**31 - 1),
    commit_timestamp_ms=I64,
    metadata=st.text(max_size=20),
    expire_timestamp_ms=I64,
    topic_id=st.sampled_from([NO_TOPIC_ID, b"\7" * 16]),
)


def row(offset: int = 1, timestamp: int = 1_000, **how) -> bytes:
    return encode_row(CommittedOffset(0, offset, -1, timestamp, **{"metadata": "", **how}))


def count(store: OffsetsStore) -> int:
    return sum(store.size(group) for group in store.groups())


def remove_all(store: OffsetsStore, group: str) -> None:
    table = store.peek(group)
    for topic, partition, _ in [] if table is None else list(table.rows()):
        store.remove(group, topic, partition)


@settings(deadline=None)
@given(ROWS)
def test_row_round_trip_and_every_short_cut(value):
    data = encode_row(value)
    assert fetched_fields(data) == (value.offset, value.leader_epoch, value.metadata)
    assert record_offset_of(data) == value.record_offset
    assert commit_timestamp_of(data) == value.commit_timestamp_ms
    assert expire_timestamp_of(data) == value.expire_timestamp_ms
    assert lifetime_of(data) == (value.commit_timestamp_ms, value.expire_timestamp_ms != -1)
    assert topic_id_of(data) == value.topic_id


KEYS = st.tuples(st.sampled_from(["a", "b", "ü", "aa"]), st.integers(-1, 3))


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, st.none() | st.builds(row, st.integers(0, 9), st.integers(0, 99))), max_size=40))
def test_packed_bytes_depend_on_the_content_only(steps):
    table = OffsetTable(0)
    model: dict[tuple[str, int], bytes] = {}
    for (topic, partition), data in steps:
        if data is None:
            assert table.remove(topic, partition) == ((topic, partition) in model)
            model.pop((topic, partition), None)
        else:
            assert table.put_all([(topic, partition, data)]) == ((topic, partition) not in model)
            model[topic, partition] = data
        assert table.count == len(model)
    fresh = OffsetTable(5)
    for (topic, partition), data in sorted(model.items(), reverse=True):
        fresh.put_all([(topic, partition, data)])
    packed = table.pack()
    assert packed == fresh.pack() == unpack(packed, 0).pack()
    assert {(t, p): data for t, p, data in unpack(packed, 0).rows()} == model
    assert packed_count(packed) == len(model)
    oldest, expires = packed_oldest_ms(packed)
    assert not expires
    assert oldest == min((commit_timestamp_of(data) for data in model.values()), default=2**63 - 1)


def test_damaged_packed_bytes_are_not_taken_for_a_table():
    table = OffsetTable(0)
    table.put_all([("t", 0, row())])
    packed = bytearray(table.pack())
    packed[3] = 7
    with pytest.raises(AssertionError):
        unpack(bytes(packed), 0)


def test_a_snapshot_never_changes():
    store = OffsetsStore()
    for partition in range(3):
        store.put("g", "t", partition, row(partition))
    snapshot = store.snapshot()
    before = snapshot["g"].pack()
    store.put("g", "t", 0, row(99))
    store.remove("g", "t", 1)
    store.put("h", "t", 0, row())
    remove_all(store, "g")
    assert snapshot["g"].pack() == before
    assert snapshot.keys() == {"g"}
    assert store.snapshot().keys() == {"h"}


def test_groups_that_nobody_touches_are_packed_and_come_back(monkeypatch):
    monkeypatch.setattr(limits, "UNPACKED_OFFSETS_MAX", 100)
    store = OffsetsStore()
    for number in range(200):
        for partition in range(10):
            store.put(f"g{number}", "t", partition, row(number))
    packed = sum(isinstance(found, bytes) for found in store.snapshot().values())
    assert packed >= 150
    assert count(store) == 2_000
    for number in (0, 7, 199):
        assert fetched_fields(store.get(f"g{number}", "t", 9))[0] == number
    store.put("g0", "t", 10, row(5))
    assert store.size("g0") == 11
    for number in range(200):
        remove_all(store, f"g{number}")
    assert (count(store), store._unpacked, len(store._hand), len(store)) == (0, 0, 0, 0)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "remove", "drop", "snapshot", "read"]),
            st.sampled_from(["g", "h", "i"]),
            st.integers(0, 4),
        ),
        max_size=80,
    )
)
def test_store_behaves_as_a_plain_dict(steps):
    store = OffsetsStore()
    model: dict[tuple[str, int], bytes] = {}
    snapshots = []
    original = limits.UNPACKED_OFFSETS_MAX
    limits.UNPACKED_OFFSETS_MAX = 3
    try:
        for number, (action, group, partition) in enumerate(steps):
            if action == "put":
                model[group, partition] = row(number)
                store.put(group, "t", partition, row(number))
            elif action == "remove":
                model.pop((group, partition), None)
                store.remove(group, "t", partition)
            elif action == "drop":
                model = {key: data for key, data in model.items() if key[0] != group}
                remove_all(store, group)
            elif action == "snapshot":
                snapshots.append((store.snapshot(), dict(model)))
            assert store.get(group, "t", partition) == model.get((group, partition))
            assert count(store) == len(model)
            assert store.size(group) == sum(key[0] == group for key in model)
            assert (group in store) == any(key[0] == group for key in model)
        for snapshot, then in snapshots:
            found = {}
            for group, held in snapshot.items():
                table = unpack(held, 0) if isinstance(held, bytes) else held
                found.update({(group, partition): data for _, partition, data in table.rows()})
            assert found == then
    finally:
        limits.UNPACKED_OFFSETS_MAX = original


def bytes_per_offset(groups: int, partitions: int) -> float:
    gc.collect()
    tracemalloc.start()
    store = OffsetsStore()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(groups):
        for partition in range(partitions):
            data = row(partition, 1_700_000_000_000, topic_id=b"\7" * 16)
            store.put(f"group-{number}", "orders", partition, data)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert count(store) == groups * partitions
    return used / (groups * partitions)


@pytest.mark.parametrize(
    ("unpacked_max", "partitions", "bytes_max"), [(10**9, 100, 140), (10**9, 12, 180), (0, 100, 70), (0, 12, 100)]
)
def test_an_offset_costs_about_150_bytes_while_touched_and_100_packed(monkeypatch, unpacked_max, partitions, bytes_max):
    monkeypatch.setattr(limits, "UNPACKED_OFFSETS_MAX", unpacked_max)
    assert bytes_per_offset(20_000 // partitions, partitions) <= bytes_max


def test_million_offsets_are_invisible_to_the_garbage_collector():
    gc.collect()
    before = len(gc.get_objects())
    store = OffsetsStore()
    for number in range(300):
        for partition in range(100):
            store.put(f"group-{number}", "orders", partition, row(partition))
    assert len(gc.get_objects()) - before < 1_000


def test_changes_are_noted_once_each_and_only_while_somebody_asks():
    store = OffsetsStore()
    store.put("g", "t", 0, row())
    assert store.changes is None
    store.changes = {}
    store.put_all("g", [("t", 1, row()), ("t", 0, row(2)), ("t", 1, row(3))])
    store.remove("g", "t", 0)
    store.remove("g", "u", 7)
    store.remove("never", "t", 0)
    assert list(store.changes) == [("g", "t", 1), ("g", "t", 0), ("g", "u", 7)]


def test_a_packed_group_that_is_looked_at_again_and_again_is_unpacked_once():
    """And never shown as it was before it changed."""
    first, second = OffsetsStore(), OffsetsStore()
    for number in range(50):
        first.put("g", "t", number, row(number))
    second.restore("g", first.snapshot()["g"].pack())
    second.restore("h", first.snapshot()["g"].pack())
    peeked = second.peek("g")
    assert second.peek("g") is peeked
    assert second.peek("h") is not peeked
    second.put("g", "t", 0, row(99))
    assert fetched_fields(second.peek("g").get("t", 0))[0] == 99
    assert fetched_fields(second.peek("h").get("t", 0))[0] == 0
