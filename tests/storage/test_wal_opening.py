"""The states of all groups, repeated a few a batch: at any moment they are whole on disk, and no turn takes many."""

import pytest
from muster_coordinator.errors import Corruption
from muster_coordinator.raft.messages import HardState
from muster_coordinator.storage.contract import RecoveryPoint
from muster_coordinator.storage.limits import WAL_STATES_PER_BATCH
from muster_coordinator.storage.wal_index import GroupLog, place_of
from muster_coordinator.storage.wal_leaving import Leaving

from tests.sim.disk import SimDisk
from tests.storage.test_format_document import read_wal_file
from tests.storage.wal_kit import FOLDER, commit, entries, open_wal, wal_files, writes

SILENT = range(2, 12)
STATE_BYTES_MAX = 128


class Life:
    """Group 1 writes and is checkpointed as it goes; the others have spoken once, in the first file."""

    def __init__(self, states_per_batch, silent=SILENT):
        self.disk = SimDisk()
        self.wal = open_wal(self.disk, states_per_batch=states_per_batch)
        self.states_per_batch = states_per_batch
        self.last = 0
        self.silent = set(silent)
        spoken = [
            writes(group, entries(1, 3, term=group), hard=(group, 2, 1), recovery_point=(1, group, 0, 7))
            for group in silent
        ]
        commit(self.wal, *spoken)
        commit(self.wal, *(writes(group, checkpoint=(2, group)) for group in silent))

    def turn(self):
        checkpoint = (self.last, 1) if self.last else None
        commit(self.wal, writes(1, entries(self.last + 1, self.last + 4, size=150), checkpoint=checkpoint))
        self.last += 3

    def restarted(self):
        """Power was lost: only what is synced counts."""
        self.disk = self.disk.durable_copy()
        self.wal = open_wal(self.disk, states_per_batch=self.states_per_batch)

    def check(self, disk=None):
        disk = self.disk.durable_copy() if disk is None else disk
        found = open_wal(disk, states_per_batch=self.states_per_batch).groups()
        assert set(found) - {1} == self.silent
        for group in self.silent:
            one = found[group]
            assert (one.hard_state, one.recovery_point, one.checkpoint, one.last_index) == (
                HardState(group, 2, 1),
                RecoveryPoint(1, group, 0, 7),
                (2, group),
                2,
            )
        if self.last:
            assert found[1].last_index == self.last


@pytest.mark.parametrize("states_per_batch", [1, 3, 9, 100])
def test_silent_groups_outlive_the_file_they_spoke_in_at_every_batch(states_per_batch):
    life = Life(states_per_batch)
    for turn in range(150):
        life.turn()
        life.check()
        if turn % 17 == 16:
            life.restarted()
    assert "0000000000000002.wal" not in wal_files(life.disk)
    assert len(wal_files(life.disk)) < 8


@pytest.mark.parametrize("states_per_batch", [1, 4])
def test_a_wal_that_lost_its_oldest_files_is_refused_unless_the_others_hold_every_state(states_per_batch):
    life = Life(states_per_batch)
    refused = whole = 0
    for _ in range(60):
        life.turn()
        names = wal_files(life.disk)
        for lost in range(1, len(names)):
            disk = life.disk.durable_copy()
            for name in names[:lost]:
                disk.unlink(f"{FOLDER}/{name}")
            try:
                open_wal(disk, states_per_batch=states_per_batch)
            except Corruption:
                refused += 1
            else:
                life.check(disk)
                whole += 1
    assert refused > 5
    assert whole > 5


@pytest.mark.parametrize("after", range(14))
def test_a_group_that_is_dropped_in_the_midst_of_a_pass_stays_dropped_and_hinders_nobody(after):
    life = Life(1)
    while len(wal_files(life.disk)) == 1:
        life.turn()
    for _ in range(after):
        life.turn()
    life.wal.drop_group(SILENT[-1])
    life.wal.drop_group(SILENT[0])
    life.silent -= {SILENT[-1], SILENT[0]}
    for _ in range(50):
        life.turn()
        life.check()
        known = set()
        for name in wal_files(life.disk):
            for _, records in read_wal_file(life.disk.content(f"{FOLDER}/{name}"))[3]:
                for kind, _, group, *_ in records:
                    assert kind != 7 or group in known, "releases before this one look the group up"
                    known.add(group)
    assert life.wal.deleted_files > 1


def test_files_go_again_when_all_groups_were_dropped_in_the_midst_of_a_pass():
    life = Life(1)
    while len(wal_files(life.disk)) == 1:
        life.turn()
    for group in (1, *SILENT):
        life.wal.drop_group(group)
    life.silent.clear()
    commit(life.wal)
    low, before = 1, life.wal.deleted_files
    for _ in range(60):
        commit(life.wal, writes(50, entries(low, low + 3, size=150), checkpoint=(low - 1, 1) if low > 1 else None))
        low += 3
        found = open_wal(life.disk.durable_copy(), states_per_batch=1).groups()
        assert (set(found), found[50].last_index) == ({50}, low - 1)
    assert life.wal.deleted_files > before + 1


def left_alone(wal):
    """Nobody writes any more; the jobs until the WAL has nothing to do."""
    jobs = 0
    while (job := wal.take_job()) is not None:
        job()
        wal.job_done()
        jobs += 1
        assert jobs < 1_000
    return jobs


