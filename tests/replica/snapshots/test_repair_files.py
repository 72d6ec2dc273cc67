"""Power loss after each effect of a repair on the disk: the segment is the damaged one or the whole one, and opens."""

from random import Random

import pytest
from muster_coordinator.errors import Corruption
from muster_coordinator.records.crc import crc32c
from muster_coordinator.replica import limits
from muster_coordinator.replica.snapshots import repair_files
from muster_coordinator.replica.snapshots.staging import write_chunk
from muster_coordinator.storage.contract import RecoveryPoint
from muster_coordinator.storage.log_opening import open_segments
from muster_coordinator.storage.segment_index import segment_name, sidecar_name

from tests.sim.disk import PowerLoss, SimDisk
from tests.storage.test_segment_check import BASE, FOLDER, NAME, put, segment

STAGED = repair_files.staged_name(1, BASE)


def synced(disk: SimDisk, names: tuple[str, ...]) -> None:
    for name in names:
        disk.open(name).sync()
    disk.sync_dir(FOLDER)


def repair(disk: SimDisk, data: bytes, summary) -> None:
    repair_files.clear(disk)
    repair_files.begin(disk, STAGED, len(data), limits.DISK_LOW_BYTES)
    for offset in range(0, len(data), 300):
        write_chunk(disk, STAGED, offset, data[offset : offset + 300])
    steps = repair_files.prove(disk, STAGED, FOLDER, summary, crc32c(data))
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            repair_files.put(disk, STAGED, FOLDER, stop.value)
            return


@pytest.mark.parametrize("sidecar", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_each_effect(seed: int, sidecar: bool) -> None:
    rand, after, outcomes, done = Random(seed), 0, set(), False
    while not done:
        disk, data, summary, _ = segment(10, 20, 30, 5, sidecar=sidecar)
        following = f"{FOLDER}/{segment_name(summary.next_offset)}"
        put(disk, following, b"")
        damaged = data[:100] + bytes([data[100] ^ 1]) + data[101:]
        put(disk, NAME, damaged)
        synced(disk, (NAME, following))
        disk.power_off_after(after)
        try:
            repair(disk, data, summary)
            done = True
        except PowerLoss:
            pass
        disk.crash(rand)
        found = disk.content(NAME)
        assert found in (damaged, data)
        outcomes.add(found == data)
        if done:
            assert found == data, "once it returned it stays"
        recovery_point = RecoveryPoint(9, summary.next_offset, summary.next_offset, 0)
        opened = open_segments(disk, FOLDER, recovery_point)
        assert [one.base for one in opened] == [BASE, summary.next_offset]
        repair_files.clear(disk)
        assert not disk.listdir(repair_files.FOLDER)
        repair(disk, data, summary)
        assert disk.content(NAME) == data
        after += 1
    assert outcomes == {True, False}
    assert after > 8


def test_a_copy_that_does_not_fit_the_sidecar_here_is_refused() -> None:
    disk, data, summary, _ = segment(10, 20, 30, 5)
    other = bytearray(data)
    other[15] -= 1  # an epoch: no CRC covers it, and the peer's own CRC of the file would fit
    put(disk, NAME, b"x" * len(data))
    repair_files.begin(disk, STAGED, len(data), limits.DISK_LOW_BYTES)
    write_chunk(disk, STAGED, 0, bytes(other))
    with pytest.raises(Corruption, match="does not fit its index"):
        list(repair_files.prove(disk, STAGED, FOLDER, summary, crc32c(bytes(other))))


def test_a_damaged_sidecar_is_written_again_from_the_copy() -> None:
    disk, data, summary, index = segment(10, 20, 30, 5)
    sidecar = f"{FOLDER}/{sidecar_name(BASE)}"
    put(disk, sidecar, b"rotten")
    repair(disk, data, summary)
    assert disk.content(sidecar) == index.encode()
