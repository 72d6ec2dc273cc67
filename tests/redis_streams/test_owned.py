"""What one answer of `read.lua` says of a partition: its ends, and what it reads from where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.redis_streams.append_ids import NO_APPEND, AppendId
from muster_coordinator.redis_streams.entry_ids import OFFSET_MAX, EntryId, Offsets
from muster_coordinator.redis_streams.errors import EntryBeyondOffsets
from muster_coordinator.redis_streams.owned import (
    Claim,
    before,
    from_offset,
    hidden_from,
    last_before,
    read_arguments,
    seen,
    shown,
)

OFFSETS = Offsets.of_bits(10)


@pytest.mark.parametrize(
    ("last", "kept", "first", "bounds"),
    [
        (b"0-0", b"", b"", (0, 0)),
        (b"5-3", b"", b"", (0, 5 << 10 | 4)),
        (b"5-1023", b"", b"", (0, 6 << 10)),
        (b"5-3", b"", b"5-1", (5 << 10 | 1, 5 << 10 | 4)),
        (b"5-3", b"5-2", b"5-1", (5 << 10 | 2, 5 << 10 | 4)),
        (b"5-3", b"5-2", b"5-3", (5 << 10 | 3, 5 << 10 | 4)),
        (b"5-3", b"", b"0-0", (5 << 10 | 4, 5 << 10 | 4)),
        (b"5-9999", b"", b"", (0, 6 << 10)),
        (b"5-9999", b"", b"5-9999", (6 << 10, 6 << 10)),
        (b"0-0", b"7-0", b"", (7 << 10, 7 << 10)),
    ],
)
def test_the_ends_of_a_log(last: bytes, kept: bytes, first: bytes, bounds: tuple[int, int]) -> None:
    found = seen([b"OK", last, kept, first, b"", b"", []], OFFSETS, "s")
    assert (found.log_start, found.end) == (found.log_start, found.log_end) == bounds


def test_after_an_id_at_the_end_of_time_there_is_no_offset() -> None:
    with pytest.raises(EntryBeyondOffsets, match=r"s has had entry 18446744073709551615-1"):
        seen([b"OK", b"%d-1" % (2**64 - 1), b"", b"", b"", b"", []], OFFSETS, "s")


@pytest.mark.parametrize(
    ("last", "proved", "appended", "proved_end"),
    [
        (b"", b"", NO_APPEND, 5 << 10 | 4),
        (b"3 7 5-3", b"", AppendId(3, 7), 5 << 10 | 4),
        (b"3 7 5-3", b"5-1", AppendId(3, 7), 5 << 10 | 2),
        (b"3 7 5-3", b"4-1023", AppendId(3, 7), 5 << 10),
        (b"3 7 5-3", b"4-5000", AppendId(3, 7), 5 << 10),
        (b"3 7 5-3", b"0-0", AppendId(3, 7), 0),
    ],
)
def test_the_end_of_what_is_proved(last: bytes, proved: bytes, appended: AppendId, proved_end: int) -> None:
    found = seen([b"OK", b"5-3", b"", b"", last, proved, []], OFFSETS, "s")
    assert (found.appended, found.proved_end, found.end) == (appended, proved_end, 5 << 10 | 4)


@pytest.mark.parametrize(
    ("end", "told", "ids"),
    [
        (5 << 10 | 4, 5 << 10 | 4, [b"5-1", b"5-2", b"5-3"]),
        (5 << 10 | 3, 5 << 10 | 3, [b"5-1", b"5-2"]),
        (0, 5 << 10 | 1, []),
        (9 << 10, 5 << 10 | 4, [b"5-1", b"5-2", b"5-3"]),
    ],
)
def test_a_high_watermark_is_between_start_and_end_and_hides_what_is_not_before_it(
    end: int, told: int, ids: list[bytes]
) -> None:
    entries = [part for entry in (b"5-1", b"5-2", b"5-3") for part in (entry, 2, b"v", b"x")]
    whole = seen([b"OK", b"5-3", b"", b"5-1", b"3 7 5-1", b"", entries], OFFSETS, "s")
    found = hidden_from(whole, end)
    assert (found.end, found.log_end, found.whole) == (told, whole.log_end, told == whole.log_end)
    assert list(shown(found, OFFSETS)[::4]) == ids


@given(st.integers(0, OFFSET_MAX), st.integers(1, 20), st.integers(0, 2**20))
def test_a_read_begins_where_no_entry_at_or_after_the_offset_is_left_out(offset: int, bits: int, near: int) -> None:
    """XRANGE's own rule: "(" leaves the id itself out. The entry of the offset, and any without one before it, is in;
    that of the offset before is not."""
    offsets = Offsets.of_bits(bits)
    begin = from_offset(offset, offsets)
    if offset == 0:
        assert begin == b"-"
        return
    assert begin[:1] == b"("
    after = EntryId.parse(begin[1:])
    assert offsets.id_of(offset - 1) == after < offsets.id_of(offset)
    before = EntryId(offsets.id_of(offset).milliseconds - 1, offsets.sequence_max + 1 + near)
    if before.milliseconds >= after.milliseconds:
        assert before > after, "what has no offset and lies just before is met"


def test_arguments_are_decimal() -> None:
    assert read_arguments(7, b"-", 5_000, 1, NO_APPEND) == [b"7", b"-", b"5000", b"1", b"+", b"-1", b"-1"]
    told = read_arguments(7, b"-", 5_000, 1, AppendId(3, 2), before(5 << 10 | 3, OFFSETS))
    assert told[4:] == [b"(5-3", b"3", b"2"]
    assert before(0, OFFSETS) == b"0-0", "before which there is nothing"
    assert Claim("id", 7, 9).arguments() == [b"id", b"7", b"9"]
    assert last_before(5 << 10 | 3, OFFSETS) == b"last (5-3"
