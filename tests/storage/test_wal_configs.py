"""The configurations of a group in the WAL: those of its CONF entries, and the one at its checkpoint, which stays.

Histories with crashes and damage are in `test_wal_crash` and `test_wal_hole`: these are single ones.
"""

import hashlib
from contextlib import suppress
from random import Random

import pytest
from muster_coordinator.errors import Corruption
from muster_coordinator.raft.limits import MEMBERS_MAX
from muster_coordinator.raft.members import Placed, encode_config
from muster_coordinator.raft.messages import Entry, EntryKind, HardState
from muster_coordinator.raft.quorum import Config

from tests.sim.disk import PowerLoss, SimDisk
from tests.storage.test_format_document import read_wal_file
from tests.storage.test_wal_hole import flip
from tests.storage.wal_kit import FOLDER, commit, conf, entries, open_wal, wal_files, writes

FIRST = f"{FOLDER}/0000000000000001.wal"
OLD, NEW = Config((1, 2, 3), (), ()), Config((1, 2, (1 << 32) | 3), (1, 2, 3), ())
WHOLE = Config((1, 2, (1 << 32) | 3), (), (7,))
OF_THE_RELEASE_BEFORE = "33dca450900d9d2df2ba41f87f5a0bb036e7a8e884256378a089173026c2d80b"
LARGEST = Config(*(tuple(range(half, half + MEMBERS_MAX)) for half in (0, 100, 200)))


def reopened(disk, **sizes):
    disk.restart()
    return open_wal(disk, **sizes)


def configs(wal, group=1):
    return wal.groups()[group].configs


def busy(wal, disk, group=2):
    """Another group writes and is checkpointed until the files that are there now are gone."""
    before, turn = wal_files(disk)[-1], wal.first_index(group) - 1
    while wal.term_at(group, turn + 1) is not None:
        turn += 1
    for one in range(turn + 1, turn + 300):
        commit(wal, writes(group, entries(one, one + 1, size=300), hard=(1, 0, one)))
        commit(wal, writes(group, checkpoint=(one, 1)))
        if wal_files(disk)[0] > before:
            return
    raise AssertionError("a group keeps a file")


def records(disk, kind):
    """(file, group, index, term, payload) of all records of a kind, by the reader that knows only the document."""
    found = []
    for name in wal_files(disk):
        *_, batches, _ = read_wal_file(disk.content(f"{FOLDER}/{name}"))
        found += [(name, *record[2:]) for _, some in batches for record in some if record[0] == kind]
    return found


def test_the_configurations_of_entries_come_back_in_log_order():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, (*entries(1, 3), conf(3, NEW), *entries(4, 6), conf(6, WHOLE)), hard=(1, 3, 5)))
    found = reopened(disk)
    assert configs(found) == (Placed(3, NEW), Placed(6, WHOLE))
    assert not records(disk, 8), "no checkpoint covers them yet"


def test_a_configuration_that_was_superseded_does_not_come_back():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, (*entries(1, 3), conf(3, NEW), *entries(4, 6), conf(6, WHOLE)), hard=(1, 3, 2)))
    commit(wal, writes(1, entries(5, 6, term=2), hard=(2, 1, 2)))
    assert configs(reopened(disk)) == (Placed(3, NEW),)
    wal = reopened(disk)
    commit(wal, writes(1, entries(3, 9, term=3), hard=(3, 1, 2)))
    assert configs(reopened(disk)) == ()
    wal = reopened(disk)
    commit(wal, writes(1, (conf(3, OLD, term=4),), hard=(4, 1, 2)))
    assert configs(reopened(disk)) == (Placed(3, OLD),)


def test_one_that_came_and_went_in_one_turn_does_not_come_back():
    disk = SimDisk()
    wal = open_wal(disk)
    wal.stage(writes(1, (*entries(1, 3), conf(3, NEW))))
    commit(wal, writes(1, entries(3, 4, term=2), hard=(2, 1, 0)))
    assert configs(reopened(disk)) == ()


