"""Damaged bytes are found, told apart from sound ones, and cost only the batches they lie in."""

import random
import struct
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.pipeline import logs
from tests.pipeline.decoding import Result, decode

EPOCH_AT = range(12, 16)


def batches(count: int = 24) -> list[logs.Batch]:
    """A log without gaps: several codecs, epochs that rise, one to five records a batch."""
    made = []
    for n in range(count):
        records = [logs.commit(f"g{n}", "topic", k, 1000 * n + k) for k in range(1 + n % 5)]
        made.append(logs.Batch(records=records, codec=n % 5, epoch=n // 8, timestamp_ms=logs.NOW_MS + n))
    return made


def parts(written: list[logs.Batch]) -> tuple[list[bytes], list[list[int]], int]:
    """(bytes of each batch, offsets of each batch, offset behind the last)."""
    encoded, offsets = [], []
    for batch in logs.placed(written):
        encoded.append(logs.encode(batch, batch.base))
        offsets.append(list(range(batch.base, batch.base + len(batch.records))))
    return encoded, offsets, offsets[-1][-1] + 1


def flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def expected_without(offsets: list[list[int]], lost: set[int]) -> list[int]:
    return [offset for n, group in enumerate(offsets) if n not in lost for offset in group]


@pytest.mark.parametrize("victim", [0, 1, 7, 8, 22, 23])
def test_every_single_bit_flip_costs_exactly_its_batch(victim: int) -> None:
    """All bits of a header and some of the records; in a sealed segment, at its start, middle and end.

    A leader epoch that is still in order after the flip cannot be told from a right one, and changes nothing else.
    """
    encoded, offsets, end = parts(batches())
    whole = decode(b"".join(encoded), next_base=end)
    start = 8 * sum(map(len, encoded[:victim]))
    bits = [*range(8 * logs.HEADER_BYTES)]
    bits += random.Random(victim).sample(range(8 * logs.HEADER_BYTES, 8 * len(encoded[victim])), 60)
    for bit in bits:
        found = decode(flipped(b"".join(encoded), start + bit), next_base=end)
        if bit // 8 in EPOCH_AT and not found.damages:
            assert found.table.drop_columns("leader_epoch").equals(whole.table.drop_columns("leader_epoch")), bit
            continue
        assert found.offsets == expected_without(offsets, {victim}), f"bit {bit}"
        assert sum(damage.byte_count for damage in found.damages) == len(encoded[victim]), f"bit {bit}"


def test_reasons_are_told() -> None:
    encoded, _, end = parts(batches())
    at = 8 * sum(map(len, encoded[:10]))
    reasons = {
        "continuity": 8 * 6,  # base offset
        "framing": 8 * 16,  # magic
        "epoch": 8 * 12 + 6,  # leader epoch, high
        "crc": 8 * 70,
    }
    for reason, bit in reasons.items():
        (damage,) = decode(flipped(b"".join(encoded), at + bit), next_base=end).damages
        assert damage.reason == reason
        assert damage.raw == flipped(encoded[10], bit)
        assert damage.byte_from == at // 8


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 400), st.integers(0, 3)), min_size=1, max_size=6),
    st.booleans(),
)
@example(spots=[(0, 400, 0), (100, 1, 3)], sealed=True)
@settings(max_examples=150, deadline=None)
def test_intact_batches_survive_any_damage_around_them(spots: list[tuple[int, int, int]], sealed: bool) -> None:
    encoded, offsets, end = parts(batches(40))
    original = b"".join(encoded)
    data = bytearray(original)
    for at, size, kind in spots:
        at %= len(data)
        stop = min(at + size, len(data))
        noise = random.Random(at * size)
        data[at:stop] = (
            bytes(stop - at) if kind == 0 else b"\xff" * (stop - at) if kind == 1 else noise.randbytes(stop - at)
        )
    lost, at = set(), 0
    for number, part in enumerate(encoded):
        if data[at : at + len(part)] != part:
            lost.add(number)
        at += len(part)
    found = decode(bytes(data), next_base=end if sealed else None)
    assert set(expected_without(offsets, lost)) <= set(found.offsets)
    assert found.account.balanced()
    assert found.account.bytes_in == len(data)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_torn_tail_is_pending_in_the_active_segment_and_damage_in_a_sealed_one(sealed: bool) -> None:
    encoded, offsets, end = parts(batches(4))
    data = b"".join(encoded)
    kept = len(data) - len(encoded[-1])
    for cut in range(kept, len(data)):
        found = decode(data[:cut], next_base=end if sealed else None)
        assert found.offsets == expected_without(offsets, {3})
        pending, lost = (0, cut - kept) if sealed else (cut - kept, 0)
        assert (found.account.bytes_pending, found.account.bytes_quarantined) == (pending, lost)
        assert [damage.reason for damage in found.damages] == ["truncated"] * bool(lost)


