"""The WAL without faults: what was staged and synced is there after a start, in bounded space."""

import tracemalloc

import pytest
from muster_coordinator.errors import Corruption
from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.messages import Entry, EntryKind, HardState
from muster_coordinator.storage import wal as wal_module
from muster_coordinator.storage import wal_opening
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveryPoint
from muster_coordinator.storage.wal_index import EntryCache, GroupLog

from tests.sim.disk import SimDisk
from tests.storage.wal_kit import FOLDER, all_entries, commit, entries, entry, open_wal, wal_files, writes


def reopened(disk, **options):
    disk.restart()
    return open_wal(disk, **options)


def test_a_new_wal_knows_nothing_and_has_nothing_to_do():
    wal = open_wal(SimDisk())
    assert wal.groups() == {}
    assert wal.take_job() is None
    assert wal.read(1, 1, 9, 100) == []
    assert wal.term_at(1, 1) is None
    assert wal.pinning() == ()
    assert not wal.full()


def test_hard_state_entries_recovery_point_and_checkpoint_come_back():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(
        wal,
        writes(1, entries(1, 6), hard=(1, 3, 0)),
        writes(7, entries(1, 3, term=4), hard=(4, -1, 2)),
    )
    commit(wal, writes(1, recovery_point=(4, 40, 0, 900), checkpoint=(3, 1)))
    found = reopened(disk)
    one, seven = found.groups()[1], found.groups()[7]
    assert (one.hard_state, one.recovery_point, one.checkpoint) == (
        HardState(1, 3, 0),
        RecoveryPoint(4, 40, 0, 900),
        (3, 1),
    )
    assert (one.first_index, one.last_index, one.compacted_term) == (1, 5, 0)
    assert (seven.hard_state, seven.recovery_point, seven.last_index) == (HardState(4, -1, 2), NO_RECOVERY_POINT, 2)
    assert all_entries(found, 1) == list(entries(1, 6))
    assert all_entries(found, 7) == list(entries(1, 3, term=4))


def test_entry_kinds_and_empty_and_odd_sized_payloads_are_kept():
    disk = SimDisk()
    wal = open_wal(disk)
    odd = tuple(Entry(1, 1 + n, (0, 1, 2, 4)[n % 4], bytes(range(n))) for n in range(20))
    commit(wal, writes(2, odd))
    assert reopened(disk).read(2, 1, 21, 1 << 20) == list(odd)


def test_what_is_staged_is_readable_before_it_is_durable():
    wal = open_wal(SimDisk())
    wal.stage(writes(1, entries(1, 4)))
    assert wal.read(1, 1, 4, 1 << 20) == list(entries(1, 4))
    assert wal.term_at(1, 3) == 1


def test_one_job_is_in_flight_and_the_next_batch_accumulates_meanwhile():
    disk = SimDisk()
    wal = open_wal(disk)
    wal.stage(writes(1, entries(1, 2)))
    job = wal.take_job()
    wal.stage(writes(1, entries(2, 3)))
    wal.stage(writes(2, entries(1, 2)))
    assert wal.take_job() is None
    job()
    wal.job_done()
    before = disk.syncs
    later = wal.take_job()
    later()
    wal.job_done()
    assert wal.take_job() is None
    assert disk.syncs - before <= 2  # the batch, and at most one slice of the spare
    assert all_entries(reopened(disk), 1) == list(entries(1, 3))


def test_an_entry_supersedes_all_at_and_above_its_index():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 10)))
    commit(wal, writes(1, entries(4, 6, term=2), hard=(2, -1, 0)))
    expected = [*entries(1, 4), *entries(4, 6, term=2)]
    assert wal.read(1, 1, 99, 1 << 20) == expected
    assert wal.term_at(1, 6) is None
    found = reopened(disk)
    assert all_entries(found, 1) == expected
    assert found.groups()[1].last_index == 5


def test_a_truncation_within_one_turn_keeps_the_later_entries():
    disk = SimDisk()
    wal = open_wal(disk)
    wal.stage(writes(1, entries(1, 6)))
    wal.stage(writes(1, entries(3, 4, term=2)))
    commit(wal, writes(1, entries(4, 6, term=3)))
    expected = [*entries(1, 3), *entries(3, 4, term=2), *entries(4, 6, term=3)]
    assert wal.read(1, 1, 99, 1 << 20) == expected
    found = reopened(disk, cache_bytes_max=0)
    assert all_entries(found, 1) == expected