def test_the_one_at_the_checkpoint_outlives_the_files_of_its_entry():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, (*entries(1, 3), conf(3, NEW), *entries(4, 8)), hard=(1, 3, 7)))
    commit(wal, writes(1, checkpoint=(5, 1), config=NEW))
    commit(wal, writes(1, (conf(8, WHOLE),)))
    assert configs(reopened(disk)) == (Placed(3, NEW), Placed(5, NEW), Placed(8, WHOLE))
    wal = reopened(disk)
    wal.carry(1)
    for _ in range(3):
        busy(wal, disk)
        wal = reopened(disk)
        assert wal.groups()[1].first_index > 3
        assert configs(wal) == (Placed(5, NEW), Placed(8, WHOLE))
    assert {one[1:] for one in records(disk, 8)} == {(1, 5, 0, encode_config(NEW))}


def test_every_file_repeats_the_one_at_the_checkpoint_also_where_states_are_spread():
    disk = SimDisk()
    wal = open_wal(disk, states_per_batch=1)
    for group in (3, 4, 5, 6):
        commit(wal, writes(group, hard=(1, -1, 0), checkpoint=(9, 1), config=LARGEST if group % 2 else NEW))
    for _ in range(2):
        busy(wal, disk)
    for name in wal_files(disk)[:-1]:
        assert {one[1] for one in records(disk, 8) if one[0] == name} == {3, 4, 5, 6}
        assert len(disk.content(f"{FOLDER}/{name}")) <= wal._file_bytes, (
            "what a file begins with is reckoned in its size"
        )
    found = reopened(disk)
    for group in (3, 4, 5, 6):
        assert configs(found, group) == (Placed(9, LARGEST if group % 2 else NEW),)


def test_an_installed_checkpoint_brings_its_configuration_and_ends_those_of_the_log():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, (*entries(1, 3), conf(3, NEW)), hard=(1, 3, 0)))
    commit(wal, writes(1, hard=(4, -1, 0), checkpoint=(20, 4), config=WHOLE))
    found = reopened(disk)
    assert configs(found) == (Placed(20, WHOLE),)
    commit(found, writes(1, (conf(21, OLD, term=4),)))
    assert configs(reopened(disk)) == (Placed(20, WHOLE), Placed(21, OLD))


def test_an_installed_checkpoint_without_one_ends_those_of_the_log_too():
    """The entry was of a leader that was deposed, and no other has brought one up to there."""
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, (*entries(1, 3), conf(3, NEW)), hard=(1, 3, 0)))
    commit(wal, writes(1, hard=(4, -1, 0), checkpoint=(20, 4)))
    assert configs(reopened(disk)) == ()


def test_an_older_checkpoint_goes_with_its_own_configuration():
    """The newest is damaged: the entries behind the older one are there, and those before it are not."""
    for older in (OLD, None):
        disk = SimDisk()
        wal = open_wal(disk)
        commit(wal, writes(1, entries(1, 5), hard=(1, 3, 4)))
        commit(wal, writes(1, checkpoint=(2, 1), config=older))
        commit(wal, writes(1, (conf(5, NEW), *entries(6, 8)), hard=(1, 3, 7)))
        commit(wal, writes(1, checkpoint=(6, 1), config=NEW))
        wal.checkpoint_lost(1, 2, 1, older)
        for turn in range(1, 60):
            commit(wal, writes(2, entries(turn, turn + 1, size=300), hard=(1, 0, turn)))
        assert {one[0] for one in records(disk, 4) if one[1:3] == (1, 2)} >= set(wal_files(disk)[1:])
        found = reopened(disk)
        assert found.groups()[1].checkpoint == (2, 1)
        assert configs(found) == ((Placed(2, older),) if older else ()) + (Placed(5, NEW),)
        commit(found, writes(1, checkpoint=(4, 1), config=older))
        assert configs(reopened(disk)) == ((Placed(4, older),) if older else ()) + (Placed(5, NEW),)


def test_a_deleted_group_leaves_no_configuration():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, (*entries(1, 3), conf(3, NEW)), hard=(1, 3, 3)), writes(2, hard=(1, 0, 0)))
    commit(wal, writes(1, checkpoint=(3, 1), config=NEW))
    wal.drop_group(1)
    commit(wal)
    assert 1 not in reopened(disk).groups()
    wal = reopened(disk)
    busy(wal, disk)
    assert not records(disk, 8)


