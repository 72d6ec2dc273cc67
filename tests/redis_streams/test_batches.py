"""Entries as record batches, read back by a decoder of our own and the checks of a broker."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.records.batch import check, iter_records
from muster_coordinator.redis_streams.batches import DELTA_MAX, batches
from muster_coordinator.redis_streams.entries import StreamRecord
from muster_coordinator.redis_streams.entry_ids import OFFSET_MAX

DATA = st.none() | st.binary(max_size=20)
RECORD = st.builds(
    StreamRecord,
    st.integers(-(2**63), 2**63 - 1),
    DATA,
    DATA,
    st.lists(st.tuples(st.text(max_size=3).map(str.encode), DATA), max_size=3).map(tuple),
)
OFFSETS = st.lists(st.integers(0, OFFSET_MAX) | st.integers(0, 2**33), unique=True, max_size=8).map(sorted)


@given(OFFSETS, st.data(), st.integers(0, 200))
def test_every_record_has_its_own_offset_whatever_lies_between(
    offsets: list[int], data: st.DataObject, most: int
) -> None:
    entries = [(offset, data.draw(RECORD)) for offset in offsets]
    found = []
    for one in batches(entries, leader_epoch=7, bytes_max=most):
        header = check(one)
        assert (header.leader_epoch, header.producer_id, header.base_sequence) == (7, -1, -1)
        records = list(iter_records(one))
        assert (header.base_offset, header.next_offset) == (records[0].offset, records[-1].offset + 1)
        assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
        assert len(records) == 1 or len(one) <= most + 61
        found += records
    assert [
        (r.offset, StreamRecord(r.timestamp_ms, r.key, r.value, tuple((n.encode(), v) for n, v in r.headers)))
        for r in found
    ] == entries


@pytest.mark.parametrize(("gap", "count"), [(DELTA_MAX, 1), (DELTA_MAX + 1, 2)])
def test_a_batch_is_cut_where_an_offset_delta_would_not_fit(gap: int, count: int) -> None:
    record = StreamRecord(1, None, b"v")
    found = list(batches([(5, record), (5 + gap, record)], leader_epoch=0))
    assert len(found) == count
    assert struct.unpack_from(">i", found[0], 23) == (gap if count == 1 else 0,)


def test_names_of_headers_may_be_any_bytes() -> None:
    (one,) = batches([(1, StreamRecord(1, None, b"v", ((b"\xff\xfe", b"x"),)))], leader_epoch=0)
    assert one.endswith(b"\x02\x04\xff\xfe\x02x")


def test_no_entries_are_no_batch() -> None:
    assert list(batches([], leader_epoch=0)) == []
