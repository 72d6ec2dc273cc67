"""Tails carried into the newest file: who writes little, or can have no checkpoint, keeps no old file, and loses
nothing by it."""

from random import Random

import pytest
from muster_coordinator.raft.messages import HardState

from tests.sim.disk import PowerLoss, SimDisk
from tests.storage.wal_kit import FILE_BYTES, all_entries, commit, entries, open_wal, wal_files, writes

SMALL, LARGE = 9, 8
CROWDED_FILE_BYTES = 512 << 10


def busy(wal, last, turns):
    """Another group that is checkpointed as it goes."""
    for _ in range(turns):
        commit(wal, writes(1, entries(last + 1, last + 5, size=200), checkpoint=(last, 1) if last else None))
        last += 4
    return last


def gone(disk):
    return "0000000000000001.wal" not in wal_files(disk)


def test_a_small_tail_without_a_checkpoint_never_keeps_a_file():
    disk = SimDisk()
    wal = open_wal(disk, files_max=6)
    commit(wal, writes(SMALL, entries(1, 4, term=2), hard=(2, 1, 0)))
    last = 0
    for _ in range(20):
        last = busy(wal, last, 10)
        assert not wal.full()
        assert wal.pinning() == ()
        assert all_entries(wal, SMALL) == list(entries(1, 4, term=2))
    assert gone(disk)
    disk.crash(Random(1))
    found = open_wal(disk)
    assert all_entries(found, SMALL) == list(entries(1, 4, term=2))
    assert found.groups()[SMALL][:4] == (HardState(2, 1, 0), 1, 0, 3)
    assert all_entries(found, 1)[-4:] == list(entries(last - 3, last + 1, size=200))


def test_only_what_lies_above_the_checkpoint_is_carried():
    disk = SimDisk()
    wal = open_wal(disk, files_max=6)
    commit(wal, writes(SMALL, entries(1, 30, term=2)))
    commit(wal, writes(SMALL, checkpoint=(27, 2)))
    busy(wal, 0, 40)
    assert gone(disk)
    disk.restart()
    found = open_wal(disk).groups()[SMALL]
    assert (found.first_index, found.compacted_term, found.last_index) == (28, 2, 29)


def test_a_large_tail_is_carried_only_when_no_checkpoint_can_free_it():
    disk = SimDisk()
    wal = open_wal(disk, files_max=6)
    tail = entries(1, 8, size=200)
    commit(wal, writes(LARGE, tail))
    last = busy(wal, 0, 24)
    assert wal.pinning() == (LARGE,)
    assert not gone(disk)
    wal.carry(LARGE)
    busy(wal, last, 40)
    assert gone(disk)
    disk.restart()
    assert all_entries(open_wal(disk), LARGE) == list(tail)


def test_many_small_tails_are_carried_a_few_a_batch():
    disk = SimDisk()
    wal = open_wal(disk, files_max=16, file_bytes=1 << 16)
    last, most = 0, 0
    for group in range(100, 400):
        commit(wal, writes(group, entries(1, 3, size=300)))
        last = busy(wal, last, 1)
    assert wal.carried_bytes == 0
    while not gone(disk):
        before = wal.carried_bytes
        commit(wal, writes(1, entries(last + 1, last + 5, size=200), checkpoint=(last, 1) if last else None))
        most = max(most, wal.carried_bytes - before)
        last += 4
        assert not wal.full()
    assert 0 < most <= 64 * 2_000


def test_a_pressed_wal_carries_although_nobody_writes():
    disk = SimDisk()
    wal = open_wal(disk, files_max=4)
    commit(wal, writes(SMALL, entries(1, 3)))
    commit(wal, writes(LARGE, entries(1, 8, size=200)))
    last = 0
    while not wal.pressed():
        last = busy(wal, last, 1)
    assert wal.used_bytes() < 5 * FILE_BYTES
    wal.carry(LARGE)
    while (job := wal.take_job()) is not None:
        job()
        wal.job_done()
    assert gone(disk)
    assert wal.take_job() is None


