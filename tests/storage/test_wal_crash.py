"""The WAL under power loss, torn writes and damage: a synced batch is never lost, a torn tail is cut, damage is
refused."""

import errno
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import Corruption, StorageFailed, UnsupportedFormat
from muster_coordinator.raft.members import Placed, decode_config
from muster_coordinator.raft.messages import EntryKind, HardState
from muster_coordinator.records.crc import crc32c

from tests.sim.disk import PowerLoss, SimDisk
from tests.storage.wal_kit import (
    FOLDER,
    all_entries,
    commit,
    conf,
    entries,
    entry,
    open_wal,
    some_config,
    wal_files,
    writes,
)

FIRST = f"{FOLDER}/0000000000000001.wal"


def three_batches():
    """A closed WAL with three batches, and the file position where each begins; the last is the end."""
    disk = SimDisk()
    wal = open_wal(disk)
    positions = []
    for turn in range(3):
        positions.append(wal._position)
        commit(wal, writes(1, entries(1 + 3 * turn, 4 + 3 * turn, size=70), hard=(1, 2, 3 * turn)))
    positions.append(wal._position)
    disk.restart()
    return disk, positions


def test_a_tail_torn_at_every_byte_of_the_last_batch_is_cut():
    pristine, positions = three_batches()
    content = pristine.content(FIRST)
    for cut in range(positions[2], positions[3]):
        disk, _ = three_batches()
        disk.damage(FIRST, cut, bytes(len(content) - cut))
        wal = open_wal(disk)
        whole = content[cut : positions[3]].strip(b"\0") == b""
        assert all_entries(wal, 1) == list(entries(1, 10 if whole else 7, size=70)), cut
        commit(wal, writes(1, entries(10 if whole else 7, 11, size=70)))
        disk.restart()
        assert all_entries(open_wal(disk), 1) == list(entries(1, 11, size=70))


def test_a_batch_whose_sectors_arrived_in_any_subset_is_cut():
    pristine, positions = three_batches()
    end = positions[3]
    for seed in range(200):
        disk, _ = three_batches()
        rand = Random(seed)
        lost = [at for at in range(positions[2], end, 16) if rand.random() < 0.5] or [positions[2]]
        for at in lost:
            disk.damage(FIRST, at, bytes(min(16, end - at)))
        damaged = disk.content(FIRST) != pristine.content(FIRST)
        assert all_entries(open_wal(disk), 1) == list(entries(1, 7 if damaged else 10, size=70))


def test_a_batch_of_which_one_sector_is_missing_is_cut_whole():
    """Also where its records and its end can be read, and only bytes of one entry are not what was written."""
    pristine, positions = three_batches()
    for at in range(positions[2], positions[3] - 16, 16):
        disk, _ = three_batches()
        disk.damage(FIRST, at, bytes(16))
        damaged = disk.content(FIRST) != pristine.content(FIRST)
        assert damaged
        assert all_entries(open_wal(disk), 1) == list(entries(1, 7, size=70)), at


def test_a_cut_tail_leaves_zeros_so_that_it_cannot_come_back():
    disk, positions = three_batches()
    disk.damage(FIRST, positions[2] + 40, b"\xff")
    open_wal(disk)
    assert disk.content(FIRST)[positions[2] :].strip(b"\0") == b""
    disk.crash(Random(1))
    assert disk.content(FIRST)[positions[2] :].strip(b"\0") == b""


def test_wherever_the_last_byte_of_a_torn_tail_lies_it_is_cut():
    """The zeros behind it are looked at in blocks: at both sides of their edges, counted from the end of the file, and
    at its very end."""
    size = len(three_batches()[0].content(FIRST))
    for block in (1, 512, 4096, 3 * 4096):
        for at in (size - block - 1, size - block, size - 1):
            disk, positions = three_batches()
            disk.damage(FIRST, max(at, positions[3]), b"\xff")
            assert all_entries(open_wal(disk), 1) == list(entries(1, 10, size=70)), at
            assert disk.content(FIRST)[positions[3] :].strip(b"\0") == b"", at


