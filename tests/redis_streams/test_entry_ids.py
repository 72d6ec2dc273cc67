"""Offsets and entry ids, both ways over 64 bits; the numbers of document 004."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from muster_coordinator.limits import SEQUENCE_BITS_DEFAULT, SEQUENCE_BITS_MAX, SEQUENCE_BITS_MIN
from muster_coordinator.redis_streams.entry_ids import OFFSET_MAX, EntryId, Offsets
from muster_coordinator.redis_streams.errors import EntryBeyondOffsets

U64 = st.integers(0, 2**64 - 1)
OFFSET = st.integers(0, OFFSET_MAX)
BITS = st.integers(SEQUENCE_BITS_MIN, SEQUENCE_BITS_MAX)


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (999_999_999, "976562-511"),  # 004:498
        (1_234_567_890_123, "1205632705-203"),  # 004:511, where the document has 1205632-123
        (1_234_567_890_123 << 10 | 5, "1234567890123-5"),  # 004:232
        (100, "0-100"),  # 004:375
        (0, "0-0"),
        (OFFSET_MAX, f"{2**53 - 1}-1023"),
    ],
)
def test_the_numbers_of_the_document(offset: int, text: str) -> None:
    offsets = Offsets.of_bits(SEQUENCE_BITS_DEFAULT)
    assert offsets.id_of(offset).text == text
    assert offsets.offset_of(EntryId.parse(text.encode()), "s") == offset


@given(OFFSET, BITS)
def test_every_offset_is_one_id_and_back(offset: int, bits: int) -> None:
    offsets = Offsets.of_bits(bits)
    entry = offsets.id_of(offset)
    assert EntryId.parse(entry.text.encode()) == entry
    assert offsets.offset_of(entry, "s") == offset
    # By division, not by bits.
    assert (entry.milliseconds, entry.sequence) == divmod(offset, 2**bits)


@given(OFFSET, OFFSET, BITS)
def test_ids_are_in_the_order_of_their_offsets(a: int, b: int, bits: int) -> None:
    offsets = Offsets.of_bits(bits)
    assert (a < b) == (offsets.id_of(a) < offsets.id_of(b))


@given(U64, U64, BITS)
@example(2**53 - 1, 1023, 10)
@example(2**53, 0, 10)
@example(1, 1024, 10)
def test_an_id_has_an_offset_or_an_error_that_names_it_and_the_cure(ms: int, sequence: int, bits: int) -> None:
    offsets, entry = Offsets.of_bits(bits), EntryId(ms, sequence)
    fits = sequence < 2**bits and ms * 2**bits + sequence < 2**63
    try:
        assert (offsets.offset_of(entry, "orders"), fits) == (ms * 2**bits + sequence, True)
    except EntryBeyondOffsets as error:
        assert not fits
        assert entry.text in str(error)
        assert f"XDEL orders {entry.text}" in str(error)


@given(U64, U64, st.integers(0, 2**50), BITS)
def test_what_is_appended_comes_after_all_there_was_whatever_the_clock_says(
    ms: int, sequence: int, now_ms: int, bits: int
) -> None:
    offsets, last = Offsets.of_bits(bits), EntryId(ms, sequence)
    offset = offsets.first_of_next(last, now_ms)
    assume(offset <= OFFSET_MAX)
    entry = offsets.id_of(offset)
    assert entry > last
    if now_ms > ms:
        assert entry == (now_ms, 0), "the clock's own id when it is ahead"
    elif sequence < offsets.sequence_max:
        assert entry == (ms, sequence + 1), "a clock that stands or steps back goes on from the last id"
    else:
        assert entry == (ms + 1, 0), "a full millisecond moves on"


def test_a_stream_that_never_had_an_entry_ends_at_0_and_any_other_after_its_last_one() -> None:
    offsets = Offsets.of_bits(10)
    assert offsets.end_after(EntryId(0, 0), "s") == 0
    assert offsets.end_after(EntryId(0, 1), "s") == 2
    assert offsets.end_after(EntryId(7, 1023), "s") == 8 << 10
    with pytest.raises(EntryBeyondOffsets):
        offsets.end_after(EntryId(7, 1024), "s")


@pytest.mark.parametrize(
    "text", [b"", b"5", b"-5", b"5-", b"5-x", b"+5-1", b"1-2-3", b"5-18446744073709551616", b"\xb2-1"]
)
def test_what_is_no_id_is_none(text: bytes) -> None:
    with pytest.raises(ValueError, match="no entry id"):
        EntryId.parse(text)


@pytest.mark.parametrize("bits", [SEQUENCE_BITS_MIN - 1, SEQUENCE_BITS_MAX + 1])
def test_bits_have_bounds(bits: int) -> None:
    with pytest.raises(ValueError, match="bits"):
        Offsets.of_bits(bits)