def test_entries_are_read_where_they_were_until_their_copy_is_durable():
    disk = SimDisk()
    wal = open_wal(disk, files_max=6, cache_bytes_max=0)
    tail = entries(1, 4)
    commit(wal, writes(SMALL, tail))
    last, carried = 0, False
    while not carried:
        before = wal.carried_bytes
        wal.stage(writes(1, entries(last + 1, last + 5, size=200), checkpoint=(last, 1) if last else None))
        last += 4
        job = wal.take_job()
        carried = wal.carried_bytes > before
        assert wal.read(SMALL, 1, 4, 1 << 20) == list(tail)
        job()
        wal.job_done()
        assert wal.read(SMALL, 1, 4, 1 << 20) == list(tail)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_tail_that_is_superseded_while_it_is_being_carried_stays_superseded(cut):
    disk = SimDisk()
    wal = open_wal(disk, files_max=6, cache_bytes_max=0)
    commit(wal, writes(SMALL, entries(1, 4)))
    last, carried = 0, False
    while not carried:
        before = wal.carried_bytes
        wal.stage(writes(1, entries(last + 1, last + 5, size=200), checkpoint=(last, 1) if last else None))
        last += 4
        job = wal.take_job()
        carried = wal.carried_bytes > before
        if carried:
            wal.stage(writes(SMALL, entries(cut, 3, term=3) or entries(cut, cut + 1, term=3)))
        job()
        wal.job_done()
    expected = [*entries(1, cut), *(entries(cut, 3, term=3) or entries(cut, cut + 1, term=3))]
    assert wal.read(SMALL, 1, 9, 1 << 20) == expected
    last = busy(wal, last, 60)
    assert wal.read(SMALL, 1, 9, 1 << 20) == expected
    disk.restart()
    assert all_entries(open_wal(disk), SMALL) == expected


def test_what_is_superseded_by_the_very_batch_that_carries_it_stays_superseded():
    disk = SimDisk()
    wal = open_wal(disk, files_max=6, cache_bytes_max=0)
    commit(wal, writes(SMALL, entries(1, 4)))
    last, term = 0, 1
    while not gone(disk):
        term += 1
        commit(
            wal,
            writes(SMALL, entries(3, 5, term=term)),
            writes(1, entries(last + 1, last + 5, size=200), checkpoint=(last, 1) if last else None),
        )
        last += 4
    expected = [*entries(1, 3), *entries(3, 5, term=term)]
    assert wal.read(SMALL, 1, 9, 1 << 20) == expected
    disk.restart()
    assert all_entries(open_wal(disk), SMALL) == expected


def test_a_batch_that_adds_entries_and_takes_them_back_below_is_no_batch_to_carry_in():
    """Behind a copy that ends where the second run begins, the first run would be a gap."""
    disk = SimDisk()
    wal = open_wal(disk, files_max=6, cache_bytes_max=0)
    commit(wal, writes(SMALL, entries(1, 4)))
    last, term = 0, 1
    while not gone(disk):
        wal.stage(writes(1, entries(last + 1, last + 5, size=200), checkpoint=(last, 1) if last else None))
        last += 4
        if wal.used_bytes() > 4 * FILE_BYTES and term == 1:
            term = 2
            wal.stage(writes(SMALL, entries(4, 6)))
            wal.stage(writes(SMALL, entries(2, 3, term=2)))
        commit(wal)
    expected = [*entries(1, 2), *entries(2, 3, term=2)]
    assert wal.read(SMALL, 1, 9, 1 << 20) == expected
    disk.restart()
    assert all_entries(open_wal(disk), SMALL) == expected


