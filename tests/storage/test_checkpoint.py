"""Checkpoint files: whole or refused, equal for equal state, published by rename, the WAL's word decides which
counts."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import Corruption, StorageFailed, UnsupportedFormat
from muster_coordinator.groups.effects import CheckpointBody, CheckpointParts
from muster_coordinator.raft.quorum import Config
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage import limits
from muster_coordinator.storage.checkpoint import (
    CheckpointMeta,
    checkpoint_files,
    checkpoint_name,
    encode_checkpoint,
    newest_checkpoint,
    open_checkpoint,
    remove_leftovers,
    write_checkpoint,
)

from tests.sim.disk import PowerLoss, SimDisk
from tests.sim.loop import finish

FOLDER = "checkpoints/7"
META = CheckpointMeta(7, 41, 3, 100, 20, ((1, 20), (3, 60)), 2)
BODY = CheckpointBody(b"head", ((b"b", b"blob of b"), (b"a", b""), (b"c" * 300, bytes(5000))))


class Image:
    """A state machine's snapshot."""

    def __init__(self, body=BODY):
        self._body = body

    def parts(self):
        return CheckpointParts(self._body.head, iter(sorted(self._body.blobs)))


def written(disk, meta=META, body=BODY):
    finish(write_checkpoint(disk, FOLDER, meta, Image(body)))
    return f"{FOLDER}/{checkpoint_name(meta.index, meta.term)}"


def test_what_was_written_is_read_blob_by_blob():
    disk = SimDisk()
    checkpoint = open_checkpoint(disk, written(disk))
    assert checkpoint.meta == META
    assert checkpoint.head == b"head"
    assert checkpoint.keys() == (b"a", b"b", b"c" * 300)
    assert checkpoint.blob(b"b") == b"blob of b"
    with pytest.raises(KeyError):
        checkpoint.blob(b"absent")
    list(checkpoint.verify())
    assert checkpoint.body() == CheckpointBody(b"head", tuple(sorted(BODY.blobs)))


def test_a_roll_comes_back_and_without_one_an_older_release_can_read_the_file():
    disk = SimDisk()
    with_roll = META._replace(roll=(2**31 - 1, 2**63 - 1))
    path = written(disk, with_roll)
    assert disk.content(path)[4:6] == b"\0\2"
    checkpoint = open_checkpoint(disk, path)
    list(checkpoint.verify())
    assert checkpoint.meta == with_roll
    assert checkpoint.body() == CheckpointBody(b"head", tuple(sorted(BODY.blobs)))
    assert disk.content(written(disk, META._replace(index=42)))[4:6] == b"\0\1"


def test_a_configuration_comes_back_with_a_roll_and_without_one_and_only_then_is_the_version_new():
    disk = SimDisk()
    config = Config((1, 2, 1 << 32 | 3), (1, 2, 3), (7,))
    for roll in (None, (2**31 - 1, 2**63 - 1)):
        with_config = META._replace(roll=roll, config=config)
        path = written(disk, with_config)
        assert disk.content(path)[4:6] == b"\0\3"
        checkpoint = open_checkpoint(disk, path)
        list(checkpoint.verify())
        assert checkpoint.meta == with_config
        assert checkpoint.body() == CheckpointBody(b"head", tuple(sorted(BODY.blobs)))


def test_opening_reads_no_blob():
    disk = SimDisk()
    body = CheckpointBody(b"", tuple((b"%d" % n, bytes(100_000)) for n in range(20)))
    path = written(disk, body=body)
    read = []
    disk.cost = lambda operation, _path, _size: read.append(operation)
    open_checkpoint(disk, path)
    assert read.count("pread") <= 4


def test_an_empty_state_has_a_checkpoint_too():
    disk = SimDisk()
    empty = CheckpointMeta(0, 1, 1)
    checkpoint = open_checkpoint(disk, written(disk, empty, CheckpointBody(b"", ())))
    assert (checkpoint.meta, checkpoint.body()) == (empty, CheckpointBody(b"", ()))


@pytest.mark.parametrize("keys", [(b"a", b"a"), (b"b", b"a"), (b"a", b"b", b"aa")])
def test_two_blobs_of_one_key_and_blobs_out_of_order_are_our_bug(keys):
    """Equal state gives equal bytes only in one order."""
    with pytest.raises(AssertionError):
        list(encode_checkpoint(META, CheckpointParts(b"", iter([(key, b"") for key in keys]))))


def test_the_loop_has_the_interpreter_between_steps_and_the_disk_little_at_once():
    disk = SimDisk()
    synced = []
    disk.cost = lambda operation, _path, size: synced.append(size) if operation == "sync" else None
    blob_bytes, blobs = 1_000, 3_000
    body = CheckpointBody(b"", tuple((b"%06d" % n, bytes(blob_bytes)) for n in range(blobs)))
    steps = sum(1 for _ in write_checkpoint(disk, FOLDER, META, Image(body)))
    assert steps >= blobs * blob_bytes // (limits.CHECKPOINT_STEP_BYTES + blob_bytes)
    assert len(synced) == 3, "every MiB"


