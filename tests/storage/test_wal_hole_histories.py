"""Single histories of a WAL with a hole, found by the property of `test_wal_hole` or by thinking."""

from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.messages import HardState
from muster_coordinator.storage import wal as wal_module
from muster_coordinator.storage import wal_opening
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveryPoint
from muster_coordinator.storage.wal_format import FILE_HEADER_BYTES
from muster_coordinator.storage.wal_losses import Losses, store
from muster_coordinator.storage.wal_proof import PROOF_NAME

from tests.sim.disk import SimDisk
from tests.storage.test_wal_hole import FIRST, NOWHERE, flip, live, three_groups
from tests.storage.wal_kit import FOLDER, commit, entries, open_wal, wal_files, writes


def laid(*batches, **sizes):
    """The disk, and of each batch its file and where it begins there."""
    disk = SimDisk()
    wal = open_wal(disk, **sizes)
    places = []
    for some in batches:
        before, position = len(wal._files), wal._position
        commit(wal, *some)
        places.append((f"{FOLDER}/{wal_files(disk)[-1]}", position if len(wal._files) == before else FILE_HEADER_BYTES))
    wal.close()
    disk.restart()
    return disk, places


def holed(batches, *damaged, into=40, **sizes):
    """Opened after the batches at these places were damaged, so many bytes into them."""
    disk, places = laid(*batches, **sizes)
    for at in damaged:
        path, position = places[at]
        flip(disk, path, position + into)
    return open_wal(disk, **sizes)


def of(wal, number):
    """(Suspended, hard state, checkpoint, terms of the live entries)."""
    found = wal.groups()[GroupNo(number)]
    terms = {index: one.term for index, one in live(wal, GroupNo(number)).items()}
    return wal.is_suspended(GroupNo(number)), found.hard_state, found.checkpoint, terms


STATE = HardState(1, 0, 0)


def test_an_entry_of_the_same_term_as_the_one_before_it_proves_that_nothing_is_missing():
    batches = [[writes(1, entries(1, 4), hard=STATE)], [writes(2, hard=STATE)], [writes(1, entries(4, 5), hard=STATE)]]
    assert of(holed(batches, 1), 1) == (False, STATE, (0, 0), {1: 1, 2: 1, 3: 1, 4: 1})


def test_an_entry_of_another_term_than_the_one_before_it_proves_nothing():
    """3 was superseded by one of term 2 in the hole: the same length, and not the same log."""
    later = HardState(3, 0, 0)
    batches = [
        [writes(1, entries(1, 4), hard=STATE)],
        [writes(1, entries(3, 4, term=2), hard=HardState(2, 0, 0))],
        [writes(1, entries(4, 5, term=3), hard=later)],
    ]
    assert of(holed(batches, 1), 1) == (True, later, (0, 0), {1: 1, 2: 1, 3: 1})


def test_a_group_that_is_silent_behind_the_hole_may_have_lost_entries_there():
    batches = [[writes(1, entries(1, 4), hard=STATE)], [writes(1, entries(4, 5))], [writes(1, hard=STATE)]]
    assert of(holed(batches, 1), 1) == (True, STATE, (0, 0), {1: 1, 2: 1, 3: 1})


def test_a_group_whose_hard_state_is_not_written_again_may_have_lost_a_vote():
    batches = [[writes(1, entries(1, 4), hard=STATE)], [writes(1, hard=(2, 1, 0))], [writes(1, entries(4, 5))]]
    assert of(holed(batches, 1), 1) == (True, STATE, (0, 0), {1: 1, 2: 1, 3: 1, 4: 1})


def test_the_term_is_that_of_the_newest_entry_at_least_whether_the_entry_counts_or_not():
    batches = [
        [writes(1, entries(1, 4), hard=STATE)],
        [writes(1, entries(4, 6, term=5), hard=(5, 0, 0))],
        [writes(1, entries(6, 7, term=5))],
    ]
    assert of(holed(batches, 1), 1) == (True, HardState(5, -1, 0), (0, 0), {1: 1, 2: 1, 3: 1})


def test_a_second_hole_is_a_hole():
    """In the next file: the first is proven by entry 4, and says nothing of what is missing in the second."""
    batches = [
        [writes(1, entries(1, 4), hard=STATE)],
        [writes(2, hard=STATE)],
        [writes(1, entries(4, 5, size=3000), hard=STATE)],
        [writes(1, entries(5, 6, term=2, size=900), hard=(2, 1, 0))],
        [writes(1, hard=(2, 1, 0))],
    ]
    assert of(holed(batches, 1), 1) == (False, HardState(2, 1, 0), (0, 0), {1: 1, 2: 1, 3: 1, 4: 1, 5: 2})
    assert of(holed(batches, 1, 3), 1) == (True, HardState(2, 1, 0), (0, 0), {1: 1, 2: 1, 3: 1, 4: 1})


