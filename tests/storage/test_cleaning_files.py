"""A round of cleaning on files: what a reader finds is the same in meaning before, during and after it, whatever ends
it: a power loss at any operation of the disk, a full disk, a damaged batch."""

import errno
import re
from contextlib import suppress
from random import Random
from typing import NamedTuple

import pytest
from muster_coordinator.errors import Corruption, SegmentDamaged
from muster_coordinator.records.batch import encode_batch, parse_header
from muster_coordinator.storage import cleaned, cleaning
from muster_coordinator.storage.segment_check import check_segment
from muster_coordinator.topics.cleaning.plan import groups
from muster_coordinator.topics.cleaning.rounds import Round

from tests import kafka_tools
from tests.records.made import split_batches
from tests.sim.disk import PowerLoss, SimDisk
from tests.storage.log_kit import FOLDER, START_MS, feed, flush, open_log, read_all
from tests.topics.cleaning_model import assert_whole, records_of

LATER_MS = START_MS + 1_000_000
SEGMENT_BYTES = 600
MERGED_BYTES = 1_500


class Made(NamedTuple):
    disk: SimDisk
    log: object
    recovery_point: object
    before: list


def made(seed=1, batches=40):
    """A flushed log of several segments, with few keys, tombstones and epochs."""
    rand = Random(seed)
    disk = SimDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    for n in range(batches):
        records = [
            (b"key%d" % rand.randrange(6), None if rand.random() < 0.2 else rand.randbytes(rand.randrange(30)))
            for _ in range(rand.randrange(1, 4))
        ]
        feed(log, encode_batch(records, timestamp_ms=START_MS + n), epoch=1 + n // 15)
    recovery_point = flush(log, batches)
    return Made(disk, log, recovery_point, split_batches(read_all(log)))


def looked(disk, log, sealed, *, now_ms=LATER_MS, retention_ms=1_000):
    """A round that has mapped the keys of these segments."""
    round_ = Round(
        now_ms=now_ms,
        delete_retention_ms=retention_ms,
        memory_bytes=1 << 20,
        first_dirty=log.cleaned.cleaned_to,
        aborted=(),
        producers={},
    )
    for _ in cleaning.look(disk, FOLDER, sealed, log.cleaned.cleaned_to, round_):
        pass
    return round_


def run(disk, log, *, now_ms=LATER_MS, retention_ms=1_000):
    """One round over all sealed segments, as the executor does it."""
    sealed = log.sealed()
    round_ = looked(disk, log, sealed, now_ms=now_ms, retention_ms=retention_ms)
    log.cleaned = log.cleaned._replace(touched_to=max(round_.mapped_to, log.cleaned.touched_to))
    cleaned.write(disk, FOLDER, log.cleaned)
    summaries = {summary.base: summary for summary in sealed}
    sizes = []
    for group in groups(log.views(), MERGED_BYTES):
        some = put(disk, log, [summaries[view.base_offset] for view in group], round_)
        sizes.append((some.new.base, some.new.size))
    log.cleaned = cleaned.Cleaned(round_.mapped_to, log.cleaned.touched_to, tuple(sizes))
    cleaned.write(disk, FOLDER, log.cleaned)
    return round_


def put(disk, log, group, round_):
    steps = cleaning.clean(disk, FOLDER, group, round_)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            some = stop.value
            break
    if some.changed:
        cleaning.prepare(disk, FOLDER, some.new.base)
        assert log.put_cleaned(some)
        cleaning.finish(disk, FOLDER, some.new.base, [summary.base for summary in some.old[1:]])
    return some


def table(batches):
    """What a consumer makes of the log: the last value of each key."""
    found = {}
    for record in records_of(batches):
        found[record.key] = record.value
    return {key: value for key, value in found.items() if value is not None}


def test_what_is_written_is_synced_piece_by_piece(monkeypatch):
    """A segment of a gigabyte that is synced at its end keeps commits on the same disk for as long as it takes."""
    monkeypatch.setattr(cleaning, "CLEAN_READ_BYTES", 100)
    monkeypatch.setattr(cleaning, "CLEAN_WRITE_BYTES", 50)
    disk, log, _, _ = made()
    sealed = log.sealed()
    round_ = looked(disk, log, sealed)
    path = f"{FOLDER}/{cleaning.segment_name(sealed[0].base)}{cleaning.SUFFIX}"
    pieces, size, syncs = [], 0, disk.syncs
    for _ in cleaning.clean(disk, FOLDER, sealed, round_):
        written = len(disk.content(path)) - size
        assert (written > 0) == (disk.syncs > syncs)
        pieces += [written] if written else []
        size, syncs = size + written, disk.syncs
    assert len(pieces) > 2
    assert max(pieces) < 600


def test_a_round_leaves_fewer_and_smaller_segments_and_every_reader_finds_its_way():
    disk, log, recovery_point, before = made()
    files = len(disk.listdir(FOLDER))
    epochs = log.epochs()
    run(disk, log)
    assert len(disk.listdir(FOLDER)) < files
    after = split_batches(read_all(log))
    assert_whole(before, after)
    assert table(after) == table(before)
    last = log.sealed()[-1].next_offset
    keys = [record.key for record in records_of(after) if record.offset < last]
    assert len(keys) == len(set(keys))
    for offset in range(log.next_offset):
        first = parse_header(log.read(offset, 1, True))
        assert first.base_offset <= offset < first.next_offset, "also where records are gone"
    assert log.epochs() == epochs
    assert (log.cleaned.cleaned_to, log.touched(0), log.touched(last)) == (last, True, False)
    for summary in log.sealed():
        for _ in check_segment(disk, f"{FOLDER}/{cleaning.segment_name(summary.base)}", FOLDER, summary):
            pass
    again = open_log(disk, recovery_point, segment_bytes=SEGMENT_BYTES)
    assert again.cleaned == log.cleaned
    assert split_batches(read_all(again)) == after
    assert again.epochs() == epochs
    run(disk, again)
    assert_whole(before, split_batches(read_all(again)))
    assert table(split_batches(read_all(again))) == table(before)


def test_look_ups_by_time_pass_over_what_is_gone():
    disk, log, _, _ = made()
    run(disk, log)
    kept = records_of(split_batches(read_all(log)))
    for n in range(-1, 41):
        wanted = next((record for record in kept if record.timestamp_ms >= START_MS + n), None)
        found = log.offset_by_time(START_MS + n)()
        assert (found and found.offset) == (wanted and wanted.offset)
    largest = max(record.timestamp_ms for record in kept)
    first = next(record for record in kept if record.timestamp_ms == largest)
    assert log.max_timestamp()()[:2] == (first.offset, first.timestamp_ms)


def test_the_largest_timestamp_is_that_of_a_record_that_is_there():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    feed(log, encode_batch([(b"a", b"x" * 500)], timestamp_ms=START_MS + 9_000))
    feed(log, encode_batch([(b"b", b"x" * 500)], timestamp_ms=START_MS + 5))
    feed(log, encode_batch([(b"a", b"y" * 500)], timestamp_ms=START_MS + 7))
    feed(log, encode_batch([(b"c", b"")], timestamp_ms=START_MS + 1))
    flush(log, 4)
    feed(log, encode_batch([(b"c", b"x" * 500)], timestamp_ms=START_MS + 1))
    flush(log, 5)
    run(disk, log)
    assert log.max_timestamp()()[:2] == (2, START_MS + 7)
    assert log.offset_by_time(START_MS + 8)() is None


def operations():
    """How many operations a whole round makes."""
    disk, log, _, _ = made()
    count = 0

    def counted(_operation, _path, _size):
        nonlocal count
        count += 1

    disk.cost = counted
    run(disk, log)
    return count


OPERATIONS = operations()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", range(8))
def test_a_power_loss_at_any_operation_leaves_a_log_of_the_same_meaning(share, seed):
    whole = made()
    run(whole.disk, whole.log)
    expected = records_of(split_batches(read_all(whole.log)))
    for effects in range(share, OPERATIONS, 8):
        disk, log, recovery_point, before = made()
        disk.power_off_after(effects)
        with suppress(PowerLoss):
            run(disk, log)
        disk.crash(Random(seed * 1_000 + effects))
        again = open_log(disk, recovery_point, segment_bytes=SEGMENT_BYTES)
        after = split_batches(read_all(again))
        assert_whole(before, after)
        assert table(after) == table(before)
        assert not [name for name in disk.listdir(FOLDER) if name.endswith(cleaning.SUFFIX)]
        original = {parse_header(batch).base_offset: batch for batch in before}
        for summary in again.sealed():
            bytes_ = split_batches(disk.content(f"{FOLDER}/{cleaning.segment_name(summary.base)}"))
            if any(original.get(parse_header(batch).base_offset) != batch for batch in bytes_):
                assert again.touched(summary.base), "what differs from other replicas is known to"
        run(disk, again)
        assert records_of(split_batches(read_all(again))) == expected


@pytest.mark.parametrize("operation", ["pwrite", "sync", "pread"])
def test_an_error_while_a_segment_is_written_leaves_the_log_as_it_was(operation):
    disk, log, recovery_point, before = made()
    names = disk.listdir(FOLDER)
    disk.fail_next(
        operation, errno.ENOSPC, f"{FOLDER}/{0:020d}.log" + (cleaning.SUFFIX if operation != "pread" else "")
    )
    with pytest.raises(OSError, match=r"ENOSPC|space|28"):
        run(disk, log)
    disk.forgive()
    cleaning.discard(disk, FOLDER, 0)
    assert set(disk.listdir(FOLDER)) <= {*names, cleaned.NAME}
    assert split_batches(read_all(log)) == before
    assert split_batches(read_all(open_log(disk, recovery_point, segment_bytes=SEGMENT_BYTES))) == before


def test_damage_is_found_and_never_cleaned_over():
    disk, log, _, _ = made()
    second = log.sealed()[1]
    disk.damage(f"{FOLDER}/{cleaning.segment_name(second.base)}", 70, b"\xff\xff")
    with pytest.raises(SegmentDamaged) as found:
        run(disk, log)
    assert found.value.base == second.base
    assert log.generation == 0


@pytest.mark.parametrize("at", [*range(17), 21])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_no_checksum_of_a_batch_covers_is_checked_too(at, number):
    """Its base offset, its length, its epoch and its magic (and one byte that the CRC covers): written into a cleaned
    segment with a new index, a flipped bit there would be damage that nobody can see any more."""
    disk, log, _, _ = made()
    second = log.sealed()[1]
    path = f"{FOLDER}/{cleaning.segment_name(second.base)}"
    batches = split_batches(disk.content(path))
    place = sum(map(len, batches[:number])) + at
    disk.damage(path, place, bytes([disk.content(path)[place] ^ 0x40]))
    with pytest.raises(SegmentDamaged) as found:
        run(disk, log)
    assert found.value.base == second.base
    assert log.generation == 0, "nothing was put in place"


def test_segments_that_retention_has_dropped_meanwhile_are_not_replaced():
    disk, log, _, _ = made()
    sealed = log.sealed()
    round_ = looked(disk, log, sealed, retention_ms=1)
    steps = cleaning.clean(disk, FOLDER, sealed[:2], round_)
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        some = stop.value
    log.advance_start(sealed[1].base)
    names = disk.listdir(FOLDER)
    assert not log.put_cleaned(some)
    assert disk.listdir(FOLDER) == names


def test_a_damaged_length_costs_no_segment_behind_it():
    """A flipped bit that makes a segment's last batch end where a later segment begins is damage, not a merge."""
    disk, log, recovery_point, _ = made()
    first, second, third = log.sealed()[:3]
    path = f"{FOLDER}/{cleaning.segment_name(first.base)}"
    last = split_batches(disk.content(path))[-1]
    delta = third.base - 1 - parse_header(last).base_offset
    disk.damage(path, first.size - len(last) + 23, delta.to_bytes(4, "big"))
    disk.unlink(path.replace(".log", ".sidx"))
    with pytest.raises(Corruption):
        open_log(disk, recovery_point, segment_bytes=SEGMENT_BYTES)
    assert disk.exists(f"{FOLDER}/{cleaning.segment_name(second.base)}")


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_a_damaged_file_of_what_is_clean_makes_all_dirty_and_touched(at):
    disk, log, recovery_point, _ = made()
    run(disk, log)
    data = bytearray(disk.content(f"{FOLDER}/{cleaned.NAME}"))
    data[at % len(data)] ^= 0x10
    disk.damage(f"{FOLDER}/{cleaned.NAME}", 0, bytes(data))
    again = open_log(disk, recovery_point, segment_bytes=SEGMENT_BYTES)
    assert again.cleaned.cleaned_to == 0
    assert all(again.touched(summary.base) for summary in again.sealed())


def test_what_is_clean_is_believed_as_far_as_the_segments_are_those_of_then():
    disk, log, recovery_point, _ = made()
    run(disk, log)
    cleaned_to, touched_to, sizes = log.cleaned
    cleaned.write(disk, FOLDER, log.cleaned._replace(sizes=(*sizes[:1], (sizes[1][0], sizes[1][1] + 1), *sizes[2:])))
    again = open_log(disk, recovery_point, segment_bytes=SEGMENT_BYTES)
    assert 0 < again.cleaned.cleaned_to == sizes[1][0] < cleaned_to
    assert again.cleaned.touched_to == touched_to


@pytest.mark.java
@pytest.mark.timeout(180)
def test_kafkas_dump_tool_reads_what_a_cleaning_has_left(tmp_path):
    """Also batches without records, and delete horizons."""
    disk, log, _, before = made()
    run(disk, log)
    paths = []
    for name in disk.listdir(FOLDER):
        if name.endswith(".log"):
            paths.append(tmp_path / name)
            paths[-1].write_bytes(disk.content(f"{FOLDER}/{name}"))
    text = kafka_tools.run(
        kafka_tools.DUMP_LOG, "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, paths))
    )
    after = split_batches(read_all(log))
    assert_whole(before, after)
    assert [int(offset) for offset in re.findall(r"baseOffset: (\d+)", text)] == [
        parse_header(batch).base_offset for batch in after
    ]
    assert text.count("isvalid: true") == len(after)
    assert "count: 0" in text
    assert "deleteHorizonMs: OptionalLong[" in text
    assert [int(offset) for offset in re.findall(r"\| offset: (\d+)", text)] == [
        record.offset for record in records_of(after)
    ]