def test_a_truncation_while_the_superseded_entries_are_being_written():
    disk = SimDisk()
    wal = open_wal(disk, cache_bytes_max=0)
    wal.stage(writes(1, entries(1, 6)))
    job = wal.take_job()
    wal.stage(writes(1, entries(2, 4, term=2)))
    job()
    wal.job_done()
    expected = [*entries(1, 2), *entries(2, 4, term=2)]
    assert wal.read(1, 1, 99, 1 << 20) == expected
    commit(wal, writes(2))
    assert wal.read(1, 1, 99, 1 << 20) == expected
    assert all_entries(reopened(disk), 1) == expected


def test_reads_are_bounded_by_bytes_and_give_at_least_one():
    wal = open_wal(SimDisk())
    commit(wal, writes(1, entries(1, 9, size=100)))
    for source in (wal, reopened_copy(wal)):
        assert len(source.read(1, 1, 9, 0)) == 1
        assert len(source.read(1, 1, 9, 350)) == 3
        assert len(source.read(1, 3, 5, 10_000)) == 2
        assert source.read(1, 9, 10, 10_000) == []


def reopened_copy(wal):
    disk = wal._disk
    return reopened(disk)


def test_older_entries_are_read_from_disk_when_memory_let_them_go():
    disk = SimDisk()
    wal = open_wal(disk, cache_bytes_max=500, files_max=64)
    for low in range(1, 100, 3):
        commit(wal, writes(1, entries(low, low + 3, size=90)), writes(2, entries(low, low + 3, size=40)))
    assert len(wal_files(disk)) > 3
    assert len(wal._logs[1].cached) < 10
    assert wal.read(1, 1, 103, 1 << 20)[:99] == list(entries(1, 100, size=90))
    assert wal.read(2, 50, 60, 1 << 20) == list(entries(50, 60, size=40))
    assert all_entries(reopened(disk), 1)[:99] == list(entries(1, 100, size=90))


def test_files_rotate_and_go_when_checkpoints_cover_them():
    disk = SimDisk()
    wal = open_wal(disk)
    last = 0
    for turn in range(60):
        commit(wal, writes(1, entries(last + 1, last + 5, size=200), hard=(1, 2, last)))
        last += 4
        if turn % 5 == 4:
            commit(wal, writes(1, recovery_point=(last, last, 0, last), checkpoint=(last - 2, 1)))
        assert wal.used_bytes() <= 6 * 4096
    assert wal.term_at(1, 1) is None
    assert wal.read(1, 1, 9, 1 << 20) == []
    assert wal.read(1, last - 3, last + 1, 1 << 20) == list(entries(last - 3, last + 1, size=200))
    assert "0000000000000001.wal" not in wal_files(disk)
    found = reopened(disk).groups()[1]
    assert (found.hard_state, found.last_index) == (HardState(1, 2, last - 4), last)
    assert found.checkpoint == (last - 2, 1)
    assert found.recovery_point == RecoveryPoint(last, last, 0, last)
    assert found.first_index <= last - 1
    assert found.compacted_term == 1


def test_an_idle_group_outlives_the_files_that_named_it():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(9, entries(1, 4, term=3), hard=(3, 1, 3), recovery_point=(3, 30, 0, 5), checkpoint=None))
    commit(wal, writes(9, checkpoint=(3, 3)))
    last = 0
    for _ in range(40):
        commit(wal, writes(1, entries(last + 1, last + 5, size=200)))
        last += 4
        commit(wal, writes(1, checkpoint=(last, 1)))
    assert "0000000000000002.wal" not in wal_files(disk)
    idle = reopened(disk).groups()[9]
    assert idle == (HardState(3, 1, 3), 4, 3, 3, RecoveryPoint(3, 30, 0, 5), (3, 3), (), ())


def test_a_group_without_checkpoint_keeps_its_file_pins_and_fills_the_wal():
    disk = SimDisk()
    wal = open_wal(disk, files_max=6)
    commit(wal, writes(9, entries(1, 3, size=200)))
    last = 0
    while not wal.full():
        assert wal.used_bytes() < 6 * 4096
        commit(wal, writes(1, entries(last + 1, last + 5, size=200), checkpoint=(last, 1) if last else None))
        last += 4
    assert wal.pinning() == (9,)
    assert "0000000000000001.wal" in wal_files(disk)
    commit(wal, writes(9, checkpoint=(2, 1)))
    for _ in range(4):
        commit(wal, writes(9, hard=(1, 1, 1)))
    assert not wal.full()
    assert wal.pinning() == ()
    assert "0000000000000001.wal" not in wal_files(disk)


def test_trailing_entries_below_a_checkpoint_stay_readable():
    wal = open_wal(SimDisk())
    commit(wal, writes(1, entries(1, 10)))
    commit(wal, writes(1, checkpoint=(8, 1)))
    assert wal.read(1, 2, 5, 1 << 20) == list(entries(2, 5))


