"""Records as entries and back; entries of other programs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.redis_streams.entries import NO_ENTRIES, StreamRecord, fields_of, ids_of, record_of, records_of
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.errors import EntryBeyondOffsets

AT = EntryId(1_700_000_000_000, 3)
DATA = st.none() | st.binary(max_size=8)
HEADERS = st.lists(
    st.tuples(st.binary(max_size=4) | st.sampled_from([b"k", b"v", b"t", b"h:", b"null"]), DATA), max_size=4
)


def stored(record: StreamRecord, at: EntryId = AT) -> list[bytes]:
    """As the script stores it."""
    time = [] if record.timestamp_ms == at.milliseconds else [b"t", b"%d" % record.timestamp_ms]
    return [*time, *fields_of(record)]


@given(st.integers(-(2**63), 2**63 - 1) | st.just(AT.milliseconds), DATA, DATA, HEADERS)
def test_every_record_comes_back_as_it_was(time: int, key: bytes | None, value: bytes | None, headers: list) -> None:
    record = StreamRecord(time, key, value, tuple(headers))
    assert record_of(AT, stored(record)) == record
    assert record_of(AT, stored(record), value_field=b"v") == record, "what is ours is no field"


def test_null_empty_and_absent_are_three_things() -> None:
    ways = [StreamRecord(AT.milliseconds, key, value) for key in (None, b"") for value in (None, b"")]
    assert [stored(record) for record in ways] == [
        [b"null", b""],
        [b"v", b""],
        [b"k", b"", b"null", b""],
        [b"k", b"", b"v", b""],
    ]
    assert record_of(AT, [b"k", b"only"]).value == b'[["k","only"]]', "no value at all: not one of ours"


def test_what_a_reader_of_redis_sees_is_plain() -> None:
    record = StreamRecord(5, b"key", b"value", ((b"trace", b"1"), (b"trace", None), (b"\xff", b"")))
    assert stored(record) == [
        b"t", b"5", b"k", b"key", b"v", b"value", b"h:trace", b"1", b"n:trace", b"", b"h:\xff", b"",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        [b"k", b"a", b"v", b"b", b"x", b"c"],
        [b"v", b"a", b"v", b"b"],
        [b"v", b"a", b"k", b"b"],
        [b"k", b"a", b"k", b"b", b"v", b"c"],
        [b"null", b"not empty"],
        [b"v", b"a", b"n:h", b"not empty"],
        [b"v", b"a", b"t", b"5"],
        [b"t", b"5"],
        [b"t", b"soon", b"v", b"a"],
        [b"t", b"05", b"v", b"a"],
        [b"t", b"\xc2\xb2", b"v", b"a"],
        [b"t", b"9223372036854775808", b"v", b"a"],
        [b"t", b"-", b"v", b"a"],
        [b"h:x", b"1"],
        [b"price", b"3", b"note", b"\xff"],
    ],
)
def test_an_entry_of_another_shape_is_somebody_elses_and_comes_whole(fields: list[bytes]) -> None:
    record = record_of(AT, fields)
    assert (record.key, record.timestamp_ms, record.headers) == (None, AT.milliseconds, ())
    assert record.value is not None
    told = json.loads(record.value)
    assert len(told) == len(fields) // 2
    assert [name for name, _ in told] == [name.decode() for name in fields[::2]]


def test_json_keeps_order_and_repetition_and_bytes_that_are_no_text() -> None:
    record = record_of(AT, [b"b", b"1", b"a", b"\xff\x00", b"b", "\u00e9".encode()])
    assert json.loads(record.value or b"") == [["b", "1"], ["a", {"base64": "/wA="}], ["b", "\u00e9"]]


def test_a_declared_field_is_the_value_and_an_entry_without_it_comes_whole() -> None:
    fields = [b"id", b"7", b"body", b"\x00\xff", b"body", b"second"]
    assert record_of(AT, fields, value_field=b"body").value == b"\x00\xff"
    assert record_of(AT, fields, value_field=b"other").value == record_of(AT, fields).value


# -- a list of entries, as `read.lua` tells them

OFFSETS = Offsets.of_bits(10)
TIMES = st.sampled_from(
    [b"0", b"5", b"-5", b"05", b"+5", b"5_0", b" 5", b"", b"soon", b"9" * 18, b"9" * 19, b"-" + b"9" * 18]
)
NAMES = st.sampled_from([b"t", b"k", b"v", b"null", b"h:a", b"n:a", b"x"])
FIELDS = st.lists(st.tuples(NAMES, TIMES), max_size=4).map(lambda pairs: [part for pair in pairs for part in pair])
ENTRIES = st.lists(st.tuples(st.builds(EntryId, st.integers(0, 3), st.integers(0, 1_023)), FIELDS), max_size=12)


def told(entries: list[tuple[EntryId, list[bytes]]]) -> list[Any]:
    return [part for entry, fields in entries for part in (entry.text.encode(), len(fields), *fields)]


@given(ENTRIES, st.none() | st.just(b"x"))
def test_many_entries_are_the_records_of_each(entries: list, value_field: bytes | None) -> None:
    """Ids and times that some have in common, fields of ours and of others."""
    found = list(records_of(told(entries), OFFSETS, "s", value_field))
    assert found == [(OFFSETS.offset_of(at, "s"), record_of(at, fields, value_field)) for at, fields in entries]
    assert [entry for _, entry in ids_of(told(entries))] == [entry for entry, _ in entries]


def test_records_end_at_an_entry_that_has_no_offset() -> None:
    entries = told([(EntryId(5, 3), [b"v", b"a"]), (EntryId(5, 1_024), [b"v", b"b"])])
    records = records_of(entries, OFFSETS, "s")
    assert next(records)[0] == 5 << 10 | 3
    with pytest.raises(EntryBeyondOffsets, match=r"XDEL s 5-1024"):
        next(records)
    (cut,) = (at for at, entry in ids_of(entries) if not OFFSETS.has(entry))
    assert len(list(records_of(entries[:cut], OFFSETS, "s"))) == 1


@pytest.mark.parametrize(
    "entries",
    [
        [b"5-3"],
        [b"5-3", 2, b"v"],
        [b"5-3", -2],
        [b"5-3", b"2", b"v", b"a"],
        [b"5", 2, b"v", b"a"],
        [b"-3", 2, b"v", b"a"],
        [b"5-3", 2, b"v", b"a", b"-3", 2, b"v", b"a"],
        [b"5-3", 2, b"v", b"a", b"5-+3", 2, b"v", b"a"],
        [5, 2, b"v", b"a"],
        [b"5-3", 3, b"k", b"a", b"v"],
        [[b"5-3", [b"v", b"a"]]],
        [None],
    ],
)
def test_what_are_no_entries_is_told_and_ends(entries: list[Any]) -> None:
    with pytest.raises(NO_ENTRIES):
        list(records_of(entries, OFFSETS, "s"))
