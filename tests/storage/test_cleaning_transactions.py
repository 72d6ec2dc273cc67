"""Cleaning of logs with transactions: what is left is what Kafka's cleaner leaves, and a reader of committed records
gets the same from a cleaned log and from one that never was, from wherever he begins, after whatever went wrong."""

import re
import struct
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import Corruption, SegmentDamaged
from muster_coordinator.records.batch import parse_header
from muster_coordinator.storage import cleaning
from muster_coordinator.storage.segment_index import read_sidecar
from muster_coordinator.topics.cleaning.limits import KEY_BYTES

from tests import kafka_tools
from tests.sim.disk import PowerLoss, SimDisk
from tests.storage.log_kit import FOLDER
from tests.storage.test_aborted_transactions import lose
from tests.storage.transactional_history import Transactions


def made(seed, steps=60):
    it = Transactions(SimDisk(), SimDisk(), seed)
    it.write(steps)
    return it


@given(
    seed=st.integers(0, 2**32),
    rounds=st.lists(
        st.tuples(st.integers(5, 40), st.integers(0, 1_500), st.booleans(), st.booleans()), min_size=2, max_size=5
    ),
)
@settings(max_examples=12, deadline=None)
def test_any_log_after_any_rounds_is_what_kafka_leaves_and_reads_as_before(seed, rounds):
    """New batches, time that passes, producers that are forgotten, and a start before each round."""
    it = Transactions(SimDisk(), SimDisk(), seed)
    for steps, passed_ms, expires, restarts in rounds:
        it.now_ms += passed_ms
        it.write(steps)
        if expires:
            it.expire()
        if restarts:
            it.reopen()
        it.clean()
        it.check()


def test_with_many_rounds_all_of_a_transaction_goes_its_marker_at_last():
    """The same is done until nothing is left of what ended long ago."""
    it = made(3, 80)
    for producer in list(it.opened):
        it.end(producer, commit=False, bump=False)
    it.last.clear()
    markers = []
    for _ in range(6):
        for n in range(12):
            it.data(-1 if n else 100)
        it.write(0)
        it.now_ms += 1_001
        assert it.clean()
        it.check(stride=7)
        end = it.log.cleaned.cleaned_to
        markers.append(sum(bool(one.marker) for one in it.shown() if one.base < end))
    assert markers[0] > 0
    assert markers[-1] == 0, "each went, once all of its transaction was gone and its horizon had passed"
    it.reopen()
    assert not it.log.has_aborted
    it.check(stride=7)


def test_a_map_that_is_full_in_the_middle_of_a_transaction_leaves_what_follows():
    it = made(4, 70)
    reached = []
    while it.clean(memory_bytes=3 * KEY_BYTES):
        reached.append(it.log.cleaned.cleaned_to)
        there = {one.base: one for one in it.shown()}
        assert all(there[one.base] == one for one in it.wanted() if one.base >= reached[-1])
        starts = range(0, it.stable, 5)
        assert all(set(it.consumed(it.log, start)) <= set(it.consumed(it.twin, start)) for start in starts)
    assert len(reached) > 1
    it.check()


def index(it):
    """What the files say: the entries of each `.txnindex`."""
    found = []
    for name in sorted(it.disk.listdir(FOLDER)):
        if name.endswith(".txnindex"):
            assert it.disk.exists(f"{FOLDER}/{name.replace('.txnindex', '.log')}")
            found += [fields[1:4] for fields in struct.iter_unpack(">hqqqq", it.disk.content(f"{FOLDER}/{name}"))]
    return found