def test_what_a_start_took_back_behind_a_hole_stays_back_behind_the_next():
    """The first hole has entries that replaced others, so the group goes on with those: what it said later, that all is
    committed and flushed, was said of the lost ones. The second hole has that decision. Found by the property; with the
    commit index of then, entries would have been applied that were never committed."""
    before, later = RecoveryPoint(2, 2, 0, 100), RecoveryPoint(7, 7, 0, 900)
    batches = [
        [writes(1, entries(1, 8), hard=(1, 2, 3), recovery_point=before)],
        [writes(1, entries(4, 8, term=2), hard=(2, -1, 3))],
        [writes(1, hard=(2, -1, 7), recovery_point=later)],
        [writes(2, entries(1, 2, size=2000), hard=STATE)],
        [writes(2, entries(2, 3, size=1500))],  # In the next file, which has the states of all.
    ]
    for hard in (None, HardState(3, -1, 3)):
        disk, places = laid(*batches)
        flip(disk, places[1][0], places[1][1] + 40)
        path, _ = places[4]
        decided = len(disk.content(path).rstrip(b"\0"))
        wal = open_wal(disk)
        assert of(wal, 1) == (True, HardState(2, -1, 3), (0, 0), dict.fromkeys(range(1, 8), 1))
        assert wal.groups()[GroupNo(1)].recovery_point == before
        commit(wal, writes(1, entries(1, 8), hard=hard))  # As a tail is carried.
        assert len(wal_files(disk)) == 2
        wal.close()
        disk.restart()
        flip(disk, path, decided + 40)
        wal = open_wal(disk)
        assert of(wal, 1) == (True, hard or HardState(2, -1, 3), (0, 0), dict.fromkeys(range(1, 8), 1))
        assert wal.groups()[GroupNo(1)].recovery_point == before


def test_entries_from_the_checkpoint_on_prove_a_log_whatever_was_before():
    batches = [
        [writes(1, entries(1, 4), hard=STATE)],
        [writes(1, entries(3, 6, term=2), hard=(2, 0, 5))],
        [writes(1, checkpoint=(5, 2), hard=(3, 0, 5)), writes(1, entries(6, 8, term=3))],
    ]
    assert of(holed(batches, 1), 1) == (False, HardState(3, 0, 5), (5, 2), {6: 3, 7: 3})


def test_what_an_installed_checkpoint_superseded_behind_a_hole_is_not_taken_for_the_log():
    """The counterexample: 5 and 6 came behind the hole that has 2 to 4; then a leader's checkpoint knew another 4.
    Taken for whole, this voter ended in term 1 and gave its vote to whoever lacks what is committed."""
    hard = HardState(4, 0, 4)
    batches = [
        [writes(1, entries(1, 2), hard=STATE)],
        [writes(1, entries(2, 5))],
        [writes(1, entries(5, 7), hard=(4, 0, 0))],
        [writes(1, hard=hard, checkpoint=(4, 3))],
    ]
    assert of(holed(batches, 1), 1) == (False, hard, (4, 3), {})


def test_of_a_release_that_did_not_say_what_a_checkpoint_superseded_nothing_is_proven(monkeypatch):
    for module, name in ((wal_module, "ANEW"), (wal_module, "KEEPS"), (wal_opening, "KEEPS")):
        monkeypatch.setattr(module, name, 0)
    hard = HardState(4, 0, 4)
    batches = [
        [writes(1, entries(1, 2), hard=STATE)],
        [writes(1, entries(2, 5))],
        [writes(1, entries(5, 7, term=3), hard=(4, 0, 0))],
        [writes(1, hard=hard, checkpoint=(4, 3))],
    ]
    wal = holed(batches, 1)
    assert of(wal, 1)[:3] == (True, hard, (4, 3))


def test_a_group_that_was_deleted_in_a_hole_is_gone_when_all_states_were_written_behind_it():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 3), hard=STATE), writes(2, entries(1, 3), hard=STATE))
    begin = wal._position
    wal.drop_group(2)
    commit(wal, writes(1, hard=STATE))
    while len(wal._files) == 1:
        last = wal._logs[1].last
        commit(wal, writes(1, entries(last + 1, last + 2, size=900), hard=STATE))
    wal.close()
    disk.restart()
    flip(disk, FIRST, begin + 100)
    again = open_wal(disk)
    assert set(again.groups()) == {1}
    assert not any(again.is_suspended(GroupNo(number)) for number in (1, 2, 99))