def test_a_full_wal_in_which_nobody_writes_goes_on_until_its_oldest_file_is_gone():
    life = Life(1)
    commit(life.wal, writes(40, entries(1, 3, size=400)))  # keeps the file, and is too large to be carried
    for _ in range(500):
        life.turn()
        if life.wal.pressed():
            break
    oldest = wal_files(life.disk)[0]
    commit(life.wal, writes(40, checkpoint=(2, 1)))
    assert left_alone(life.wal) > 1, "more groups than one batch asks"
    assert not life.wal.pressed()
    assert oldest not in wal_files(life.disk)


@pytest.mark.parametrize("size", [100, 3_000, 20_000])
def test_a_file_without_all_states_is_the_last_or_followed_by_one_that_begins_with_them(size):
    life = Life(2, range(2, 60))
    for turn in range(60):
        checkpoint = (life.last, 1) if life.last else None
        commit(life.wal, writes(1, entries(life.last + 1, life.last + 2, size=size), checkpoint=checkpoint))
        life.last += 1
        if turn % 3 == 2:
            life.restarted()  # a pass begins anew with each start
        complete = True
        for name in wal_files(life.disk)[1:]:
            _, _, _, batches, flags = read_wal_file(life.disk.content(f"{FOLDER}/{name}"))
            first, *others = [[r for r in records if r[0] == 2] for _, records in batches]
            assert complete or not flags
            complete = not flags or any(record[1] == 1 for states in (first, *others) for record in states)
            if not flags:
                assert {record[2] for record in first} >= life.silent
        life.check()


def test_ten_thousand_groups_cost_no_batch_more_than_its_share():
    groups, file_bytes = 10_000, 4 << 20
    disk = SimDisk()
    wal = open_wal(disk, file_bytes=file_bytes, files_max=8)
    for low in range(1, groups + 1, 200):
        some = range(low, low + 200)
        commit(wal, *(writes(group, entries(1, 3), hard=(1, 1, 1), recovery_point=(2, 2, 0, 9)) for group in some))
        commit(wal, *(writes(group, checkpoint=(2, 1)) for group in some))
    last, shortened = 2, []
    wal.take_shortened()
    for _ in range(2_500):
        wal.stage(writes(1, entries(last + 1, last + 2, size=10_000), checkpoint=(last, 1)))
        last += 1
        job = wal.take_job()
        assert len(job._data) < (WAL_STATES_PER_BATCH + 1) * STATE_BYTES_MAX + 10_000 + 1_000
        job()
        wal.job_done()
        shortened.append(wal.take_shortened())
        assert len(shortened[-1]) <= 2 * WAL_STATES_PER_BATCH
    assert wal.deleted_files > 1
    assert {group for some in shortened for group in some} == set(range(1, groups + 1))
    wal.close()
    disk.restart()
    found = open_wal(disk, file_bytes=file_bytes, files_max=8).groups()
    assert len(found) == groups
    assert {(one.hard_state, one.recovery_point, one.last_index) for group, one in found.items() if group > 1} == {
        (HardState(1, 1, 1), RecoveryPoint(2, 2, 0, 9), 2)
    }


class Counted(dict):
    looks = 0

    def get(self, key, default=None):
        self.looks += 1
        return super().get(key, default)


def some_logs(count):
    """Each with two entries in file 1, covered by a checkpoint, and one in file 2."""
    logs = Counted()
    for group in range(count):
        log = logs[group] = GroupLog(group)
        for index in (1, 2, 3):
            log.append(1, place_of(1 + index // 3, index), 10)
        log.written.checkpoint = (2, 1)
    return logs


def steps(leaving, logs, most=1_000):
    """Go on without any change; whether everybody has let go, and the steps that it took."""
    for count in range(1, most):
        before = logs.looks
        gone, going_on = leaving.step(logs, 1, held=False)
        assert logs.looks - before <= 7
        if gone or not going_on:
            return gone, count
    raise AssertionError


def test_a_file_goes_when_all_were_asked_and_have_let_go_a_few_at_a_time():
    logs, leaving = some_logs(100), Leaving(7)
    assert steps(leaving, logs) == (True, -(-200 // 7))
    assert sorted(leaving.shortened) == list(range(100))
    assert {log.first for log in logs.values()} == {3}


def test_who_needs_the_file_holds_it_and_nobody_lets_go_meanwhile():
    logs, leaving = some_logs(100), Leaving(7)
    logs[50].written.checkpoint = (1, 1)
    assert steps(leaving, logs)[0] is False
    assert steps(leaving, logs) == (False, 1)
    assert (leaving.shortened, {log.first for log in logs.values()}) == ([], {1})
    logs[50].written.checkpoint = (2, 1)
    assert steps(leaving, logs)[0] is True


def test_a_checkpoint_that_is_found_damaged_while_others_let_go_keeps_the_file():
    logs, leaving = some_logs(100), Leaving(7)
    while not leaving.shortened:
        leaving.step(logs, 1, held=False)
    logs[90].written.checkpoint = (1, 1)
    assert steps(leaving, logs)[0] is False
    assert logs[90].first == 1
    logs[90].written.checkpoint = (2, 1)
    assert steps(leaving, logs)[0] is True


def test_a_group_that_is_dropped_or_comes_meanwhile_is_passed_over():
    logs, leaving = some_logs(30), Leaving(7)
    logs[29].written.checkpoint = (0, 0)
    leaving.step(logs, 1, held=False)
    del logs[29]
    logs[40] = GroupLog(40)
    assert steps(leaving, logs)[0] is True


def test_what_is_held_is_asked_for_and_stays():
    logs, leaving = some_logs(3), Leaving(100)
    assert leaving.step(logs, 1, held=True)[0] is False
    assert leaving.step(logs, 1, held=True)[0] is False
    assert leaving.shortened == []
    assert leaving.step(logs, 1, held=False) == (True, False)