def written_behind(wal, held_from, used_share):
    """Another group fills the WAL to a share of its bound, checkpointing behind itself; what group 9 can still read."""
    last = wal._logs[1].last if 1 in wal._logs else 0
    fed = 0
    while fed < used_share * 16 * 4096:
        commit(wal, writes(1, entries(last + 1, last + 5, size=200), checkpoint=(last, 1) if last else None))
        last += 4
        fed += 4 * 240
    return [entry.index for entry in wal.read(9, held_from, 9, 1 << 20)]


def covered_by_its_checkpoint(hold):
    wal = open_wal(SimDisk())
    commit(wal, writes(9, entries(1, 9)))
    commit(wal, writes(9, checkpoint=(8, 1)))
    wal.hold(hold)
    return wal


def test_what_a_follower_needs_next_is_kept_while_three_quarters_of_the_bound_are_not_used():
    wal = covered_by_its_checkpoint({9: 5})
    assert written_behind(wal, 6, 0.5) == [6, 7, 8]
    assert wal.first_index(9) == 1
    assert wal.deleted_files == 0
    assert written_behind(wal, 6, 0.5) == [], "now there is no room for it"
    assert wal.used_bytes() <= 16 * 4096 * 3 // 4
    assert wal.deleted_files > 0


@pytest.mark.parametrize("hold", [{}, {9: 8}, {77: 0}], ids=["nothing", "has all of it", "unknown group"])
def test_what_no_follower_needs_is_not_kept(hold):
    wal = covered_by_its_checkpoint(hold)
    assert written_behind(wal, 6, 0.5) == []
    assert wal.deleted_files > 0


def test_a_hold_is_in_place_of_the_one_before():
    wal = covered_by_its_checkpoint({9: 5})
    assert written_behind(wal, 6, 0.25) == [6, 7, 8]
    wal.hold({1: 1 << 40})
    assert written_behind(wal, 6, 0.1) == []


def test_an_installed_checkpoint_discards_a_log_that_does_not_hold_it():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 5)))
    commit(wal, writes(1, hard=(3, -1, 50), checkpoint=(50, 3)))
    assert wal.term_at(1, 4) is None
    assert wal.term_at(1, 50) == 3
    commit(wal, writes(1, entries(51, 53, term=3)))
    found = reopened(disk)
    assert found.groups()[1][1:4] == (51, 3, 52)
    assert all_entries(found, 1) == list(entries(51, 53, term=3))


def test_an_installed_checkpoint_keeps_the_suffix_of_a_log_that_holds_it():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 9)))
    commit(wal, writes(1, checkpoint=(5, 1)))
    assert wal.read(1, 6, 9, 1 << 20) == list(entries(6, 9))
    assert reopened(disk).read(1, 6, 9, 1 << 20) == list(entries(6, 9))


def test_a_conflicting_entry_at_an_installed_checkpoint_discards_the_suffix():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 9)))
    commit(wal, writes(1, checkpoint=(5, 2)))
    assert wal.read(1, 6, 9, 1 << 20) == []
    assert reopened(disk).groups()[1][1:4] == (6, 2, 5)


def superseded_by_a_checkpoint(tail_term, checkpoint_term):
    """Entries 1 to 5 in one file, 6 and 7 in the next; then a checkpoint knows another 5; then the file is gone."""
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 6, size=650), hard=(1, 0, 0)))
    commit(wal, writes(1, entries(6, 8, term=tail_term, size=650), hard=(tail_term, 1, 0)))
    commit(wal, writes(1, hard=(4, -1, 0)))
    commit(wal, writes(1, checkpoint=(5, checkpoint_term)))
    assert len(wal_files(disk)) == 2
    turn = 0
    while wal_files(disk)[0] == "0000000000000001.wal":
        turn += 1
        commit(wal, writes(2, entries(turn, turn + 1, size=100), hard=(1, 0, 0)))
        commit(wal, writes(2, checkpoint=(turn, 1)))
    assert wal_files(disk)[0] == "0000000000000002.wal", "6 and 7 are still there"
    return disk


def test_what_a_checkpoint_superseded_stays_superseded_when_the_file_before_is_gone():
    """No entry on the disk says that 5 was another one; a voter whose log ends in an old term elects whom it must
    not."""
    for tail_term in (1, 3):
        assert reopened(superseded_by_a_checkpoint(tail_term, 2)).groups()[1][1:4] == (6, 2, 5)


def test_a_checkpoint_of_a_release_that_did_not_say_so_supersedes_entries_of_terms_before_it(monkeypatch):
    for module, name in ((wal_module, "ANEW"), (wal_module, "KEEPS"), (wal_opening, "KEEPS")):
        monkeypatch.setattr(module, name, 0)
    assert reopened(superseded_by_a_checkpoint(1, 2)).groups()[1][1:4] == (6, 2, 5)
    assert reopened(superseded_by_a_checkpoint(3, 2)).groups()[1][1:4] == (6, 2, 7), "which it may have kept"