@pytest.mark.parametrize("config", [None, Config((1, 2, 1 << 32 | 3), (), (7,))])
def test_damage_to_any_byte_is_found(config):
    disk = SimDisk()
    meta = META._replace(config=config)
    path = written(disk, meta, body=CheckpointBody(b"head", ((b"a", b"12345"), (b"b", b"678"))))
    content = disk.content(path)
    for at in range(len(content)):
        disk.damage(path, at, bytes((content[at] ^ 0x40,)))
        with pytest.raises(Corruption):
            list(open_checkpoint(disk, path).verify())
        disk.damage(path, at, content[at : at + 1])
    for size in (0, 10, len(content) - 1):
        disk.open(path).truncate(size)
        with pytest.raises(Corruption):
            open_checkpoint(disk, path)


def test_a_file_of_a_newer_release_is_refused_as_such():
    disk = SimDisk()
    path = written(disk)
    size = 4 + 2 + 2 + 4 + 8 + 4 + 8 + 8 + 4 + 4 + 8
    head = disk.content(path)[:4] + b"\0\4" + disk.content(path)[6:size]
    disk.damage(path, 0, head + crc32c(head).to_bytes(4, "big"))
    with pytest.raises(UnsupportedFormat, match="version 4"):
        newest_checkpoint(disk, FOLDER, (41, 3), 1)


def test_the_two_newest_stay():
    disk = SimDisk()
    for index in (5, 9, 100, 40_000):
        written(disk, META._replace(index=index))
    assert [path[-31:] for path in checkpoint_files(disk, FOLDER)] == [
        checkpoint_name(40_000, 3)[-31:],
        checkpoint_name(100, 3)[-31:],
    ]


def test_the_wal_says_which_checkpoint_counts():
    disk = SimDisk()
    assert newest_checkpoint(disk, FOLDER, (0, 0), 1) is None
    written(disk, META._replace(index=10))
    written(disk, META._replace(index=20))
    assert newest_checkpoint(disk, FOLDER, (0, 0), 1) is None
    assert newest_checkpoint(disk, FOLDER, (10, 3), 5)[0].index == 10
    assert newest_checkpoint(disk, FOLDER, (20, 3), 21)[0].index == 20


def test_files_that_are_not_ours_are_left_alone():
    disk = SimDisk()
    written(disk)
    disk.open(f"{FOLDER}/copy.ckpt", create=True)
    assert newest_checkpoint(disk, FOLDER, (41, 3), 1)[0] == META
    assert len(checkpoint_files(disk, FOLDER)) == 1


def test_a_damaged_checkpoint_is_passed_over_while_the_wal_reaches_further_back():
    disk = SimDisk()
    written(disk, META._replace(index=10))
    path = written(disk, META._replace(index=20))
    disk.damage(path, 5, b"\xff")
    assert newest_checkpoint(disk, FOLDER, (20, 3), 11)[0].index == 10
    assert newest_checkpoint(disk, FOLDER, (20, 3), 1)[0].index == 10
    with pytest.raises(Corruption, match="where the WAL begins"):
        newest_checkpoint(disk, FOLDER, (20, 3), 12)
    disk.unlink(checkpoint_files(disk, FOLDER)[1])
    assert newest_checkpoint(disk, FOLDER, (20, 3), 1) is None


def test_a_flipped_bit_anywhere_in_the_newest_checkpoint_leaves_the_one_before():
    """In a blob as well: those are not looked at by opening the file."""
    disk = SimDisk()
    written(disk, META._replace(index=10))
    path = written(disk, META._replace(index=20))
    whole = disk.content(path)
    for at in range(len(whole)):
        disk.damage(path, at, bytes([whole[at] ^ 1 << at % 8]))
        meta, _ = newest_checkpoint(disk, FOLDER, (20, 3), 11)
        assert meta.index == 10
        disk.damage(path, at, whole[at : at + 1])
    assert newest_checkpoint(disk, FOLDER, (20, 3), 11)[0].index == 20


def test_a_failed_sync_is_fatal():
    disk = SimDisk()
    disk.fail_next("sync")
    with pytest.raises(StorageFailed):
        finish(write_checkpoint(disk, FOLDER, META, Image()))
    assert checkpoint_files(disk, FOLDER) == ()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), effects=st.integers(0, 9))
def test_a_crash_while_writing_leaves_the_one_before(seed, effects):
    disk = SimDisk()
    first = written(disk, META._replace(index=10))
    disk.power_off_after(effects)
    done = False
    try:
        second = written(disk, META._replace(index=20))
        done = True
    except PowerLoss:
        second = f"{FOLDER}/{checkpoint_name(20, 3)}"
    disk.crash(Random(seed))
    remove_leftovers(disk, FOLDER)
    assert not [name for name in disk.listdir(FOLDER) if name.endswith(".tmp")]
    list(open_checkpoint(disk, first).verify())
    assert disk.exists(second) or not done
    if disk.exists(second):
        list(open_checkpoint(disk, second).verify())
