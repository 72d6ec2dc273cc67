"""The fast reader of commit batches against the general one: equal or silent, whatever the bytes."""

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from muster_coordinator.groups.effects import AppliedBatch
from muster_coordinator.groups.log.plain_commits import plain_commits
from muster_coordinator.groups.log.replay import replay_batch
from muster_coordinator.groups.state.offset_row import CommittedOffset, encode_row
from muster_coordinator.groups.state.shard_state import ShardState
from muster_coordinator.records.batch import HEADER_BYTES, NO_PRODUCER_ID, encode_batch, iter_records, parse_header
from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.keys import (
    OffsetCommitKey,
    decode_key,
    encode_group_key,
    encode_offset_key,
)
from muster_coordinator.records.offsets_log import decode_offset_value, encode_offset_value

BASE = 1_000_000
names = st.text(max_size=8) | st.sampled_from(["group", "grüppe", "x" * 200])
ids = st.just(bytes(16)) | st.binary(min_size=16, max_size=16)
values = st.builds(
    encode_offset_value,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.text(max_size=6) | st.sampled_from(["", "ü" * 40, "m" * 126, "m" * 127]),
    st.integers(0, 2**62),
    st.just(-1) | st.integers(0, 2**40),
    ids,
)
records = st.tuples(
    st.builds(encode_offset_key, names, names, st.integers(-1, 2**31 - 1)), st.none() | values
) | st.tuples(st.builds(encode_group_key, names), st.none())


def batch_of(pairs: list[tuple[bytes, bytes | None]]) -> bytes:
    return encode_batch(pairs, timestamp_ms=1_700_000_000_000)


def by_the_general_reader(batch: bytes) -> list[tuple[str, str, int, bytes | None]] | None:
    """What `replay` makes of the batch, None when it is more than plain commits. Raises as it does."""
    found: list[tuple[str, str, int, bytes | None]] = []
    for record in iter_records(batch):
        assert record.key is not None
        key = decode_key(record.key)
        if not isinstance(key, OffsetCommitKey):
            return None
        row = None
        if record.value is not None:
            value = decode_offset_value(record.value)
            place = record.offset - parse_header(batch).base_offset + BASE
            row = encode_row(
                CommittedOffset(
                    place, value.offset, value.leader_epoch, value.commit_timestamp_ms, value.metadata,
                    value.expire_timestamp_ms, value.topic_id,
                )
            )  # fmt: skip
        found.append((key.group, key.topic, key.partition, row))
    return found


@given(st.lists(records, min_size=1, max_size=5))
@settings(max_examples=300, deadline=None)
def test_what_it_reads_is_what_the_general_reader_reads(pairs: list[tuple[bytes, bytes | None]]) -> None:
    batch = batch_of(pairs)
    plain = plain_commits(batch, parse_header(batch), BASE)
    if plain is not None:
        assert plain == by_the_general_reader(batch)


@pytest.mark.parametrize("topic_id", [bytes(16), bytes(range(16))], ids=["v3", "v4"])
def test_it_reads_what_the_product_writes(topic_id: bytes) -> None:
    """Else the property above would hold for a reader that never reads."""
    pairs: list[tuple[bytes, bytes | None]] = [
        (encode_offset_key("grüppe", "t", p), encode_offset_value(p, 3, "m" * p, 5, topic_id=topic_id))
        for p in range(99)
    ]
    pairs.append((encode_offset_key("grüppe", "other", 1), None))
    batch = batch_of(pairs)
    plain = plain_commits(batch, parse_header(batch), BASE)
    assert plain is not None
    assert plain == by_the_general_reader(batch)
    assert plain[-1] == ("grüppe", "other", 1, None)


@given(st.lists(records, min_size=1, max_size=3), st.data())
@settings(max_examples=500, deadline=None)
@example([(encode_offset_key("g", "t", 0), encode_offset_value(1, 1, "", 1))], None)
def test_damage_is_left_to_the_general_reader(
    pairs: list[tuple[bytes, bytes | None]], data: st.DataObject | None
) -> None:
    batch = bytearray(batch_of(pairs))
    if data is not None:
        for _ in range(data.draw(st.integers(1, 3))):
            batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    plain = plain_commits(bytes(batch), parse_header(batch), BASE)
    if plain is None:
        return
    assert plain == by_the_general_reader(bytes(batch))


@pytest.mark.parametrize("topic_id", [bytes(16), b"i" * 16], ids=["v3", "v4"])
@pytest.mark.parametrize("value", [0, 1, 2, 4, 127, 128, 255])
def test_every_damaged_byte_of_the_commonest_records(topic_id: bytes, value: int) -> None:
    pairs = [(encode_offset_key("g", "t", p), encode_offset_value(p, 3, "", 5, topic_id=topic_id)) for p in (0, 70)]
    sound = batch_of(pairs)
    assert plain_commits(sound, parse_header(sound), BASE) is not None
    for position in range(HEADER_BYTES, len(sound)):
        batch = sound[:position] + bytes((value,)) + sound[position + 1 :]
        plain = plain_commits(batch, parse_header(batch), BASE)
        if plain is not None:
            assert plain == by_the_general_reader(batch)