def test_a_power_loss_at_every_effect_of_carrying_loses_no_tail_and_no_vote():
    """From the first copy to the unlinking of the file that it was copied from."""

    def life(stop_after):
        disk = SimDisk()
        wal = open_wal(disk, files_max=4)
        commit(wal, writes(SMALL, entries(1, 4, term=2), hard=(2, 1, 0)), writes(LARGE, entries(1, 8, size=200)))
        last = busy(wal, 0, 10)
        wal.carry(LARGE)
        begun = disk.effects
        if stop_after is not None:
            disk.power_off_after(stop_after)
        done = last
        try:
            while not gone(disk):
                done = last
                last = busy(wal, last, 1)
            done = last
            busy(wal, last, 0)
        except PowerLoss:
            pass
        return disk, done, disk.effects - begun

    _, _, effects = life(None)
    assert effects > 10
    for stop in range(effects):
        disk, done, _ = life(stop)
        disk.crash(Random(stop))
        found = open_wal(disk, files_max=4)
        assert all_entries(found, SMALL) == list(entries(1, 4, term=2)), stop
        assert found.groups()[SMALL].hard_state == HardState(2, 1, 0)
        assert all_entries(found, LARGE) == list(entries(1, 8, size=200)), stop
        assert found.groups()[1].last_index >= done, stop


def idle_jobs(wal, most=2_000):
    """What the WAL does on its own, without anybody writing; how many jobs that were."""
    done = looks = 0
    while looks < 4 and done < most:
        job = wal.take_job()
        if job is None:
            looks += 1  # perhaps it is still counting
            continue
        job()
        wal.job_done()
        done, looks = done + 1, 0
    return done


@pytest.fixture
def crowded():
    """300 groups of 200 KB in all files of a WAL of 16 files of 4 MiB, each an eighth of that: pressed."""
    disk = SimDisk()
    wal = open_wal(disk, file_bytes=CROWDED_FILE_BYTES, files_max=16, cache_bytes_max=0)
    for index in range(1, 5):
        for group in range(100, 400):
            commit(wal, writes(group, entries(index, index + 1, size=6_250)))
    assert wal.pressed()
    return wal