def test_a_length_that_reaches_beyond_the_file_does_not_swallow_what_follows() -> None:
    encoded, offsets, _ = parts(batches())
    torn = encoded[5][:8] + struct.pack(">i", 1 << 20) + encoded[5][12:]
    found = decode(b"".join([*encoded[:5], torn, *encoded[6:]]))
    assert found.offsets == expected_without(offsets, {5})
    assert [damage.reason for damage in found.damages] == ["framing"]
    assert found.account.bytes_pending == 0


@pytest.mark.parametrize("zeros", [1, 60, 61, 5000])
def test_preallocated_zeros_are_pending_at_the_end_and_damage_elsewhere(
    zeros: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster_pipeline.decode.segment.WINDOW_BYTES", 700)
    encoded, offsets, end = parts(batches(8))
    active = decode(b"".join(encoded) + bytes(zeros))
    assert (active.damages, active.account.bytes_pending) == ([], zeros)
    sealed = decode(b"".join(encoded) + bytes(zeros), next_base=end)
    assert sealed.account.bytes_quarantined == zeros
    amid = decode(b"".join([*encoded[:4], bytes(zeros), *encoded[4:]]))
    assert amid.offsets == active.offsets == expected_without(offsets, set())
    assert amid.account.bytes_quarantined == zeros


def test_damage_over_many_windows_ends_at_the_next_sound_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_pipeline.decode.segment.WINDOW_BYTES", 700)
    encoded, offsets, end = parts(batches())
    noise = random.Random(1).randbytes(20_000)
    found = decode(b"".join([*encoded[:6], noise, *encoded[6:]]), next_base=end)
    assert found.offsets == expected_without(offsets, set())
    assert found.account.bytes_quarantined == len(noise)


def test_a_batch_hidden_in_the_metadata_of_a_damaged_one_is_not_taken_for_real() -> None:
    hidden = logs.encode(logs.Batch(records=[logs.commit("intruder", "t", 0, 1)]), 100)
    carrier = logs.Record(
        key=logs.commit_key("g", "t", 0), value=struct.pack(">hqih", 3, 1, -1, len(hidden)) + hidden + bytes(8)
    )
    first, last = logs.Batch(records=[carrier]), logs.Batch(records=[logs.commit("after", "t", 0, 2)])
    encoded, _, end = parts([first, last])
    torn = flipped(encoded[0], 8 * 30)
    found = decode(torn + encoded[1], next_base=end)
    assert [row["group_id"] for row in found.rows] == ["after"]
    assert found.account.bytes_quarantined == len(torn)


def test_batches_out_of_their_segment_are_not_rows() -> None:
    inside = logs.log_of([logs.Batch(records=[logs.commit("g", "t", 0, 1)])], base=500)
    beyond = logs.log_of([logs.Batch(records=[logs.commit("g", "t", 0, 2)])], base=900)
    before = logs.log_of([logs.Batch(records=[logs.commit("g", "t", 0, 3)])], base=400)
    found = decode(before + inside + beyond, base=500, next_base=800)
    assert found.offsets == [500]
    assert [damage.reason for damage in found.damages] == ["continuity", "continuity"]


def one(records: list[logs.Record], **shape: object) -> bytes:
    return logs.encode(logs.Batch(records=records, **shape), 0)  # type: ignore[arg-type]


GOOD = logs.commit("g", "t", 0, 1)
COUNT_AT, LAST_DELTA_AT, ATTRIBUTES_AT = 57, 23, 21


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (logs.resealed(one([GOOD, GOOD]), COUNT_AT, struct.pack(">i", 1)), "records"),
        (logs.resealed(one([GOOD], end_gap=5), COUNT_AT, struct.pack(">i", 2)), "records"),
        (logs.resealed(one([GOOD, GOOD]), LAST_DELTA_AT, struct.pack(">i", 0)), "framing"),
        (logs.resealed(one([GOOD], end_gap=1 << 24), COUNT_AT, struct.pack(">i", 1 << 24)), "framing"),
        (logs.resealed(one([GOOD]), ATTRIBUTES_AT, b"\x01\x00"), "framing"),
        (logs.resealed(one([GOOD]), ATTRIBUTES_AT, b"\x00\x05"), "framing"),
        (logs.resealed(one([GOOD]), ATTRIBUTES_AT, b"\x00\x01"), "codec"),
        (logs.resealed(one([GOOD]), ATTRIBUTES_AT, b"\x00\x02"), "codec"),
        (logs.resealed(one([GOOD]), ATTRIBUTES_AT, b"\x00\x03"), "codec"),
        (logs.resealed(one([GOOD]), ATTRIBUTES_AT, b"\x00\x04"), "codec"),
        (logs.resealed(one([GOOD]), logs.HEADER_BYTES, b"\x01"), "records"),
        (logs.resealed(one([GOOD]), logs.HEADER_BYTES, b"\xff\xff\xff\xff\xff\x7f"), "records"),
    ],
)
@pytest.mark.parametrize("around", [0, 40])
def test_what_a_fitting_crc_hides_is_found(data: bytes, reason: str, around: int) -> None:
    """Writers make mistakes, too. `around`: enough neighbours for the lock-step path."""
    neighbours = [
        logs.Batch(records=[logs.commit("n", "t", n, n)] * (1 + around // 8), base=1 << 25) for n in range(around)
    ]
    found = decode(data + logs.log_of(neighbours, base=1 << 25))
    assert len(found.rows) == around * (1 + around // 8)
    assert [damage.reason for damage in found.damages] == [reason]
    assert found.account.bytes_quarantined == len(data)


BAD_RECORDS = [
    ("key_schema", logs.Record(key=None, value=b"x")),
    ("key_schema", logs.Record(key=b"\x00", value=b"x")),
    ("key_schema", logs.Record(key=logs.commit_key("g", "t", 0) + b"!", value=logs.commit_value(1))),
    ("key_schema", logs.Record(key=logs.commit_key("g", "t", 0)[:-1], value=logs.commit_value(1))),
    ("key_schema", logs.Record(key=b"\x00\x01\xff\xff\x00\x01t\x00\x00\x00\x00", value=logs.commit_value(1))),
    ("key_schema", logs.Record(key=b"\x00\x01\x7f\xffg", value=logs.commit_value(1))),
    ("key_schema", logs.Record(key=b"\x00\x02\x00\x05g", value=None)),
    ("key_schema", logs.Record(key=b"\x00\x05\x00\x01g", value=None)),
    ("key_schema", logs.Record(key=b"\x00\x08\x00\x01g\x00\x01m!", value=None)),
    ("utf8", logs.Record(key=b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x00", value=logs.commit_value(1))),
    ("utf8", logs.Record(key=b"\x00\x02\x00\x01\xc0", value=None)),
    (
        "utf8",
        logs.Record(key=logs.commit_key("g", "t", 0), value=logs.commit_value(1)[:14] + b"\x00\x01\xff" + bytes(8)),
    ),
    ("value_schema", logs.Record(key=logs.commit_key("g", "t", 0), value=b"")),
    ("value_schema", logs.Record(key=logs.commit_key("g", "t", 0), value=b"\x00")),
    ("value_schema", logs.Record(key=logs.commit_key("g", "t", 0), value=b"\x00\x05" + logs.commit_value(1)[2:])),
    ("value_schema", logs.Record(key=logs.commit_key("g", "t", 0), value=b"\xff\xff" + logs.commit_value(1)[2:])),
    ("value_schema", logs.Record(key=logs.commit_key("g", "t", 0), value=logs.commit_value(1) + b"!")),
    ("value_schema", logs.Record(key=logs.commit_key("g", "t", 0), value=logs.commit_value(1)[:-1])),
    ("value_schema", logs.Record(key=logs.commit_key("g", "t", 0), value=logs.commit_value(1, version=4)[:-1])),
    ("value_schema", logs.Record(key=logs.commit_key("g", "t", 0), value=logs.commit_value(1, version=4) + b"\x00")),
    (
        "value_schema",
        logs.Record(key=logs.commit_key("g", "t", 0), value=logs.commit_value(1, version=4, topic_id=b"15")),
    ),
]


@pytest.mark.parametrize("number", range(len(BAD_RECORDS)))
def test_a_record_that_breaks_its_schema_costs_itself_alone(number: int) -> None:
    reason, record = BAD_RECORDS[number]
    data = logs.log_of([logs.Batch(records=[GOOD, record, GOOD]), logs.Batch(records=[GOOD])])
    found = decode(data)
    assert found.offsets == [0, 2, 3]
    (damage,) = found.damages
    assert (damage.scope, damage.reason, damage.first_offset, damage.byte_count) == ("record", reason, 1, 0)
    assert record.key is None or record.key in (damage.raw or b"")
    assert found.account.bytes_decoded == len(data)
    assert found.account.records_quarantined == 1


def test_a_control_record_without_a_type_is_not_a_marker() -> None:
    short = logs.Record(key=b"\x00\x00", value=b"")
    data = logs.log_of([logs.Batch(records=[short], control=True, transactional=True)])
    assert [(damage.scope, damage.reason) for damage in decode(data).damages] == [("record", "key_schema")]


@given(st.binary(max_size=3000), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_bytes_give_an_answer_that_adds_up(noise: bytes, sealed: bool) -> None:
    head = logs.log_of(batches(3))
    found: Result = decode(head + noise, next_base=1000 if sealed else None)
    assert found.account.balanced()
    assert found.offsets[:6] == list(range(6))


def test_damaged_neighbours_longer_than_the_look_back_are_still_told_from_what_follows() -> None:
    """Forty batches with a base offset far too high in a row; the rest of the log goes on as if they were not there."""
    written = logs.placed(batches(140))
    data = b"".join(
        logs.encode(batch, batch.base + (1 << 30 if 50 <= n < 60 else 0)) for n, batch in enumerate(written)
    )
    found = decode(data, next_base=written[-1].base + len(written[-1].records))
    lost = {offset for batch in written[50:60] for offset in range(batch.base, batch.base + len(batch.records))}
    assert set(found.offsets) == set(range(written[-1].base + len(written[-1].records))) - lost
    assert replace(written[0]).base == 0