alike = st.builds(
    lambda group, topic, id_, partitions, offset: [
        (encode_offset_key(group, topic, p), encode_offset_value(offset + p, 3, "", 5 + p, topic_id=id_))
        for p in partitions
    ],
    names,
    names,
    ids,
    st.lists(st.integers(-1, 2**31 - 1), min_size=4, max_size=70),
    st.integers(0, 2**40),
)
"""One commit's records: what is read a stretch at a time."""


@given(st.lists(alike | st.lists(records, max_size=2), min_size=1, max_size=4), st.data())
@settings(max_examples=300, deadline=None)
def test_stretches_among_others_and_damage_in_them(
    parts: list[list[tuple[bytes, bytes | None]]], data: st.DataObject
) -> None:
    pairs = [pair for part in parts for pair in part]
    if not pairs:
        return
    batch = batch_of(pairs)
    plain = plain_commits(batch, parse_header(batch), BASE)
    if plain is not None:
        assert plain == by_the_general_reader(batch)
    position, value = data.draw(st.integers(HEADER_BYTES, len(batch) - 1)), data.draw(st.integers(0, 255))
    batch = batch[:position] + bytes((value,)) + batch[position + 1 :]
    plain = plain_commits(batch, parse_header(batch), BASE)
    if plain is not None:
        assert plain == by_the_general_reader(batch)


@pytest.mark.parametrize("value", [0, 1, 2, 3, 4, 127, 128, 129, 255])
@pytest.mark.parametrize("topic_id", [bytes(16), b"i" * 16], ids=["v3", "v4"])
def test_every_damaged_byte_of_a_stretch(topic_id: bytes, value: int) -> None:
    """From the 62nd to the 67th: the offset delta takes a second byte at 64."""
    pairs = [(encode_offset_key("g", "t", p), encode_offset_value(p, 3, "", 5, topic_id=topic_id)) for p in range(68)]
    sound = batch_of(pairs)
    assert plain_commits(sound, parse_header(sound), BASE) == by_the_general_reader(sound)
    record = (len(sound) - HEADER_BYTES) // len(pairs)
    for position in range(len(sound) - 7 * record, len(sound)):
        batch = sound[:position] + bytes((value,)) + sound[position + 1 :]
        plain = plain_commits(batch, parse_header(batch), BASE)
        if plain is not None:
            assert plain == by_the_general_reader(batch)


@given(st.lists(records, min_size=1, max_size=3), st.integers(1, 30))
@settings(max_examples=200, deadline=None)
def test_a_cut_batch_is_left_to_the_general_reader(pairs: list[tuple[bytes, bytes | None]], cut: int) -> None:
    batch = batch_of(pairs)
    assert plain_commits(batch[:-cut], parse_header(batch), BASE) is None or cut >= len(batch) - HEADER_BYTES


def test_transactions_and_control_records_are_the_general_readers() -> None:
    pair = [(encode_offset_key("g", "t", 0), encode_offset_value(1, 1, "", 1))]
    plain = parse_header(batch_of(pair))
    assert plain_commits(batch_of(pair), plain._replace(producer_id=7), BASE) is None
    assert plain_commits(batch_of(pair), plain._replace(attributes=0x20), BASE) is None
    assert plain_commits(batch_of(pair), plain._replace(attributes=1), BASE) is None
    assert plain.producer_id == NO_PRODUCER_ID


def test_a_tombstone_takes_a_pending_offset_with_it_on_both_ways() -> None:
    key, value = encode_offset_key("g", "t", 0), encode_offset_value(1, 1, "", 1)
    pending = bytearray(batch_of([(key, value)]))
    struct.pack_into(">qh", pending, 43, 7, 0)
    struct.pack_into(">h", pending, 21, 0x10)
    # The second batch is read by the general reader, because of the group's tombstone in it.
    for end in ([(key, None)], [(key, None), (encode_group_key("h"), None)]):
        state = ShardState()
        replay_batch(state, AppliedBatch(1, 0, bytes(pending)))
        assert state.pending_offsets.take(7).keys()
        replay_batch(state, AppliedBatch(1, 0, bytes(pending)))
        replay_batch(state, AppliedBatch(1, 1, batch_of(end)))
        assert not state.pending_offsets.take(7)


def test_the_general_reader_still_refuses_what_it_refused() -> None:
    batch = bytearray(batch_of([(encode_offset_key("g", "t", 0), encode_offset_value(1, 1, "", 1))]))
    batch[-10] ^= 0xFF
    with pytest.raises((MalformedError, UnsupportedError)):
        replay_batch(ShardState(), AppliedBatch(1, 0, bytes(batch[:-1])))