def test_the_index_that_is_left_has_each_aborted_transaction_of_which_a_batch_is_left():
    """Kafka's has those too of which the last batch went in this round: nobody can read anything of these."""
    it = made(1, 120)
    for producer in it.transactional:  # What each of them wrote last was aborted, and stays as a header.
        it.data(producer)
        it.end(producer, commit=False, bump=False)
    for _ in range(10):
        it.data(-1)
    it.write(0)
    it.clean()
    it.write(0)
    left = {
        (one.producer, one.last)
        for one in it.kafka.index
        if any(b.producer == one.producer and one.first <= b.base < one.last and not b.marker for b in it.shown())
    }
    named = {(producer, last) for producer, _, last in index(it)}
    assert named == left
    assert [one for one in left if one[1] < it.log.cleaned.cleaned_to], "also in what was cleaned"
    assert named <= {(one.producer, one.last) for one in it.kafka.index}
    bases = {batch.base for batch in it.shown() if batch.marker == "ABORT"}
    assert all(last in bases for _, last in named), "an entry without its marker would hide what comes after"
    assert {first for _, first, _ in index(it)} <= {batch.base for batch in it.shown()}


def sections(it):
    """base -> what the sidecar of a sealed segment with transactions says of them."""
    found = {summary.base: read_sidecar(it.disk, FOLDER, summary.base) for summary in it.log.sealed()}
    return {base: sidecar.section for base, sidecar in found.items() if sidecar is not None and sidecar.transactional}


def walked(it):
    """The same, from the batches of the log: (producer, first offset) of what is open, and how many markers aborted."""
    opened, aborted, found, batches = {}, 0, {}, it.shown()
    ends = {summary.next_offset: summary.base for summary in it.log.sealed()}
    for base, end in sorted((base, end) for end, base in ends.items()):
        aborted = 0
        for batch in [one for one in batches if base <= one.base < end and one.transactional]:
            if not batch.marker:
                opened.setdefault(batch.producer, batch.base)
            elif batch.records and opened.pop(batch.producer, None) is not None:
                aborted += batch.marker == "ABORT"
        found[base] = (tuple(opened.items()), aborted)
    return found


def test_the_indexes_of_cleaned_segments_are_those_that_a_walk_makes_of_them():
    """So a start, and a follower that installs the segments, find the same."""
    it = made(9, 90)
    spanning = 0
    for _ in range(3):
        it.clean(merged_bytes=600)
        made_at_once = {b: one for b, one in sections(it).items() if b < it.log.cleaned.cleaned_to}
        expected = walked(it)
        assert {b: (one.opened, one.aborted) for b, one in made_at_once.items()} == {
            b: expected[b] for b in made_at_once
        }
        spanning += sum(bool(one.opened) for one in made_at_once.values())
        it.write(30)
    assert spanning > 1, "transactions span segments"


@pytest.mark.parametrize("how", ["all", ".txnindex", ".sidx", "flip", "cut"])
def test_whatever_became_of_the_derived_files_of_a_cleaned_log_the_same_is_known(how):
    it = made(5, 100)
    it.clean()
    it.write(20)
    for _ in range(2):
        lose(it.disk, it.rand, how)
        it.reopen()
        it.check()
        it.write(10)
        it.clean()
        it.check()


