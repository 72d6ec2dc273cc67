"""What a round of cleaning leaves (Kafka's `Cleaner` and `MemoryRecords.filterTo`, KIP-58, KIP-534)."""

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.records.batch import DELETE_HORIZON, MAGIC, check, parse_header
from muster_coordinator.records.crc import crc32c
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.inflate import GZIP, LZ4, SNAPPY, ZSTD
from muster_coordinator.topics.cleaning.batches import LastOfProducer
from muster_coordinator.topics.cleaning.key_map import KeyMap
from muster_coordinator.topics.cleaning.limits import KEY_BYTES
from muster_coordinator.topics.cleaning.rounds import Round
from muster_coordinator.topics.cleaning.transactions import AbortedTransaction

from tests.topics.cleaning_model import (
    MEMORY_BYTES,
    START_MS,
    Oracle,
    appended,
    assert_whole,
    cleaned,
    horizon_of,
    marked,
    records_of,
)

LATER_MS = START_MS + 1_000_000


def offsets(log):
    return [record.offset for record in records_of(log)]


def test_the_last_value_of_each_key_stays_at_its_offset():
    log = []
    appended(log, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")])
    appended(log, [(b"b", b"2"), (b"c", b"1", [("h", b"x"), ("none", None)])])
    after, round_ = cleaned(log, now_ms=LATER_MS)
    assert_whole(log, after)
    assert offsets(after) == [2, 3, 4]
    assert parse_header(after[0])[:1] + parse_header(after[0])[6:7] + parse_header(after[0])[12:] == (0, 2, 1)
    assert after[1] == log[1], "a batch of which all stays is not written anew"
    assert (round_.mapped_to, round_.keys, round_.unchanged) == (5, 3, False)
    again, round_ = cleaned(after, now_ms=LATER_MS)
    assert again == after
    assert round_.unchanged


def test_a_removed_run_leaves_one_empty_batch_for_each_epoch():
    log = []
    for epoch in (1, 1, 1, 2, 2, 3):
        appended(log, [(b"k", b"v")], epoch=epoch)
    after, _ = cleaned(log, now_ms=LATER_MS)
    assert_whole(log, after)
    shown = [(h.base_offset, h.last_offset_delta, h.leader_epoch, h.count) for h in map(parse_header, after)]
    assert shown == [(0, 2, 1, 0), (3, 1, 2, 0), (5, 0, 3, 1)]
    empty = check(after[0])
    assert (empty.size_bytes, empty.attributes, empty.producer_id, empty.magic) == (61, 0, -1, MAGIC)
    assert empty.max_timestamp_ms == START_MS + 2, "retention by time counts from the newest record that was there"
    appended(after, [(b"k", b"w")], epoch=3)
    again, _ = cleaned(after, now_ms=LATER_MS)
    assert [(h.base_offset, h.last_offset_delta) for h in map(parse_header, again)] == [(0, 2), (3, 1), (5, 0), (6, 0)]


def test_a_tombstone_stays_from_its_first_cleaning_until_its_horizon():
    log = []
    appended(log, [(b"a", b"1"), (b"b", b"1")])
    appended(log, [(b"a", None), (b"c", b"1")])
    first, _ = cleaned(log, now_ms=LATER_MS, retention_ms=500)
    assert_whole(log, first)
    assert offsets(first) == [1, 2, 3]
    assert horizon_of(first[-1]) == LATER_MS + 500
    for now_ms in (LATER_MS + 1, LATER_MS + 499):
        then, round_ = cleaned(first, now_ms=now_ms, retention_ms=500)
        assert then == first, "neither gone nor given a new horizon"
        assert round_.unchanged
    gone, _ = cleaned(first, now_ms=LATER_MS + 500, retention_ms=500)
    assert_whole(log, gone)
    assert offsets(gone) == [1, 3]
    assert horizon_of(gone[-1]) == LATER_MS + 500


def test_a_horizon_beyond_64_bits_is_the_largest_there_is_and_deltas_that_do_not_fit_leave_the_tombstone():
    log = []
    appended(log, [(b"a", None)])
    after, _ = cleaned(log, now_ms=LATER_MS, retention_ms=2**63 - 1)
    assert_whole(log, after)
    assert horizon_of(after[0]) == 2**63 - 1
    log = []
    appended(log, [(b"a", None)], timestamps_ms=[-(2**62) * 2 + 5])
    after, _ = cleaned(log, now_ms=LATER_MS)
    assert after == log


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_compressed_batch_keeps_its_codec(codec):
    log = []
    value = Random(1).randbytes(50_000) * 2
    appended(log, [(b"a", value), (b"b", b"1"), (b"c", None), (b"d", value + b"d")], codec=codec)
    appended(log, [(b"a", b"2")], codec=codec)
    after, _ = cleaned(log, now_ms=LATER_MS)
    assert_whole(log, after)
    assert offsets(after) == [1, 2, 3, 4]
    assert parse_header(after[0]).compression == codec
    gone, _ = cleaned(after, now_ms=LATER_MS + 1_000)
    assert_whole(log, gone)
    assert offsets(gone) == [1, 3, 4]


def test_records_without_a_key_go():
    log = []
    appended(log, [(None, b"1"), (b"a", b"1"), (b"", b"1"), (None, None)])
    after, _ = cleaned(log, now_ms=LATER_MS)
    assert offsets(after) == [1, 2]


def test_long_keys_are_told_apart():
    log = []
    keys = [b"x" * 15, b"x" * 16, b"x" * 17, b"y" * 16, b"x" * 100_000]
    appended(log, [(key, b"1") for key in keys])
    appended(log, [(keys[1], b"2"), (keys[4], b"2")])
    after, round_ = cleaned(log, now_ms=LATER_MS)
    assert offsets(after) == [0, 2, 3, 5, 6]
    assert round_.keys == 5


def test_what_the_map_does_not_cover_stays_and_the_next_round_goes_on_there():
    log = []
    for n in range(6):
        appended(log, [(b"k%d" % (n % 3), b"%d" % n), (b"l%d" % n, b"")])
    room = 5 * KEY_BYTES
    after, round_ = cleaned(log, now_ms=LATER_MS, memory_bytes=room)
    assert_whole(log, after)
    assert round_.mapped_to == 4
    assert offsets(after) == list(range(12))
    after, round_ = cleaned(after, now_ms=LATER_MS, memory_bytes=room, first_dirty=4)
    assert round_.mapped_to == 8
    assert offsets(after) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    after, round_ = cleaned(after, now_ms=LATER_MS, memory_bytes=room, first_dirty=8)
    assert round_.mapped_to == 12
    assert_whole(log, after)
    assert offsets(after) == [1, 3, 5, 6, 7, 8, 9, 10, 11]


def test_a_tombstone_in_a_batch_that_is_not_mapped_deletes_what_is_before_it_first():
    log = []
    appended(log, [(b"a", b"1")])
    appended(log, [(b"b", b"1"), (b"c", b"1"), (b"a", None)])
    room = 2 * KEY_BYTES
    after, round_ = cleaned(log, now_ms=LATER_MS, memory_bytes=room)
    assert round_.mapped_to == 1
    for now_ms in range(LATER_MS, LATER_MS + 10_000, 1_000):
        after, round_ = cleaned(after, now_ms=now_ms, first_dirty=round_.mapped_to)
        alive = {record.key: record.value for record in records_of(after)}
        assert alive.get(b"a") is None
    assert offsets(after) == [1, 2]


def test_a_batch_whose_records_cannot_be_read_stays_and_hides_nothing():
    log = []
    appended(log, [(b"a", b"1")])
    appended(log, [(b"a", b"2"), (b"b", None)], codec=GZIP)
    broken = bytearray(log[1])
    broken[-3] ^= 0x40
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    log[1] = bytes(broken)
    after, _ = cleaned(log, now_ms=LATER_MS)
    assert after == log


@pytest.mark.parametrize("at", [16, 17, 30, 61, -1])
def test_a_damaged_batch_ends_the_round(at):
    log = []
    appended(log, [(b"a", b"1")])
    broken = bytearray(log[0])
    broken[at] ^= 1
    with pytest.raises(MalformedError):
        cleaned([bytes(broken)], now_ms=LATER_MS)


def test_the_last_batch_of_a_live_producer_stays_as_a_header():
    log = []
    for sequence in range(3):
        appended(log, [(b"k", b"v")], producer_id=7, producer_epoch=3, base_sequence=sequence)
    appended(log, [(b"k", b"w")])
    after, _ = cleaned(log, now_ms=LATER_MS, producers={7: LastOfProducer(3, 2)})
    assert_whole(log, after)
    shown = [(h.base_offset, h.count, h.producer_id, h.base_sequence) for h in map(check, after)]
    assert shown == [(0, 0, -1, -1), (2, 0, 7, 2), (3, 1, -1, -1)]
    assert len(after[1]) == 61
    again, round_ = cleaned(after, now_ms=LATER_MS, producers={7: LastOfProducer(3, 2)})
    assert again == after
    assert round_.unchanged
    dead, _ = cleaned(after, now_ms=LATER_MS)
    assert [parse_header(batch).producer_id for batch in dead] == [-1, -1], "it is no longer live"


def transaction(log, producer_id, commit, *, key=b"k", value=b"v"):
    base = appended(log, [(key, value)], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    marked(log, commit, producer_id)
    return base


def test_records_of_aborted_transactions_go_and_hide_no_earlier_value():
    log = []
    appended(log, [(b"k", b"old")])
    first = transaction(log, 5, False, value=b"aborted")
    transaction(log, 6, True, key=b"other")
    aborted = [AbortedTransaction(first, 5)]
    after, _ = cleaned(log, now_ms=LATER_MS, aborted=aborted)
    assert_whole(log, after)
    assert [(r.key, r.value) for r in records_of(after)] == [(b"k", b"old"), (b"other", b"v")]
    assert [parse_header(batch).is_control for batch in after].count(True) == 2, "stays in the round of its data"


def test_a_marker_goes_at_its_horizon_once_all_data_of_its_transaction_is_gone():
    log = []
    first = transaction(log, 5, False)
    transaction(log, 6, True)
    appended(log, [(b"k", b"last")])
    aborted = [AbortedTransaction(first, 5)]
    one, _ = cleaned(log, now_ms=LATER_MS, aborted=aborted)
    markers = [batch for batch in one if parse_header(batch).is_control]
    assert [horizon_of(batch) for batch in markers] == [None, None], "data was seen in this round"
    two, _ = cleaned(one, now_ms=LATER_MS + 1, aborted=aborted)
    markers = [batch for batch in two if parse_header(batch).is_control]
    assert [horizon_of(batch) for batch in markers] == [LATER_MS + 1_001] * 2
    three, _ = cleaned(two, now_ms=LATER_MS + 1_000, aborted=aborted)
    assert three == two
    four, _ = cleaned(three, now_ms=LATER_MS + 1_001, aborted=aborted)
    assert_whole(log, four)
    assert [parse_header(batch).is_control for batch in four] == [False, False]
    assert offsets(four) == [4]
    last = {5: LastOfProducer(0, -1), 6: LastOfProducer(0, -1)}
    kept, _ = cleaned(three, now_ms=LATER_MS + 1_001, aborted=aborted, producers=last)
    last_ones = [check(batch) for batch in kept if parse_header(batch).is_control]
    assert [h.producer_id for h in last_ones] == [5, 6], "the last that fences these producers"
    assert [h.count for h in last_ones] == [1, 1], "aiokafka raises at a control batch without a record"
    again, round_ = cleaned(kept, now_ms=LATER_MS + 9_001, producers=last)
    assert again == kept
    assert round_.unchanged


def test_a_marker_of_committed_data_that_stays_stays():
    log = []
    transaction(log, 6, True)
    for n in range(3):
        log_after, _ = cleaned(log, now_ms=LATER_MS + n * 10_000)
        assert log_after == log


RECORD = st.tuples(st.sampled_from([b"a", b"b", b"c", b"d" * 20]), st.one_of(st.none(), st.binary(max_size=4)))
BATCH = st.tuples(
    st.lists(RECORD, min_size=1, max_size=4), st.sampled_from([0, GZIP, SNAPPY, LZ4, ZSTD]), st.booleans()
)


@given(
    rounds=st.lists(
        st.tuples(st.lists(BATCH, max_size=4), st.integers(0, 1_500), st.integers(1, 6)), min_size=1, max_size=4
    )
)
@settings(max_examples=40, deadline=None)
def test_any_log_after_any_rounds_equals_the_oracle(rounds):
    """New batches, time that passes, and a map of any size before each round."""
    log, original, epoch, now_ms, clean = [], [], 1, LATER_MS, 0
    oracle, expected = Oracle(retention_ms=1_000), []
    for batches, passed_ms, room in rounds:
        now_ms += passed_ms
        for records, codec, next_epoch in batches:
            epoch += next_epoch
            appended(log, records, codec=codec, epoch=epoch)
            original.append(log[-1])
            expected += records_of(log[-1:])
        if not log:
            continue
        # Room for all keys of a batch at least, as `KEYS_MEMORY_MIN` sees to.
        log, round_ = cleaned(log, now_ms=now_ms, first_dirty=clean, memory_bytes=max(room, 4) * KEY_BYTES)
        clean = round_.mapped_to
        expected = oracle.clean(expected, now_ms=now_ms, mapped_to=clean)
        assert records_of(log) == expected
        assert_whole(original, log)
        assert all(
            parse_header(batch).attributes & DELETE_HORIZON == 0 or horizon_of(batch) > START_MS for batch in log
        )


def test_a_walk_that_begins_behind_an_aborted_transaction_does_not_take_the_producers_next_one_for_it():
    log = []
    appended(log, [(b"k", b"old")])
    first = transaction(log, 5, False, value=b"aborted")
    marker = parse_header(log[-1]).base_offset
    transaction(log, 5, True, value=b"new")
    aborted = [AbortedTransaction(first, 5, marker)]
    after, round_ = cleaned(log, now_ms=LATER_MS, first_dirty=marker + 1, aborted=aborted)
    assert round_.keys == 1, "its key is in the map"
    assert [(r.key, r.value) for r in records_of(after)] == [(b"k", b"new")]


def test_aborted_transactions_may_be_handed_in_part_by_part_and_again():
    log = []
    appended(log, [(b"k", b"old")])
    firsts = [transaction(log, 5, False, value=b"aborted"), transaction(log, 5, False, value=b"aborted too")]
    transaction(log, 5, True, key=b"l")
    ends = [first + 1 for first in firsts]
    known = [AbortedTransaction(first, 5, end) for first, end in zip(firsts, ends, strict=True)]
    expected, _ = cleaned(log, now_ms=LATER_MS, aborted=known)
    round_ = Round(now_ms=LATER_MS, delete_retention_ms=1_000, memory_bytes=MEMORY_BYTES, first_dirty=0, producers={})

    def told(batch):
        header = parse_header(batch)
        overlap = [
            one for one in known if one.first_offset < header.next_offset and one.last_offset >= header.base_offset
        ]
        round_.add_aborted(overlap * 2)
        return batch

    assert all(round_.look(told(batch)) for batch in log)
    round_.begin_segments()
    assert [piece for batch in log for piece in round_.clean(told(batch))] + round_.end_segments() == expected


@pytest.mark.parametrize("key_bytes", [4, 15, 16, 200])
def test_the_map_of_keys_takes_no_more_memory_than_it_was_given(key_bytes):
    """Also while its dict grows, which has the old one beside the new one."""
    memory_bytes = 6_000_000
    tracemalloc.start()
    try:
        keys = KeyMap(memory_bytes)
        put = 0
        while keys.put([(number.to_bytes(key_bytes, "big"), 2**40 + number) for number in range(put, put + 100)]):
            put += 100
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert put >= 20_000
    assert keys.last((put - 1).to_bytes(key_bytes, "big")) == 2**40 + put - 1
    assert most_bytes <= memory_bytes
