"""Segments: what is applied can be read at every offset, survives as the recovery point says, and is equal on all
replicas."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import Corruption, StorageFailed
from muster_coordinator.records.batch import check, parse_header
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveryPoint

from tests.records.made import split_batches
from tests.sim.disk import SimDisk
from tests.storage.log_kit import FOLDER, START_MS, batch, feed, fill, flush, open_log, read_all


def log_files(disk):
    return [name for name in disk.listdir(FOLDER) if name.endswith(".log")]


def test_an_empty_log():
    log = open_log(SimDisk())
    assert (log.log_start_offset, log.next_offset, log.latest_epoch()) == (0, 0, -1)
    assert log.read(0, 1000, True) == b""
    assert log.views() == ()
    assert log.end_offset_for(1) == (-1, -1)
    assert log.offset_by_time(0)() is None
    assert log.max_timestamp()() is None


def test_a_read_at_every_offset_begins_with_the_batch_that_holds_it():
    log = open_log(SimDisk(), segment_bytes=9_000)
    batches = fill(log, 100, records=3)
    for offset in range(log.next_offset):
        data = log.read(offset, 700, True)
        assert data.startswith(batches[offset // 3])
        assert len(data) <= 700
        for one in split_batches(data):
            check(one)
    assert read_all(log) == b"".join(batches)
    assert len(log.views()) > 1


def test_a_read_takes_as_many_whole_batches_as_fit():
    log = open_log(SimDisk(), segment_bytes=1 << 20)
    batches = fill(log, 300, size=100)
    size = len(batches[0])
    for count in (1, 2, 17, 80):
        assert log.read(20, count * size, True) == b"".join(batches[10 : 10 + count])
        assert log.read(20, count * size + size - 1, True) == b"".join(batches[10 : 10 + count])


def test_the_first_batch_is_whole_only_when_asked():
    log = open_log(SimDisk())
    (first,) = fill(log, 1)
    assert log.read(0, 10, True) == first
    assert log.read(0, 10, False) == b""


def test_batches_larger_than_the_index_interval_are_found():
    log = open_log(SimDisk(), segment_bytes=1 << 20)
    batches = fill(log, 12, records=4, size=5_000)
    for offset in range(log.next_offset):
        assert log.read(offset, 1, True) == batches[offset // 4]


def test_offsets_must_be_contiguous():
    log = open_log(SimDisk())
    fill(log, 1)
    with pytest.raises(AssertionError):
        log.append(batch(b"x"))


def test_a_segment_takes_exactly_its_bytes():
    size = len(batch(b"v" * 60, b"v" * 60))
    log = open_log(SimDisk(), segment_bytes=3 * size)
    fill(log, 3)
    assert log.views() == ()
    fill(log, 1)
    assert log.views() == ((0, 6, 3 * size, START_MS + 20),)


def test_a_segment_spans_at_most_its_time_counted_from_its_first_record():
    log = open_log(SimDisk(), segment_ms=1_000)
    for after_ms in (0, 600, 300, 1_000):
        feed(log, batch(b"x", timestamp_ms=START_MS + after_ms))
    assert log.views() == ()
    feed(log, batch(b"x", timestamp_ms=START_MS + 1_001))
    feed(log, batch(b"x", timestamp_ms=START_MS + 2_001))
    assert [view[:2] + view[3:] for view in log.views()] == [(0, 4, START_MS + 1_000)]
    feed(log, batch(b"x", timestamp_ms=START_MS + 2_002))
    assert len(log.views()) == 2


def test_segment_files_hold_batches_only_under_kafkas_name():
    disk = SimDisk()
    log = open_log(disk)
    batches = fill(log, 40)
    log.write_out()
    names = log_files(disk)
    assert len(names) > 2
    assert b"".join(disk.content(f"{FOLDER}/{name}") for name in names) == b"".join(batches)
    for name in names:
        stem, _, end = name.partition(".")
        assert (len(stem), end) == (20, "log")
        assert parse_header(disk.content(f"{FOLDER}/{name}")).base_offset == int(stem)


def test_a_reopened_log_is_cut_at_its_recovery_point_and_goes_on():
    disk = SimDisk()
    log = open_log(disk)
    kept = fill(log, 30, epoch=3)
    recovery_point = flush(log, 30)
    lost = fill(log, 40, epoch=4)
    log.write_out()
    disk.restart()
    again = open_log(disk, recovery_point)
    assert again.next_offset == recovery_point.next_offset == 60
    assert read_all(again) == b"".join(kept)
    assert again.epochs() == ((3, 0),)
    assert b"".join(disk.content(f"{FOLDER}/{name}") for name in log_files(disk)) == b"".join(kept)
    assert fill(again, 40, epoch=4) == lost
    assert read_all(again) == b"".join(kept + lost)
    assert again.views()[:1] == log.views()[:1]


def test_without_a_recovery_point_everything_is_dropped():
    disk = SimDisk()
    log = open_log(disk)
    fill(log, 30)
    flush(log, 30)
    disk.restart()
    log = open_log(disk)
    assert log.next_offset == 0
    assert disk.listdir(FOLDER) == ["00000000000000000000.log", "00000000000000000000.sidx"]


def test_a_log_begins_at_an_installed_checkpoint():
    disk = SimDisk()
    log = open_log(disk, RecoveryPoint(500, 1_000, 1_000, 0), 1_000)
    assert (log.log_start_offset, log.next_offset) == (1_000, 1_000)
    batches = fill(log, 3)
    recovery_point = flush(log, 503)
    disk.restart()
    again = open_log(disk, recovery_point, 1_000)
    assert read_all(again) == b"".join(batches)


def test_files_that_are_not_ours_are_left_alone():
    disk = SimDisk()
    log = open_log(disk)
    batches = fill(log, 30)
    recovery_point = flush(log, 30)
    strays = ["00000000000000000000.log.bak", "7.log", "copy.log", "partition.metadata"]
    for name in strays:
        disk.open(f"{FOLDER}/{name}", create=True)
    disk.restart()
    assert read_all(open_log(disk, recovery_point)) == b"".join(batches)
    assert set(strays) < set(disk.listdir(FOLDER))


@pytest.mark.parametrize("loss", ["file", "bytes", "header"])
def test_less_than_the_recovery_point_promises_is_corruption(loss):
    disk = SimDisk()
    log = open_log(disk)
    fill(log, 30)
    recovery_point = flush(log, 30)
    disk.restart()
    path = f"{FOLDER}/{recovery_point.segment:020d}.log"
    for name in disk.listdir(FOLDER):
        if name.endswith(".sidx"):
            disk.unlink(f"{FOLDER}/{name}")
    if loss == "file":
        disk.unlink(path)
    elif loss == "bytes":
        disk.open(path).truncate(recovery_point.position - 1)
    else:
        disk.damage(path, 8, b"\0\0\0\1")
    with pytest.raises(Corruption):
        open_log(disk, recovery_point)


def test_a_middle_segment_that_is_missing_is_corruption():
    disk = SimDisk()
    log = open_log(disk)
    fill(log, 60)
    recovery_point = flush(log, 60)
    disk.restart()
    disk.unlink(f"{FOLDER}/{log.views()[1].base_offset:020d}.log")
    with pytest.raises(Corruption):
        open_log(disk, recovery_point)


def test_sidecars_are_only_a_help():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=20_000)
    batches = fill(log, 300, epoch=2)
    recovery_point = flush(log, 300)
    views, epochs = log.views(), log.epochs()
    sidecars = [name for name in disk.listdir(FOLDER) if name.endswith(".sidx")]
    assert len(sidecars) == len(views) + 1
    for damage in (None, b"\xff", "gone"):
        for name in sidecars:
            if damage == "gone":
                disk.unlink(f"{FOLDER}/{name}")
            elif damage:
                disk.damage(f"{FOLDER}/{name}", 90, damage)
        disk.restart()
        again = open_log(disk, recovery_point, segment_bytes=20_000)
        assert (again.views(), again.epochs()) == (views, epochs)
        assert read_all(again, max_bytes=5_000) == b"".join(batches)


def test_two_replicas_that_flush_and_restart_at_different_times_have_equal_segments():
    one, two = SimDisk(), SimDisk()
    first = open_log(one, segment_ms=300)
    second = open_log(two, segment_ms=300)
    recovery_point = NO_RECOVERY_POINT
    rand = Random(5)
    applied = []
    for turn in range(200):
        raw = batch(b"v" * rand.randrange(1, 300), timestamp_ms=START_MS + turn * rand.randrange(20))
        applied.append(feed(first, raw))
        feed(second, raw)
        if turn % 7 == 0:
            flush(first, turn)
        if turn % 31 == 0:
            recovery_point = flush(second, turn)
        if turn % 43 == 0:
            two.crash(rand)
            second = open_log(two, recovery_point, segment_ms=300)
            for again in applied:
                if parse_header(again).base_offset >= second.next_offset:
                    second.append(again)
    first.write_out()
    second.write_out()
    assert log_files(one) == log_files(two)
    assert len(log_files(one)) > 5
    for name in log_files(one):
        assert one.content(f"{FOLDER}/{name}") == two.content(f"{FOLDER}/{name}")
    assert first.views() == second.views()


def test_the_log_start_drops_whole_segments_and_reads_begin_there():
    disk = SimDisk()
    log = open_log(disk)
    batches = fill(log, 60)
    flush(log, 60)
    third = log.views()[2].base_offset
    log.advance_start(third + 1)
    log.advance_start(third - 1)
    assert log.log_start_offset == third + 1
    assert log.views()[0].base_offset == third
    assert log.read(third + 1, 1, True) == batches[(third + 1) // 2]
    recovery_point = flush(log, 61)
    assert log_files(disk)[0] == f"{0:020d}.log", (
        "a start before this recovery point is durable needs the segment of the last"
    )
    recovery_point = flush(log, 61)
    assert log_files(disk)[0] == f"{third:020d}.log"
    assert not [name for name in disk.listdir(FOLDER) if name.endswith(".sidx") and int(name[:20]) < third]
    disk.restart()
    again = open_log(disk, recovery_point, third + 1)
    assert read_all(again) == b"".join(batches[third // 2 :])


def test_a_start_removes_segments_below_the_log_start_that_a_crash_left():
    disk = SimDisk()
    log = open_log(disk)
    fill(log, 60)
    recovery_point = flush(log, 60)
    second = log.views()[1].base_offset
    disk.restart()
    again = open_log(disk, recovery_point, second)
    flush(again, 60)
    assert log_files(disk)[0] == f"{second:020d}.log"


@pytest.mark.parametrize("seed", range(8))
def test_a_segment_that_was_sealed_and_dropped_since_the_last_flush_is_whole_after_a_power_loss(seed):
    """Its file stays until the next but one flush, and a start whose log start is an older one walks over it."""
    disk = SimDisk()
    log = open_log(disk)
    fill(log, 5)
    flush(log, 5)
    while len(log.views()) < 2:
        fill(log, 1)
    start = log.views()[1].base_offset
    log.advance_start(start)
    recovery_point = flush(log, 100)
    disk.crash(Random(seed))
    again = open_log(disk, recovery_point)
    assert again.next_offset == recovery_point.next_offset
    again.advance_start(start)
    assert read_all(again) == read_all(again, start)


def test_the_whole_log_may_be_deleted_up_to_its_end():
    log = open_log(SimDisk())
    fill(log, 30)
    log.advance_start(log.next_offset)
    assert log.read(log.next_offset, 100, True) == b""
    assert log.views() == ()
    more = fill(log, 2)
    assert read_all(log) == b"".join(more)


def test_epochs_answer_offset_for_leader_epoch():
    log = open_log(SimDisk())
    for epoch in (2, 5, 9):
        fill(log, 10, epoch=epoch)
    assert log.epochs() == ((2, 0), (5, 20), (9, 40))
    assert log.latest_epoch() == 9
    assert [log.end_offset_for(epoch) for epoch in (0, 2, 3, 5, 8, 9)] == [
        (0, 0),
        (2, 20),
        (2, 20),
        (5, 40),
        (5, 40),
        (9, 60),
    ]
    assert log.end_offset_for(10) == log.end_offset_for(-1) == (-1, -1)
    log.advance_start(30)
    assert log.epochs() == ((5, 30), (9, 40))
    assert log.end_offset_for(3) == (3, 30)


def test_a_failed_sync_ends_it():
    disk = SimDisk()
    log = open_log(disk)
    fill(log, 3)
    disk.fail_next("sync")
    with pytest.raises(StorageFailed):
        log.flush_job(3)()


def test_a_failed_write_is_a_storage_failure():
    disk = SimDisk()
    log = open_log(disk)
    disk.fail_next("pwrite")
    with pytest.raises(StorageFailed):
        fill(log, 30)


def test_many_reads_keep_few_segments_loaded():
    disk = SimDisk()
    log = open_log(disk)
    batches = fill(log, 200)
    flush(log, 200)
    assert read_all(log) == b"".join(batches)
    assert sum(segment.loaded for segment in log._segments[:-1]) <= 5
    assert log.size_bytes() == len(b"".join(batches))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_after_any_crash_the_recovery_point_and_the_replay_give_the_log_back(data):
    disk = SimDisk()
    rand = Random(data.draw(st.integers(0, 2**32), label="seed"))
    applied = []
    recovery_point = NO_RECOVERY_POINT
    log = open_log(disk, segment_bytes=700)
    for _ in range(data.draw(st.integers(1, 4), label="crashes")):
        for _ in range(rand.randrange(1, 30)):
            applied.append(feed(log, batch(b"v" * rand.randrange(1, 200))))
            if rand.random() < 0.2:
                recovery_point = flush(log, len(applied))
        if rand.random() < 0.5:
            log.flush_job(len(applied))()  # durable, but its recovery point never reached the WAL
        disk.crash(rand)
        log = open_log(disk, recovery_point, segment_bytes=700)
        assert log.next_offset == recovery_point.next_offset
        for again in applied[log.next_offset :]:
            log.append(again)
        assert read_all(log) == b"".join(applied)


def test_the_first_recovery_point_rests_on_a_folder_whose_own_name_is_durable():
    """Folders of new partitions are made without a sync each: the first flush makes up for it, and only that one."""
    disk = SimDisk()
    disk.mkdir(FOLDER, durable=False)
    log = open_log(disk)
    synced = []
    disk.cost = lambda operation, path, size: synced.append(path) if operation == "sync_dir" else None
    fill(log, 3)
    recovery_point = flush(log, 3)
    assert set(synced) == {FOLDER, FOLDER.rpartition("/")[0]}
    synced.clear()
    fill(log, 3)
    flush(log, 6)
    reopened = open_log(disk, recovery_point)
    fill(reopened, 1)
    flush(reopened, 7)
    assert FOLDER.rpartition("/")[0] not in synced