def test_a_bit_flipped_before_the_last_batch_costs_the_group_its_entries_from_there_on_at_most():
    pristine, positions = three_batches()
    content = pristine.content(FIRST)
    for at in range(positions[2]):
        disk, _ = three_batches()
        disk.damage(FIRST, at, bytes((content[at] ^ 1 << at % 8,)))
        wal = open_wal(disk)
        found = all_entries(wal, 1)
        assert found == list(entries(1, 10, size=70)) or wal.is_suspended(1), at
        assert found == list(entries(1, len(found) + 1, size=70)), at


def test_a_file_of_a_newer_release_is_refused_as_such():
    disk, _ = three_batches()
    head = disk.content(FIRST)[:4] + b"\0\2" + disk.content(FIRST)[6:60]
    disk.damage(FIRST, 0, head + crc32c(head).to_bytes(4, "big"))
    with pytest.raises(UnsupportedFormat, match="version 2"):
        open_wal(disk)


def test_zeros_in_the_middle_are_no_end_of_the_log():
    disk, positions = three_batches()
    disk.damage(FIRST, positions[1], bytes(positions[2] - positions[1]))
    wal = open_wal(disk)
    assert wal.is_suspended(1)
    assert all_entries(wal, 1) == list(entries(1, 4, size=70))


def test_a_payload_that_looks_like_a_later_batch_end_does_not_turn_a_torn_tail_into_corruption():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 3)))
    other = SimDisk()
    foreign = open_wal(other, node=bytes(16))
    for index in range(1, 6):
        commit(foreign, writes(1, entries(index, index + 1)))
    start = wal._position
    commit(wal, writes(1, (entry(3, data=other.content(FIRST)[: foreign._position]),)))
    disk.restart()
    disk.damage(FIRST, start + 8, b"\xee")
    assert all_entries(open_wal(disk), 1) == list(entries(1, 3))


def rotated():
    """A WAL of several files; group 2 keeps the first one."""
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(2, entries(1, 2)))
    for turn in range(30):
        commit(wal, writes(1, entries(1 + 3 * turn, 4 + 3 * turn, size=120)))
    disk.restart()
    return disk, wal_files(disk)


@pytest.mark.parametrize("which", [0, 1, -2])
def test_damage_to_the_last_batch_of_a_file_that_is_not_the_last_is_passed_over(which):
    disk, names = rotated()
    path = f"{FOLDER}/{names[which]}"
    content = disk.content(path)
    # The SEAL is the last thing in the file; what lies 200 bytes before it belongs to the last batch of entries.
    disk.damage(path, len(content.rstrip(b"\0")) - 200, b"\xee")
    wal = open_wal(disk)
    assert wal.is_suspended(2), "it may have written there"
    assert all_entries(wal, 2) == list(entries(1, 2))
    assert wal.is_suspended(1), "its entries are missing"
    found = all_entries(wal, 1)
    assert found == list(entries(1, len(found) + 1, size=120))


def test_a_torn_seal_is_no_damage():
    disk, names = rotated()
    path = f"{FOLDER}/{names[-2]}"
    end = len(disk.content(path).rstrip(b"\0"))
    disk.damage(path, end - 10, bytes(10))
    assert all_entries(open_wal(disk), 1) == list(entries(1, 91, size=120))


@pytest.mark.parametrize("missing", [1, -1])
def test_a_missing_file_is_refused(missing):
    disk, names = rotated()
    disk.unlink(f"{FOLDER}/{names[missing]}")
    with pytest.raises(Corruption):
        open_wal(disk)


def test_a_missing_first_file_is_refused_while_a_group_needs_it():
    disk, names = rotated()
    disk.unlink(f"{FOLDER}/{names[0]}")
    with pytest.raises(Corruption, match="missing"):
        open_wal(disk)


def test_damage_found_by_a_later_read_is_corruption():
    disk = SimDisk()
    wal = open_wal(disk, cache_bytes_max=0)
    commit(wal, writes(1, entries(1, 4, size=70)))
    place = wal._logs[1].place_at(2) & 0xFFFFFFFF
    disk.damage(FIRST, place + 60, b"\xee")
    with pytest.raises(Corruption):
        wal.read(1, 1, 4, 1000)