def test_tails_that_free_less_than_they_cost_are_not_carried_beyond_the_bound(crowded):
    before = crowded.used_bytes()
    assert idle_jobs(crowded) < 2_000, "it comes to an end"
    assert crowded.used_bytes() <= min(16 * CROWDED_FILE_BYTES, before + CROWDED_FILE_BYTES * 5 // 8)


def test_when_checkpoints_have_freed_the_largest_tails_the_rest_is_carried(crowded):
    idle_jobs(crowded)
    for group in range(100, 392):
        commit(crowded, writes(group, checkpoint=(4, 1)))
        idle_jobs(crowded)
        assert crowded.used_bytes() <= 16 * CROWDED_FILE_BYTES
    assert not crowded.pressed()
    assert crowded.deleted_files > 0
    for group in range(392, 400):
        assert all_entries(crowded, group) == list(entries(1, 5, size=6_250))


def test_a_tail_that_does_not_read_back_is_told_once_and_left_for_a_checkpoint():
    disk = SimDisk()
    wal = open_wal(disk, files_max=6, cache_bytes_max=0)
    commit(wal, writes(SMALL, entries(1, 4)))
    disk.damage("wal/offsets/0000000000000001.wal", (wal._logs[SMALL].place_at(2) & 0xFFFFFFFF) + 34, b"\xee")
    last = busy(wal, 0, 40)
    assert [(group, "entry 2" in str(error)) for group, error in wal.take_damage()] == [(SMALL, True)]
    carried = wal.carried_bytes
    last = busy(wal, last, 10)
    assert (wal.take_damage(), wal.carried_bytes, gone(disk)) == ([], carried, False)
    assert wal.pinning() == (SMALL,), "however little it is: nobody else can free it"
    busy(wal, last, 0)
    commit(wal, writes(SMALL, checkpoint=(3, 1)))
    busy(wal, last, 2)
    assert gone(disk)


def test_tails_that_must_be_carried_are_carried_whatever_they_cost():
    """None of them can have a checkpoint, and together they are more than the file that they keep."""
    disk = SimDisk()
    wal = open_wal(disk, files_max=12)
    tails = {group: entries(1, 7, size=200) for group in range(20, 30)}
    for group, tail in tails.items():
        commit(wal, writes(group, tail))
        wal.carry(group)
    last = 0
    while not gone(disk):
        last = busy(wal, last, 1)
        assert wal.used_bytes() <= 12 * FILE_BYTES
    disk.restart()
    found = open_wal(disk)
    assert {group: all_entries(found, group) for group in tails} == {group: list(tail) for group, tail in tails.items()}


def test_tails_that_must_be_carried_do_not_go_round_and_round_when_they_fill_the_wal():
    disk = SimDisk()
    wal = open_wal(disk, files_max=12)
    for group in range(20, 52):
        commit(wal, writes(group, entries(1, 7, size=200)))
        wal.carry(group)
    assert wal.pressed()
    assert idle_jobs(wal, 200) == 0
    assert wal.carried_bytes == 0


def test_small_tails_that_one_file_cannot_pay_for_are_left_to_checkpoints():
    disk = SimDisk()
    wal = open_wal(disk, files_max=8, file_bytes=64 << 10)
    for group in range(100, 400):
        commit(wal, writes(group, entries(1, 2, size=150)))
    last = busy(wal, 0, 310)
    assert wal.carried_bytes == 0
    paid = ((64 << 10) // 2 - 100) // (150 + 40)
    in_first = sum(wal.files_before(group) == 0 for group in range(100, 400))
    assert in_first > paid + 50
    assert len(wal.pinning(128 << 10)) == in_first - paid
    busy(wal, last, 100)
    assert wal.carried_bytes == paid * 190
    assert len(wal.pinning(128 << 10)) == in_first - paid, "what was carried for the file counts"
    assert not gone(disk)


def test_who_is_not_carried_for_want_of_room_is_left_to_checkpoints():
    """Else it would be neither carried nor checkpointed, and nobody could write again."""
    disk = SimDisk()
    wal = open_wal(disk, files_max=8)
    commit(wal, writes(SMALL, entries(1, 2)))
    tail = entries(1, 120, size=300)
    for at in range(0, len(tail), 10):
        wal.stage(writes(1, tail[at : at + 10]))
        wal.take_job(carry=False)()
        wal.job_done()
    assert wal.room_bytes() == 0
    assert set(wal.pinning()) == {1, SMALL}


def test_who_keeps_only_the_end_of_the_oldest_file_is_left_to_checkpoints_before_nobody_may_write():
    """A file goes whole. Of four files, the least that there may be, the oldest quarter reached its middle when only
    the room that is set aside was left: nobody was let in, so the WAL grew no further, and asked no further."""
    disk = SimDisk()
    wal = open_wal(disk, files_max=4, file_bytes=2 * FILE_BYTES)
    last = busy(wal, 0, 5)
    assert wal.used_bytes() > FILE_BYTES
    commit(wal, writes(LARGE, entries(1, 8, size=200)))
    assert wal.files_before(LARGE) == 0
    while wal.room_bytes() > wal.reserve_bytes:
        last = busy(wal, last, 1)
    assert wal.pinning() == (LARGE,)
    commit(wal, writes(LARGE, checkpoint=(7, 1)))
    busy(wal, last, 1)
    assert gone(disk)


@pytest.mark.parametrize("whole", [True, False])
def test_a_batch_as_large_as_the_wal_is_let_go_of_although_nobody_may_write(whole):
    """It had made the WAL full with two files, of which one stays for slow followers: nothing was deleted, so nobody
    was let in, and without a write no third file came. A replica was not ready for ever."""
    disk = SimDisk()
    wal = open_wal(disk, files_max=32, states_per_batch=2)
    silent = range(100, 160)
    states = (writes(group, hard=(3, 1, 0)) for group in silent)
    commit(wal, writes(1, entries(1, 30, size=wal.room_bytes() // 29)), *states)
    commit(wal, writes(1, checkpoint=(29, 1)), writes(SMALL, entries(1, 3)))
    while len(wal_files(disk)) > 2:
        commit(wal)
    assert wal.room_bytes() < wal.reserve_bytes
    if not whole:
        wal._opening.resume(wal._logs)  # as a start does that finds the newest file without some states
    assert idle_jobs(wal) <= 100, "it comes to an end"
    assert not wal.crowded(), "somebody is let in again"
    disk.crash(Random(1))
    found = open_wal(disk, files_max=32)
    assert all_entries(found, SMALL) == list(entries(1, 3))
    assert found.groups()[1].checkpoint == (29, 1)
    assert all(found.groups()[group].hard_state == HardState(3, 1, 0) for group in silent)
    assert not found.damage
