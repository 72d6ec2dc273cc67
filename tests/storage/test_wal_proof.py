"""A damaged last batch is told from a torn one by what was written of its sync, apart from it."""

import errno
from random import Random

import pytest
from muster_coordinator.ids import GroupNo
from muster_coordinator.storage.wal_losses import LOSSES_NAME
from muster_coordinator.storage.wal_proof import PROOF_NAME, SLOTS_AT

from tests.sim.disk import SimDisk
from tests.storage.wal_kit import FOLDER, all_entries, commit, entries, open_wal, writes

FIRST = f"{FOLDER}/0000000000000001.wal"
PROOF = f"{FOLDER}/{PROOF_NAME}"
LOSSES = f"{FOLDER}/{LOSSES_NAME}"
ONE, TWO, OTHER = GroupNo(1), GroupNo(2), GroupNo(9)


def written() -> tuple[SimDisk, int, int]:
    """Entries 1-2 of groups 1 and 2, entry 3 of group 1 in a last batch; where that begins and ends."""
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 3)), writes(2, entries(1, 3)))
    begin = wal._position
    commit(wal, writes(1, entries(3, 4)))
    end = wal._position
    wal.close()
    disk.restart()
    return disk, begin, end


def suspended(wal) -> set[GroupNo]:
    return {group for group in (ONE, TWO, OTHER) if wal.is_suspended(group)}


def test_each_flipped_bit_of_a_last_batch_that_was_synced_is_a_loss() -> None:
    whole, begin, end = written()
    content = whole.content(FIRST)
    unseen = []
    for at in range(begin, end):
        disk, _, _ = written()
        disk.damage(FIRST, at, bytes((content[at] ^ 1 << at % 8,)))
        wal = open_wal(disk)
        assert all_entries(wal, 2) == list(entries(1, 3))
        if suspended(wal) != {ONE, TWO, OTHER}:
            unseen.append(at)  # padding, which no record's CRC covers
            assert all_entries(wal, 1) == list(entries(1, 4)), at
        else:
            assert all_entries(wal, 1) == list(entries(1, 3)), at
    assert unseen == list(range(begin + 32 + 3, begin + 32 + 8)), unseen


def test_a_whole_log_is_no_loss_and_neither_is_an_unsynced_tail() -> None:
    disk, _, _ = written()
    wal = open_wal(disk)
    assert not suspended(wal)
    assert not disk.exists(LOSSES)
    wal.stage(writes(1, entries(4, 5)))
    job = wal.take_job()
    assert job is not None
    disk.fail_next("sync", errno.EIO, FIRST)
    with pytest.raises(Exception, match="injected"):
        job()
    disk.restart()
    disk.damage(FIRST, len(disk.content(FIRST).rstrip(b"\0")) - 9, b"\xee")
    again = open_wal(disk)
    assert not suspended(again)
    assert all_entries(again, 1) == list(entries(1, 4))


@pytest.mark.parametrize("seed", range(40))
def test_a_power_loss_is_never_taken_for_a_loss_of_what_was_promised(seed: int) -> None:
    """Whatever arrives of the proof and of the last batch, which was being written, and of each sector of both."""
    rand = Random(seed)
    disk = SimDisk()
    wal = open_wal(disk)
    for at in range(1, 8):
        commit(wal, writes(1, entries(at, at + 1, size=rand.randrange(10, 700))))
    wal.stage(writes(1, entries(8, 9, size=700)))
    job = wal.take_job()
    assert job is not None
    disk.power_off_after(rand.randrange(1, 3))
    try:
        job()
    except BaseException as error:  # noqa: BLE001
        assert "PowerLoss" in type(error).__name__
    disk.crash(rand)
    again = open_wal(disk)
    assert not suspended(again)
    assert len(all_entries(again, 1)) >= 7


def test_a_loss_is_remembered_until_the_group_is_whole_again() -> None:
    disk, begin, _ = written()
    disk.damage(FIRST, begin + 40, b"\xee")
    for _ in range(2):
        wal = open_wal(disk)
        assert suspended(wal) == {ONE, TWO, OTHER}
        disk.crash(Random(1))
    wal = open_wal(disk)
    wal.suspend(ONE, False)()
    disk.crash(Random(2))
    wal = open_wal(disk)
    assert suspended(wal) == {TWO, OTHER}
    wal.all_known()
    wal.suspend(TWO, False)()
    disk.crash(Random(3))
    wal = open_wal(disk)
    assert not suspended(wal)


@pytest.mark.parametrize("power_off", range(1, 12))
def test_a_start_that_ends_while_it_finds_a_loss_finds_it_again(power_off: int) -> None:
    disk, begin, _ = written()
    disk.damage(FIRST, begin + 40, b"\xee")
    disk.power_off_after(power_off)
    try:
        open_wal(disk)
    except BaseException as error:  # noqa: BLE001
        assert "PowerLoss" in type(error).__name__
    disk.crash(Random(power_off))
    assert suspended(open_wal(disk)) == {ONE, TWO, OTHER}


def test_what_was_told_at_run_time_is_remembered() -> None:
    disk, _, _ = written()
    wal = open_wal(disk)
    wal.suspend(ONE, True)()
    disk.crash(Random(1))
    assert suspended(open_wal(disk)) == {ONE}


def test_one_damaged_slot_costs_no_proof_and_two_prove_nothing() -> None:
    for damaged, expected in ((SLOTS_AT[:1], 1), (SLOTS_AT[1:], 1), (SLOTS_AT, 0)):
        disk, begin, _ = written()
        wal = open_wal(disk)  # both slots say the same after a start
        wal.close()
        disk.damage(FIRST, begin + 40, b"\xee")
        for at in damaged:
            disk.damage(PROOF, at + 9, b"\xee")
        assert bool(suspended(open_wal(disk))) == bool(expected)


def test_a_damaged_memory_suspends_everything() -> None:
    disk, _, _ = written()
    open_wal(disk).suspend(ONE, True)()
    disk.damage(LOSSES, 5, b"\xee")
    assert suspended(open_wal(disk)) == {ONE, TWO, OTHER}


def test_a_disk_without_room_for_the_proof_costs_the_proof_only() -> None:
    disk, _, _ = written()
    disk.unlink(PROOF)
    disk.fail_next("create", errno.ENOSPC, PROOF)
    wal = open_wal(disk)
    commit(wal, writes(1, entries(4, 5)))
    assert all_entries(wal, 1) == list(entries(1, 5))