@pytest.mark.parametrize("operation", ["pwrite", "sync"])
def test_a_failed_write_or_sync_is_fatal_and_never_tried_again(operation):
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(1, entries(1, 3)))
    wal.stage(writes(1, entries(3, 5)))
    job = wal.take_job()
    disk.fail_next(operation, errno.EIO)
    syncs = disk.syncs
    with pytest.raises(StorageFailed):
        job()
    assert disk.syncs == syncs
    wal.stage(writes(1, entries(5, 6)))
    assert wal.take_job() is None
    disk.crash(Random(0))
    assert all_entries(open_wal(disk), 1)[:2] == list(entries(1, 3))


def test_no_space_for_the_spare_does_not_fail_the_batch():
    disk = SimDisk()
    wal = open_wal(disk)
    disk.capacity_bytes = 4096 + 100
    commit(wal, writes(1, entries(1, 3)))
    assert wal_files(disk) == ["0000000000000001.wal"]
    disk.capacity_bytes = None
    commit(wal, writes(1, entries(3, 5)))
    assert "spare.tmp" in disk.listdir(FOLDER)


def test_no_space_for_the_next_file_is_fatal():
    disk = SimDisk()
    wal = open_wal(disk)
    disk.capacity_bytes = 4096 + 100
    turns = 0
    while wal._position < 3_500:
        commit(wal, writes(1, entries(1 + 3 * turns, 4 + 3 * turns, size=120)))
        turns += 1
    with pytest.raises(StorageFailed):
        commit(wal, writes(1, entries(1 + 3 * turns, 8 + 3 * turns, size=120)))


class Model:
    """What was promised: the state after the last batch that was synced, and the one after it if a job was cut off."""

    def __init__(self):
        self.logs = {}
        self.hard = {}
        self.checkpoints = {}
        self.configs = {}
        """Of each group the one at its checkpoint."""

    def last(self, group):
        return max(self.logs.get(group, {}), default=self.checkpoints.get(group, (0, 0))[0])

    def config_at(self, group, index):
        """The newest that an entry up to there, or a checkpoint, has brought."""
        confs = [e for i, e in self.logs[group].items() if i <= index and e.kind == EntryKind.CONF]
        newest = max(confs, key=lambda e: e.index, default=None)
        return self.configs.get(group) if newest is None else decode_config(newest.data)

    def copy(self):
        other = Model()
        other.logs = {group: dict(log) for group, log in self.logs.items()}
        other.hard = dict(self.hard)
        other.checkpoints = dict(self.checkpoints)
        other.configs = dict(self.configs)
        return other

    def apply(self, one):
        log = self.logs.setdefault(one.group, {})
        if one.hard_state is not None:
            self.hard[one.group] = one.hard_state
        if one.checkpoint is not None:
            self.checkpoints[one.group] = one.checkpoint
            self.configs[one.group] = None if one.config is None else one.config.config
            index, term = one.checkpoint
            if index not in log or log[index].term != term:
                log.clear()
        if one.entries:
            for index in [i for i in log if i >= one.entries[0].index]:
                del log[index]
            log.update({e.index: e for e in one.entries})

    def holds(self, wal):
        if set(wal.groups()) != set(self.logs):
            return False
        for group, log in self.logs.items():
            found = wal.groups()[group]
            if found.hard_state != self.hard.get(group, HardState(0, -1, 0)):
                return False
            if found.checkpoint != self.checkpoints.get(group, (0, 0)):
                return False
            if found.last_index != self.last(group):
                return False
            kept = wal.read(group, found.first_index, found.last_index + 1, 1 << 30)
            if kept != [log[i] for i in range(found.first_index, found.last_index + 1)]:
                return False
            if found.first_index > found.checkpoint[0] + 1:
                return False
            configs = {e.index: decode_config(e.data) for e in kept if e.kind == EntryKind.CONF}
            if self.configs.get(group) is not None:
                configs[found.checkpoint[0]] = self.configs[group]
            if found.configs != tuple(Placed(index, configs[index]) for index in sorted(configs)):
                return False
        return True