def test_what_was_committed_behind_the_hole_is_not_what_was_there_before_it():
    """Entry 3 of term 1 was superseded in the hole, and what was committed since is not in this log."""
    batches = [
        [writes(1, entries(1, 4), hard=(1, 0, 2))],
        [writes(1, entries(3, 4, term=2), hard=(2, 0, 2))],
        [writes(1, hard=(2, 0, 3))],
    ]
    assert of(holed(batches, 1), 1) == (True, HardState(2, 0, 2), (0, 0), {1: 1, 2: 1, 3: 1})


def test_no_recovery_point_counts_that_is_of_entries_behind_the_hole():
    """The log grows again to where the recovery point was, by a leader's entries that are not committed; a start would
    take them for what the segments hold."""
    batches = [
        [writes(1, entries(1, 4), hard=(1, 0, 2), recovery_point=(2, 20, 0, 200))],
        [writes(1, entries(3, 8, term=2), hard=(2, 0, 7))],
        [writes(1, hard=(2, 0, 7), recovery_point=(7, 70, 0, 700), checkpoint=(3, 2))],
    ]
    wal = holed(batches, 1)
    assert of(wal, 1) == (True, HardState(2, 0, 3), (3, 2), {})
    assert wal.groups()[GroupNo(1)].recovery_point == NO_RECOVERY_POINT
    batches[2] = [writes(1, hard=(2, 0, 7), recovery_point=(7, 70, 0, 700))]
    assert holed(batches, 1).groups()[GroupNo(1)].recovery_point == RecoveryPoint(2, 20, 0, 200)


def test_entries_that_a_checkpoint_from_behind_the_hole_does_not_lead_to_are_let_go():
    """The file before is gone because of that checkpoint: nothing says which 3 these entries follow."""
    disk = superseded_behind_a_hole()
    wal = open_wal(disk)
    assert of(wal, 1) == (True, HardState(3, -1, 3), (3, 2), {})


def superseded_behind_a_hole():
    """Entries 1 to 3 in a file that goes; 4 to 6, of term 1, in the next; a hole; a checkpoint at (3, 2)."""
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 4, size=1200), hard=STATE), writes(2, hard=STATE))
    commit(wal, writes(1, entries(4, 7)))
    path, begin = f"{FOLDER}/{wal_files(disk)[-1]}", wal._position
    commit(wal, writes(1, entries(3, 7, term=2), hard=(2, 0, 0)))
    commit(wal, writes(1, hard=(3, -1, 3), checkpoint=(3, 2)))
    turn = 0
    while wal_files(disk)[0] < path.rpartition("/")[2]:
        turn += 1
        commit(wal, writes(2, entries(turn, turn + 1, size=300), hard=STATE))
        commit(wal, writes(2, checkpoint=(turn, 1)))
    wal.close()
    disk.restart()
    flip(disk, path, begin + 40)
    return disk


def test_a_group_that_begins_anew_while_some_are_unknown_is_suspended_at_the_next_start_too():
    """Its first batch is durable before anything else says so: it may be one that was lost with all it promised."""
    disk, positions = three_groups()
    flip(disk, FIRST, positions[3] + 40)
    wal = open_wal(disk)
    commit(wal, writes(99, hard=STATE))
    wal.close()
    disk.restart()
    again = open_wal(disk)
    assert NOWHERE in again.groups()
    assert again.is_suspended(NOWHERE)
    again.suspend(NOWHERE, False)()
    again.close()
    disk.restart()
    assert not open_wal(disk).is_suspended(NOWHERE)


def test_losses_of_the_release_before_are_read_and_mean_the_same():
    for unknown in (False, True):
        disk, _ = three_groups()
        store(disk, FOLDER, Losses({GroupNo(2)}, unknown).encoded())
        wal = open_wal(disk)
        assert [wal.is_suspended(GroupNo(number)) for number in (1, 2, 3, 99)] == [False, True, False, unknown]


def two_files():
    """Both begin with the states of all groups; where the second begins."""
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 3), hard=(1, 2, 0)), writes(2, entries(1, 3), hard=(1, 2, 0)))
    while len(wal._files) == 1:
        last = wal._logs[1].last
        commit(wal, writes(1, entries(last + 1, last + 2, size=900)))
    commit(wal, writes(2, hard=(2, 1, 0)))
    wal.close()
    disk.restart()
    return disk, f"{FOLDER}/{wal_files(disk)[-1]}"