def test_a_checkpoint_and_its_configuration_become_durable_together():
    for power_off in range(1, 40):
        disk = SimDisk()
        wal = open_wal(disk)
        commit(wal, writes(1, (*entries(1, 3), conf(3, OLD), *entries(4, 8, size=700)), hard=(1, 3, 7)))
        commit(wal, writes(1, checkpoint=(4, 1), config=OLD))
        wal.stage(writes(1, hard=(2, 1, 7), checkpoint=(30, 2), config=NEW))  # in the next file
        disk.power_off_after(power_off)
        with suppress(PowerLoss):
            wal.take_job()()
        disk.crash(Random(power_off))
        found = open_wal(disk).groups()[1]
        assert (found.checkpoint, found.configs) in (
            ((4, 1), (Placed(3, OLD), Placed(4, OLD))),
            ((30, 2), (Placed(30, NEW),)),
        )


def test_a_flipped_byte_of_the_record_is_a_loss_and_never_another_configuration():
    def written():
        disk = SimDisk()
        wal = open_wal(disk)
        commit(wal, writes(1, (*entries(1, 3), conf(3, OLD)), hard=(1, 3, 3)), writes(2, hard=(1, 0, 0)))
        begin = wal._position
        commit(wal, writes(1, checkpoint=(3, 1), config=NEW))
        end = wal._position
        commit(wal, writes(2, hard=(1, 0, 0)))
        wal.close()
        disk.restart()
        return disk, begin, end

    _, begin, end = written()
    whole = (Placed(3, NEW),)
    for at in range(begin, end):
        disk, *_ = written()
        flip(disk, FIRST, at)
        wal = open_wal(disk)
        before = ((0, 0), (Placed(3, OLD),))
        found = wal.groups()[1]
        if (found.checkpoint, found.configs) != ((3, 1), whole):
            assert (found.checkpoint, found.configs) == before, at
            assert wal.is_suspended(1), at
        wal.close()
        again = reopened(disk)
        assert again.groups()[1].configs == found.configs, "also behind the hole"
        assert again.is_suspended(1) == wal.is_suspended(1)


def test_one_of_a_later_release_is_refused_and_its_group_is_named():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(7, (Entry(1, 1, EntryKind.CONF, b"\x09" + encode_config(NEW)[1:]),), hard=(1, 3, 1)))
    with pytest.raises(Corruption, match="group 7: a configuration that this release does not know"):
        reopened(disk)
    disk.restart()
    with pytest.raises(Corruption, match="group 7"):
        open_wal(disk)


def test_a_checkpoint_without_the_configuration_that_was_known_is_our_fault():
    wal = open_wal(SimDisk())
    commit(wal, writes(1, (conf(1, NEW),), hard=(1, 3, 1)))
    commit(wal, writes(1, checkpoint=(1, 1), config=NEW))
    with pytest.raises(AssertionError, match="never forgotten"):
        wal.stage(writes(1, checkpoint=(2, 1)))


def test_a_vote_for_a_member_of_any_number_comes_back():
    disk = SimDisk()
    wal = open_wal(disk)
    votes = (-1, 0, 2**31 - 1, 2**31, 2**32 | 3, 2**63 - 1)
    for group, vote in enumerate(votes, 1):
        commit(wal, writes(group, hard=(5, vote, group)))
    sizes = {one[1]: len(one[4]) for one in records(disk, 2)}
    assert sizes == {1: 4, 2: 4, 3: 4, 4: 8, 5: 8, 6: 8}
    busy(wal, disk, group=9)
    found = reopened(disk).groups()
    assert [found[group].hard_state for group in range(1, 7)] == [
        HardState(5, vote, group) for group, vote in enumerate(votes, 1)
    ]


def test_a_group_without_such_entries_is_written_as_by_the_release_before():
    """Byte for byte: votes, checkpoints, recovery points and openings, over two files."""
    disk = SimDisk()
    wal = open_wal(disk, states_per_batch=2)
    for turn in range(1, 60):
        for group in (1, 2, 3):
            new = entries(turn, turn + 1, size=40 * group)
            commit(wal, writes(group, new, hard=(1, group, turn - 1), recovery_point=(turn - 1, turn, 0, 7)))
        commit(wal, writes(1 + turn % 3, checkpoint=(turn, 1)))
    commit(wal, writes(4, hard=(2, -1, 0), checkpoint=(9, 2)))
    wal.drop_group(4)
    commit(wal)
    names = wal_files(disk)
    assert len(names) == 2
    assert (
        hashlib.sha256(b"".join(disk.content(f"{FOLDER}/{name}") for name in names)).hexdigest()
        == OF_THE_RELEASE_BEFORE
    )