def test_a_dropped_group_is_forgotten_and_pins_nothing():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(5, entries(1, 4)), writes(6, entries(1, 2)))
    wal.drop_group(5)
    commit(wal, writes(6, entries(2, 3)))
    assert wal.read(5, 1, 4, 100) == []
    assert set(reopened(disk).groups()) == {6}


@pytest.mark.parametrize("gap", [0, 1, 40])
def test_a_dropped_group_that_comes_back_has_only_what_it_wrote_since(gap):
    """A partition that was moved away and back. Over restarts, and over files that are written meanwhile."""
    disk = SimDisk()
    wal = open_wal(disk)
    for turn in range(3):
        commit(wal, writes(5, entries(1, 9, term=turn + 1), hard=(turn + 1, 2, 8)), writes(6, entries(1, 2)))
        wal.drop_group(5)
        commit(wal)
        for at in range(gap):
            commit(wal, writes(6, entries(at + 2, at + 3, size=300), checkpoint=(at + 1, 1)))
        assert set(open_wal(disk.durable_copy()).groups()) == {6}
        commit(wal, writes(5, entries(1, 4, term=turn + 2), hard=(turn + 2, -1, 0)))
        assert wal.read(5, 1, 4, 1 << 20) == list(entries(1, 4, term=turn + 2))
        found = open_wal(disk.durable_copy())
        assert all_entries(found, 5) == list(entries(1, 4, term=turn + 2))
        assert found.groups()[5].hard_state == HardState(turn + 2, -1, 0)
        wal.drop_group(5)
        wal.drop_group(6)
        commit(wal)


def test_a_group_staged_and_dropped_in_one_turn_leaves_nothing():
    disk = SimDisk()
    wal = open_wal(disk)
    wal.stage(writes(5, entries(1, 4)))
    wal.drop_group(5)
    commit(wal, writes(6, entries(1, 2)))
    assert set(reopened(disk).groups()) == {6}


def test_a_batch_larger_than_a_file_is_taken_whole():
    disk = SimDisk()
    wal = open_wal(disk)
    large = entry(1, data=bytes(3 * 4096))
    commit(wal, writes(1, (large,)))
    commit(wal, writes(1, entries(2, 4)))
    found = reopened(disk)
    assert found.read(1, 1, 4, 1 << 20) == [large, *entries(2, 4)]


def test_writing_goes_on_after_a_restart():
    disk = SimDisk()
    last = 0
    for _ in range(12):
        wal = open_wal(disk)
        for _ in range(3):
            commit(wal, writes(1, entries(last + 1, last + 4, size=150)))
            last += 3
        wal.close()
        disk.restart()
    assert all_entries(open_wal(disk), 1) == list(entries(1, last + 1, size=150))


def test_another_replicas_folder_is_refused():
    disk = SimDisk()
    commit(open_wal(disk), writes(1, entries(1, 2)))
    disk.restart()
    with pytest.raises(Corruption, match="another replica"):
        open_wal(disk, node=bytes(16))


def test_files_that_are_not_ours_are_left_alone():
    disk = SimDisk()
    commit(open_wal(disk), writes(1, entries(1, 3)))
    for name in ("copy.wal", "0000000000000009.wal.bak", "notes"):
        disk.open(f"{FOLDER}/{name}", create=True)
    assert all_entries(reopened(disk), 1) == list(entries(1, 3))
    assert "copy.wal" in disk.listdir(FOLDER)


def test_the_entry_cache_is_bounded():
    wal = open_wal(SimDisk(), cache_bytes_max=4_000, file_bytes=1 << 16)
    for low in range(1, 400, 4):
        commit(wal, writes(1, entries(low, low + 4, size=100)))
        assert wal._cache.bytes <= 4_000
    kept = wal._logs[1].cached.values()
    assert wal._cache.bytes == sum(len(e.data) + 192 for e in kept) + len(kept) // 4 * 128


@pytest.mark.parametrize("size", [40, 150, 1_000])
def test_the_entry_cache_takes_what_it_counts(size):
    """Many groups that get an entry a batch, as consumer groups do: 2.9 times what was counted, for 40 bytes each."""
    bound = 1 << 20
    cache, logs = EntryCache(bound), [GroupLog(GroupNo(number)) for number in range(100)]
    tracemalloc.start()
    try:
        for index in range(301, 301 + 150):
            for log in logs:
                cache.put(log, Entry(300, index, EntryKind.NORMAL, bytes(size)))
                cache.durable(log, index, index + 1)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # Tuples from the interpreter's free list are not traced: 200 kB at most.
    assert bound * 0.6 <= taken <= bound * 1.25