def random_writes(rand, model):
    group = rand.choice((1, 2, 7))
    log = model.logs.get(group, {})
    last = model.last(group)
    checkpoint = model.checkpoints.get(group, (0, 0))
    term = max(model.hard.get(group, HardState(0, -1, 0)).term, log[last].term if log else checkpoint[1])
    kind = rand.random()
    if kind < 0.15:
        return writes(group, hard=(term + 1, rand.randrange(3), last))
    if kind < 0.3 and last > checkpoint[0]:
        index = rand.randrange(checkpoint[0] + 1, last + 1)
        return writes(group, checkpoint=(index, log[index].term), config=model.config_at(group, index))
    if kind < 0.34:
        index = rand.randrange(checkpoint[0] + 1, last + 4)
        known = model.configs.get(group) is not None
        config = some_config(rand.randrange(40)) if known or rand.random() < 0.5 else None
        return writes(group, hard=(term + 1, -1, 0), checkpoint=(index, term + 1), config=config)
    first = last + 1
    if kind < 0.4 and last > checkpoint[0]:
        first, term = rand.randrange(checkpoint[0] + 1, last + 1), term + 1
    new = entries(first, first + rand.randrange(1, 5), max(term, 1), size=rand.randrange(10, 260))
    if group != 7 and rand.random() < 0.3:
        at = rand.randrange(len(new))
        new = (*new[:at], conf(first + at, some_config(rand.randrange(40)), max(term, 1)), *new[at + 1 :])
    return writes(group, new, hard=(max(term, 1), 1, 0) if rand.random() < 0.5 else None)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**40), crashes=st.integers(1, 4))
def test_a_crash_at_any_effect_loses_no_synced_batch(seed, crashes):
    rand = Random(seed)
    disk = SimDisk()
    durable, pending = Model(), None
    for _ in range(crashes):
        disk.power_off_after(rand.randrange(rand.choice((20, 200))))
        try:
            wal = open_wal(
                disk,
                cache_bytes_max=rand.choice((0, 1 << 20)),
                files_max=rand.choice((4, 64)),
                states_per_batch=rand.choice((1, 2, 128)),
            )
            assert durable.holds(wal) or (pending is not None and pending.holds(wal))
            if not durable.holds(wal):
                durable = pending
            pending = None
            while True:
                pending = durable.copy()
                for _ in range(rand.randrange(1, 4)):
                    one = random_writes(rand, pending)
                    pending.apply(one)
                    wal.stage(one)
                if rand.random() < 0.1:
                    wal.carry(rand.choice((1, 2, 7)))
                job = wal.take_job()
                job()
                wal.job_done()
                durable, pending = pending, None
        except PowerLoss:
            disk.crash(rand)
    wal = open_wal(disk, files_max=64)
    assert durable.holds(wal) or (pending is not None and pending.holds(wal))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**40))
def test_a_long_life_with_restarts_stays_bounded_and_complete(seed):
    """Nobody is admitted while only the reserve is left, as in the product; then carrying and checkpoints make room."""
    rand = Random(seed)
    disk = SimDisk()
    model = Model()
    for _ in range(4):
        wal = open_wal(disk, cache_bytes_max=2_000, files_max=12, states_per_batch=rand.choice((1, 2, 128)))
        assert model.holds(wal)
        for _ in range(40):
            for _ in range(rand.randrange(1, 4)):
                one = random_writes(rand, model)
                model.apply(one)
                wal.stage(one)
            commit(wal)
            look(wal, model)
            assert wal.used_bytes() < 13 * 4096
            for _ in range(LOOKS_MAX):
                if wal.room_bytes() > wal.reserve_bytes:
                    break
                job = wal.take_job()
                if job is not None:
                    job()
                    wal.job_done()
                look(wal, model)
            assert wal.room_bytes() > wal.reserve_bytes, "nobody could ever write again"
        wal.close()
        disk.restart()
    assert model.holds(open_wal(disk))


LOOKS_MAX = 60


def look(wal, model):
    """Checkpoints of the groups that the WAL asks for."""
    for group in wal.pinning():
        last = model.last(group)
        config = model.config_at(group, last)
        one = writes(group, checkpoint=(last, model.logs[group][last].term), config=config)
        model.apply(one)
        commit(wal, one)