def test_a_file_that_lost_its_first_batch_does_not_say_that_it_has_all_states():
    disk, second = two_files()
    flip(disk, second, FILE_HEADER_BYTES + 40)
    disk.unlink(f"{FOLDER}/{PROOF_NAME}")
    wal = open_wal(disk)
    assert all(wal.is_suspended(GroupNo(number)) for number in (1, 2, 99))
    commit(wal, writes(1, hard=(1, 2, 0)))
    wal.close()
    disk.restart()
    disk.unlink(FIRST)
    disk.sync_dir(FOLDER)
    again = open_wal(disk)
    assert again.groups()[GroupNo(2)].hard_state == HardState(1, 2, 0), "all states were written again"
    assert again.is_suspended(GroupNo(2))


def test_where_no_file_has_all_states_everybody_is_suspended():
    """The file before is missing, and damage hides whether this one needs it."""
    disk, second = two_files()
    flip(disk, second, 20)
    disk.unlink(FIRST)
    disk.sync_dir(FOLDER)
    wal = open_wal(disk)
    assert all(wal.is_suspended(GroupNo(number)) for number in (1, 2, 99))


def test_a_file_of_a_damaged_header_does_not_hide_that_all_of_the_file_before_is_missing():
    disk, second = two_files()
    flip(disk, FIRST, FILE_HEADER_BYTES + 10)
    flip(disk, second, 7)
    wal = open_wal(disk)
    assert all(wal.is_suspended(GroupNo(number)) for number in (1, 2, 99))


def test_a_commit_index_beyond_the_log_is_a_loss():
    disk, _ = laid([writes(1, entries(1, 3), hard=(1, 0, 5)), writes(2, entries(1, 3), hard=(1, 0, 2))])
    flip(disk, FIRST, 7)
    wal = open_wal(disk)
    assert of(wal, 1) == (True, HardState(1, 0, 2), (0, 0), {1: 1, 2: 1})
    assert not wal.is_suspended(GroupNo(2))


def test_a_batch_behind_a_hole_counts_only_if_it_is_whole_itself():
    """And all behind it up to what is known of the chain: here the one between two damaged ones does not."""
    batches = [
        [writes(1, entries(1, 4), hard=STATE)],
        [writes(2, entries(1, 2), hard=STATE)],
        [writes(1, entries(4, 5), hard=STATE)],
        [writes(2, entries(2, 3), hard=STATE)],
        [writes(1, hard=STATE)],
    ]
    assert of(holed(batches, 1, 3, into=72), 1) == (True, STATE, (0, 0), {1: 1, 2: 1, 3: 1})
    for into in (35, 70):
        wal = holed(batches, 1, into=into)
        assert of(wal, 2)[0] is True, "its vote, or its entry"
        assert of(wal, 2)[3] == {}


def test_a_hole_at_the_end_of_a_file_is_one():
    """What superseded entry 3 was the last batch of its file; the next file goes on without a word of it."""
    batches = [
        [writes(1, entries(1, 4), hard=STATE), writes(2, entries(1, 2, size=3000), hard=STATE)],
        [writes(1, entries(3, 4, term=2), hard=(2, 0, 0))],
        [writes(2, entries(2, 3, size=900))],
    ]
    _, places = laid(*batches)
    assert [places[1][0], places[2][0] > FIRST] == [FIRST, True]
    assert of(holed(batches, 1), 1) == (True, HardState(2, 0, 0), (0, 0), {1: 1, 2: 1, 3: 1})


def test_a_pass_that_a_hole_interrupted_is_not_complete():
    """The state of group 2 was in the hole: it was not deleted there."""
    first = [[writes(number, entries(1, 2, size=1200), hard=STATE) for number in (1, 2, 3)]]
    rest = [[writes(1, entries(turn, turn + 1, size=20))] for turn in range(2, 7)]
    batches = [*first, *rest]
    _, places = laid(*batches, states_per_batch=1)
    second = [at for at, (path, _) in enumerate(places) if path == places[-1][0]]
    assert len(second) == 5, "a state in each of the first three; that of 3 completes it"
    wal = holed(batches, second[1], states_per_batch=1)
    assert of(wal, 2) == (True, STATE, (0, 0), {1: 1})
    assert of(wal, 1)[0] is True, "its entry is missing"


def test_a_second_loss_does_not_make_anybody_whole():
    disk, positions = three_groups()
    flip(disk, FIRST, positions[3] + 40)
    wal = open_wal(disk)
    commit(wal, writes(99, entries(1, 2), hard=STATE))
    begin = wal._position
    commit(wal, writes(1, hard=STATE))
    commit(wal, writes(99, entries(2, 3), hard=STATE))
    wal.close()
    disk.restart()
    flip(disk, FIRST, begin + 40)
    again = open_wal(disk)
    assert of(again, 99) == (True, STATE, (0, 0), {1: 1, 2: 1})