def test_a_byte_of_a_cleaned_segment_that_changed_is_found_or_changes_nothing():
    """Each eleventh byte of each cleaned segment, with one bit flipped: what is read is right, or is damaged."""
    it = made(6, 50)
    it.clean()
    expected = {start: it.consumed(it.log, start, (4_000,)) for start in (0, it.stable // 2)}
    found = 0
    for summary in it.log.sealed():
        path = f"{FOLDER}/{cleaning.segment_name(summary.base)}"
        sound = it.disk.content(path)
        for at in range(summary.base % 11, len(sound), 11):
            it.disk.damage(path, at, bytes([sound[at] ^ 1 << at % 8]))
            try:
                it.reopen()
                assert {start: it.consumed(it.log, start, (4_000,)) for start in expected} == expected, (path, at)
            except (SegmentDamaged, Corruption):
                found += 1
            it.disk.damage(path, at, sound[at : at + 1])
    assert found > 50
    it.reopen()
    it.check()


def operations(seed):
    it, count = made(seed), 0

    def counted(_operation, _path, _size):
        nonlocal count
        count += 1

    it.disk.cost = counted
    assert it.clean()
    it.disk.cost = None
    return count


@pytest.mark.parametrize("share", range(2))
def test_a_power_loss_at_any_operation_leaves_a_log_that_reads_the_same_and_the_next_round_ends_it(share):
    whole = made(7)
    total = operations(7)
    assert whole.clean()
    expected = whole.shown()
    for effects in range(share, total, 2):
        it = made(7)
        uncleaned = {batch.base: batch for batch in it.shown()}
        it.disk.power_off_after(effects)
        with suppress(PowerLoss):
            it.clean()
        it.disk.crash(Random(effects))
        it.reopen()
        there = {record[0] for batch in it.shown() if not batch.marker for record in batch.records}
        for start in range(0, it.stable, 9):
            wanted = [one for one in it.consumed(it.twin, start) if one[0] in there]
            assert it.consumed(it.log, start) == wanted, (effects, start)
        assert not [name for name in it.disk.listdir(FOLDER) if name.endswith(cleaning.SUFFIX)]
        for summary in it.log.sealed():
            some = [one for one in it.shown() if summary.base <= one.base < summary.next_offset]
            assert it.log.touched(summary.base) or all(uncleaned.get(one.base) == one for one in some)
        it.kafka = made(7).kafka
        first_dirty = it.log.cleaned.cleaned_to
        if it.clean():
            assert [one._replace(horizon_ms=None) for one in it.shown()] == [
                one._replace(horizon_ms=None) for one in expected
            ], (effects, first_dirty)


def test_segments_that_retention_drops_take_what_was_open_in_them_along():
    """`compact,delete`: the log begins in the middle of transactions, is cleaned, and begins later again."""
    it = made(8, 120)
    for _ in range(4):
        sealed = it.log.sealed()
        if len(sealed) < 3:
            break
        start = sealed[1].base
        it.log.advance_start(start)
        it.twin.log_start_offset = start
        it.kafka.batches = [batch for batch in it.kafka.batches if batch.base >= start]
        it.kafka.index = [one for one in it.kafka.index if one.last >= start]
        it.write(12)
        it.clean()
        it.check(stride=4)
        it.write(1)
        it.write(1)
        it.reopen()
        it.check(stride=4)
    assert it.log.cleaned.cleaned_to > it.log.log_start_offset > 0


@pytest.mark.java
@pytest.mark.timeout(180)
def test_kafkas_dump_tool_reads_a_cleaned_log_with_transactions_and_its_index(tmp_path):
    it = made(10, 90)
    for producer in it.transactional:  # What each of them wrote last was aborted, and stays as a header.
        it.data(producer)
        it.end(producer, commit=False, bump=False)
    for _ in range(10):
        it.data(-1)
    it.write(0)
    for _ in range(3):
        assert it.clean()
        it.now_ms += 1_001
        for _ in range(20):
            it.data(-1)
        it.write(0)
    paths = []
    for name in it.disk.listdir(FOLDER):
        if name.endswith((".log", ".txnindex")):
            paths.append(tmp_path / name)
            paths[-1].write_bytes(it.disk.content(f"{FOLDER}/{name}"))
    text = kafka_tools.run(
        kafka_tools.DUMP_LOG, "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, paths))
    )
    there = it.batches()
    bases = [int(offset) for offset in re.findall(r"baseOffset: (\d+)", text)]
    assert bases == [parse_header(batch).base_offset for batch in there]
    assert text.count("isvalid: true") == len(there)
    assert text.count("endTxnMarker: ") == sum(bool(one.marker) for one in it.shown())
    assert re.search(r"lastSequence: \d+ .*isTransactional: true .*count: 0|count: 0 .*isTransactional: true", text)
    told = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset", text)
    assert [tuple(map(int, one)) for one in told] == index(it)
    assert told
