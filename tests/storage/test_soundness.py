"""What is read is what was written, or a damage that is told: never other bytes, whichever byte changed on the disk."""

import errno
from random import Random

import pytest
from muster_coordinator.errors import Corruption
from muster_coordinator.limits import MIB
from muster_coordinator.storage import limits
from muster_coordinator.storage.segment_index import segment_name, sidecar_name
from muster_coordinator.storage.soundness import Soundness

from tests.sim.disk import SimDisk
from tests.storage.log_kit import FOLDER, START_MS, batch, feed, fill, flush, open_log

EPOCH_BYTES = range(12, 16)


def reopened(disk, recovery_point, **options):
    disk.restart()
    return open_log(disk, recovery_point, **options)


def read_from_each_offset(log):
    """(offset, what was read, None for a told damage)"""
    found = []
    for offset in range(log.next_offset):
        try:
            found.append((offset, log.read(offset, 400, True)))
        except Corruption:
            found.append((offset, None))
    return found


@pytest.mark.parametrize("sidecars", [True, False])
def test_no_changed_byte_of_a_sealed_segment_is_ever_read(sidecars):
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1_200)
    batches = fill(log, 12, records=2, size=20, epoch=3)
    recovery_point = flush(log, 12)
    assert len(log.views()) >= 1
    sealed = log.views()[0]
    name = f"{FOLDER}/{segment_name(0)}"
    if not sidecars:
        disk.unlink(f"{FOLDER}/{sidecar_name(0)}")
    sound = disk.content(name)
    whole = b"".join(batches)
    told = 0
    for at in range(sealed.size_bytes):
        if not sidecars and at % len(batches[0]) in EPOCH_BYTES:
            continue  # nothing else says what it was
        changed = bytes([sound[at] ^ (1 << at % 8)])
        disk.damage(name, at, changed)
        try:
            again = reopened(disk, recovery_point, segment_bytes=1_200)
        except Corruption:
            told += 1
        else:
            found = read_from_each_offset(again)
            for offset, data in found:
                assert data is None or (data and whole[len(batches[0]) * (offset // 2) :].startswith(data)), (
                    at,
                    offset,
                )
            damaged = at // len(batches[0])
            assert found[2 * damaged][1] is None, f"byte {at} changed and nobody was told"
            told += 1
        disk.damage(name, at, sound[at : at + 1])
        if not sidecars and disk.exists(f"{FOLDER}/{sidecar_name(0)}"):
            disk.unlink(f"{FOLDER}/{sidecar_name(0)}")
    assert told >= sealed.size_bytes * 9 // 10


def test_a_damage_in_one_batch_leaves_the_others_readable():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1_200)
    batches = fill(log, 12, records=2, size=20)
    recovery_point = flush(log, 12)
    size = len(batches[0])
    disk.damage(f"{FOLDER}/{segment_name(0)}", 2 * size + size - 3, b"!")
    again = reopened(disk, recovery_point, segment_bytes=1_200)
    assert again.read(0, size, True) == batches[0]
    assert again.read(2, size, True) == batches[1]
    with pytest.raises(Corruption, match="CRC"):
        again.read(4, size, True)
    assert again.read(6, size, True) == batches[3]


def test_what_cannot_be_read_is_told_and_ends_nothing():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1_200)
    fill(log, 12, records=2, size=20)
    recovery_point = flush(log, 12)
    again = reopened(disk, recovery_point, segment_bytes=1_200)
    disk.fail_next("pread", errno.EIO, segment_name(0))
    with pytest.raises(Corruption, match="injected"):
        again.read(0, 500, True)
    assert again.read(0, 500, True)


def test_a_changed_record_is_not_found_by_its_time():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1_200)
    for n in range(12):
        feed(log, batch(b"v" * 20, b"w", timestamps_ms=[START_MS + 10 * n, START_MS + 10 * n + 5], timestamp_ms=0))
    recovery_point = flush(log, 12)
    again = reopened(disk, recovery_point, segment_bytes=1_200)
    assert again.offset_by_time(START_MS + 25)().offset == 5
    size = again.views()[0].size_bytes // (again.views()[0].next_offset // 2)
    disk.damage(f"{FOLDER}/{segment_name(0)}", 2 * size + 64, b"\x30")
    with pytest.raises(Corruption):
        again.offset_by_time(START_MS + 25)()


def test_what_this_life_wrote_is_read_in_large_portions_and_the_rest_in_small_ones_once():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=8 * MIB)
    fill(log, 40, records=1, size=50_000)
    assert len(log.read(0, MIB, True)) > limits.UNCHECKED_READ_BYTES
    recovery_point = flush(log, 40)
    again = reopened(disk, recovery_point, segment_bytes=8 * MIB)
    offset, read = 0, 0
    while offset < again.next_offset:
        data = again.read(offset, MIB, True)
        assert len(data) <= limits.UNCHECKED_READ_BYTES
        offset += len(data) // 50_000
        read += len(data)
    assert read == log.size_bytes()
    assert len(again.read(0, MIB, True)) > limits.UNCHECKED_READ_BYTES


def test_ranges_known_to_be_sound_only_hold_what_was_checked():
    rand = Random(1)
    for _ in range(300):
        soundness, checked = Soundness(1_000), set()
        for _ in range(8):
            low = rand.randrange(0, 990)
            high = rand.randrange(low + 1, 1_000)
            soundness._note(low, high)
            checked |= set(range(low, high))
            assert set(range(soundness._low, soundness._high)) <= checked
