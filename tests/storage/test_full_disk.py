"""A disk without space costs no batch, no segment and no state: what can wait waits, in order, and is written later."""

import errno

import pytest
from muster_coordinator.errors import DiskFull, StorageFailed
from muster_coordinator.groups.effects import CheckpointParts
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import stamp
from muster_coordinator.storage.checkpoint import CheckpointMeta, checkpoint_files, open_checkpoint, write_checkpoint
from muster_coordinator.storage.limits import SEGMENT_WRITE_BYTES, SIDECARS_LEFT_OUT_MAX

from tests.sim.disk import SimDisk
from tests.storage.log_kit import FOLDER, batch, fill, flush, open_log, read_all

META = CheckpointMeta(GroupNo(1), 10, 2)


def until_full(log, disk, free_bytes):
    """Append until nothing is taken any more; what was taken, and the batch that was not."""
    disk.capacity_bytes = disk._used() + free_bytes
    taken = []
    while len(taken) < 10_000:
        raw = stamp(batch(b"v" * 500), log.next_offset, 1)
        before = (log.next_offset, log.size_bytes(), log.latest_epoch(), log.unflushed_bytes())
        try:
            log.append(raw)
        except DiskFull:
            assert before == (log.next_offset, log.size_bytes(), log.latest_epoch(), log.unflushed_bytes())
            return taken, raw
        taken.append(raw)
    raise AssertionError("the disk never became full")


@pytest.mark.parametrize("free_bytes", [0, 1, 70_000, 150_000])
@pytest.mark.parametrize("segment_bytes", [1 << 20, 3_000])
def test_a_log_takes_what_memory_may_hold_and_goes_on_where_it_was(free_bytes, segment_bytes):
    disk, twin_disk = SimDisk(), SimDisk()
    log, twin = open_log(disk, segment_bytes=segment_bytes), open_log(twin_disk, segment_bytes=segment_bytes)
    first = fill(log, 20)
    flush(log, 20)
    taken, refused = until_full(log, disk, free_bytes)
    assert sum(map(len, taken)) <= free_bytes + SEGMENT_WRITE_BYTES + 1_000
    with pytest.raises(DiskFull):
        log.append(refused)
    with pytest.raises(DiskFull):
        log.flush_job(40)
    disk.capacity_bytes = None
    log.append(refused)
    flush(log, 60)
    everything = [*first, *taken, refused]
    assert read_all(log) == b"".join(everything)
    for one in everything:
        twin.append(one)
    flush(twin, 60)
    assert disk.listdir(FOLDER) == twin_disk.listdir(FOLDER)
    for name in disk.listdir(FOLDER):
        assert disk.content(f"{FOLDER}/{name}") == twin_disk.content(f"{FOLDER}/{name}")


def test_readers_see_the_log_end_before_what_is_in_memory_only():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1 << 20)
    written = fill(log, 20)
    log.write_out()
    until_full(log, disk, 0)
    assert log.read(0, 1 << 20, True) == b"".join(written)
    assert log.read(40, 1 << 20, True) == b""
    assert log.read(log.next_offset - 1, 1 << 20, True) == b""
    with pytest.raises(DiskFull):
        log.offset_by_time(0)
    assert log.files() == ((f"{FOLDER}/{0:020d}.log", len(b"".join(written))),)


def test_a_new_segment_begins_when_its_file_can_be_made():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1_000)
    batches = fill(log, 4)
    disk.fail_next("create", errno.EDQUOT)
    more = stamp(batch(b"v" * 500), log.next_offset, 1)
    with pytest.raises(DiskFull):
        log.append(more)
    log.append(more)
    assert read_all(log) == b"".join([*batches, more])
    disk.fail_next("create", errno.EIO)
    with pytest.raises(StorageFailed):
        fill(log, 10)


def test_a_sidecar_without_space_is_written_with_the_next_flush():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1_000)
    fill(log, 40)
    job = log.flush_job(40)
    sealed = [name for name in disk.listdir(FOLDER) if name.endswith(".log")]
    assert len(sealed) > 2 * SIDECARS_LEFT_OUT_MAX
    for _ in sealed:
        disk.fail_next("pwrite", errno.ENOSPC, ".sidx")
    job()
    log.flush_done()
    assert len(job.without) == len(sealed)
    log.left_out(job.without)
    sound = open_log(disk, job.recovery_point, segment_bytes=1_000)  # a start walks the segments
    assert read_all(sound) == read_all(log)
    sound.close()
    fill(log, 1)
    flush(log, 41)
    whole = [name for name in disk.listdir(FOLDER) if name.endswith(".sidx") and disk.content(f"{FOLDER}/{name}")]
    assert SIDECARS_LEFT_OUT_MAX <= len(whole) <= SIDECARS_LEFT_OUT_MAX + 1


@pytest.mark.parametrize("operation", ["pwrite", "create"])
def test_another_error_of_a_sidecar_is_one_of_the_disk(operation):
    disk = SimDisk()
    log = open_log(disk)
    fill(log, 3)
    job = log.flush_job(3)
    disk.fail_next(operation, errno.EIO, ".sidx")
    with pytest.raises(StorageFailed):
        job()


class Image:
    def parts(self):
        return CheckpointParts(b"head", ((b"%06d" % n, b"x" * 1_000) for n in range(3_000)))


def write(disk, meta=META):
    steps = write_checkpoint(disk, "checkpoints/1", meta, Image())
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


@pytest.mark.parametrize(("operation", "nth"), [("create", 1), ("pwrite", 1), ("pwrite", 2), ("sync", 1), ("sync", 3)])
def test_a_checkpoint_without_space_leaves_the_one_before_and_nothing_else(operation, nth):
    disk = SimDisk()
    write(disk)
    (first,) = checkpoint_files(disk, "checkpoints/1")
    seen = 0

    def cost(done, path, _size):
        nonlocal seen
        seen += done == operation and path.endswith(".tmp")
        if done == operation and seen == nth:
            raise OSError(errno.ENOSPC, "no space", path)

    disk.cost = cost
    with pytest.raises(DiskFull):
        write(disk, META._replace(index=20))
    assert disk.listdir("checkpoints/1") == [first.rpartition("/")[2]]
    disk.cost = None
    write(disk, META._replace(index=20))
    assert len(checkpoint_files(disk, "checkpoints/1")) == 2
    assert open_checkpoint(disk, checkpoint_files(disk, "checkpoints/1")[0]).meta.index == 20


@pytest.mark.parametrize("operation", ["rename", "sync_dir"])
def test_a_checkpoint_that_may_have_got_its_name_is_no_small_matter(operation):
    disk = SimDisk()
    disk.mkdir("checkpoints/1")
    disk.fail_next(operation, errno.ENOSPC, "checkpoints/1")
    with pytest.raises(StorageFailed):
        write(disk)
