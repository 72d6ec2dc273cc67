"""Damage in the midst of a WAL: the start goes on behind it, and whoever may have lost a promise is suspended.

The oracle is a history that keeps Raft's rules: one entry for an index and term, its predecessor always the same, and
nothing committed is ever superseded.
"""

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.messages import Entry, HardState
from muster_coordinator.storage.contract import GroupWrites
from muster_coordinator.storage.wal_format import (
    END_BYTES,
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    BatchWriter,
    FileHeader,
)
from muster_coordinator.storage.wal_losses import LOSSES_NAME
from muster_coordinator.storage.wal_proof import PROOF_NAME

from tests.sim.disk import SimDisk
from tests.storage.wal_kit import (
    CLUSTER,
    FOLDER,
    NODE,
    all_entries,
    commit,
    entries,
    entry,
    open_wal,
    wal_files,
    writes,
)

FIRST = f"{FOLDER}/0000000000000001.wal"
LOSSES = f"{FOLDER}/{LOSSES_NAME}"
NOWHERE = GroupNo(99)


def flip(disk, path, at):
    disk.damage(path, at, bytes((disk.content(path)[at] ^ 1 << at % 8,)))


def cut(disk, path, at):
    file = disk.open(path)
    file.truncate(at)
    file.sync()
    file.close()


class Group(NamedTuple):
    """What one group has promised."""

    hard: HardState
    log: dict[int, Entry]
    checkpoint: tuple[int, int]


class History:
    """Of some groups, by Raft's rules."""

    def __init__(self, rand):
        self.rand = rand
        self.groups = {1: self.begun(), 2: self.begun()}
        self.before: dict[tuple[int, int, int], int] = {}
        """(group, index, term) -> term of the entry before it, over all time."""
        self.committed: dict[tuple[int, int], Entry] = {}
        self.numbers = 2

    def begun(self):
        return Group(HardState(1, -1, 0), {}, (0, 0))

    def turn(self):
        """The writes of one batch, already part of the history."""
        kinds = (self.append, self.append, self.append, self.supersede, self.vote, self.checkpoint, self.install)
        found = []
        for _ in range(self.rand.randrange(1, 4)):
            number = self.rand.choice(tuple(self.groups))
            one = self.rand.choice(kinds)(number, self.groups[number])
            if one is not None:
                found.append(one)
        if self.rand.random() < 0.05:
            self.numbers += 1
            self.groups[self.numbers] = self.begun()
            found.append(GroupWrites(GroupNo(self.numbers), self.groups[self.numbers].hard, ()))
        if self.rand.random() < 0.03 and len(self.groups) > 2:
            number = self.rand.choice(tuple(self.groups)[:-1])
            del self.groups[number]
            found = [one for one in found if one.group != number] + [GroupNo(number)]
        return found

    def ends(self, group):
        index = max(group.log, default=group.checkpoint[0])
        return index, group.log[index].term if index in group.log else group.checkpoint[1]

    def entries_from(self, number, index, before, term):
        found = []
        for at in range(index, index + self.rand.randrange(1, 4)):
            terms = [one for one in range(max(before, 1), term + 1) if self.may_follow(number, at, one, before)]
            if not terms:
                break
            chosen = self.rand.choice((terms[-1], self.rand.choice(terms)))
            self.before[number, at, chosen] = before
            found.append(entry(at, chosen, b"%d:%d:%d|" % (number, chosen, at) + bytes((37 * at + 91 * chosen) % 200)))
            before = chosen
        return tuple(found)

    def may_follow(self, number, index, term, before):
        known = self.before
        return (
            known.get((number, index, term), before) == before
            and ((number, index - 1, term) not in known or before == term)
            and known.get((number, index + 1, term), term) == term
        )

    def take(self, number, group, hard, new):
        log = {index: one for index, one in group.log.items() if index < new[0].index} | {one.index: one for one in new}
        self.groups[number] = Group(hard, log, group.checkpoint)
        return GroupWrites(GroupNo(number), hard if hard != group.hard else None, new)

    def append(self, number, group):
        last, before = self.ends(group)
        new = self.entries_from(number, last + 1, before, group.hard.term)
        if not new:
            return None
        commit_ = self.rand.randrange(group.hard.commit, last + 1)
        for index in range(1, commit_ + 1):
            if index in group.log:
                self.committed.setdefault((number, index), group.log[index])
        return self.take(number, group, group.hard._replace(commit=commit_), new)

    def supersede(self, number, group):
        last, _ = self.ends(group)
        low = max(group.hard.commit, group.checkpoint[0]) + 1
        if low > last:
            return None
        first = self.rand.randrange(low, last + 1)
        before = group.log[first - 1].term if first - 1 in group.log else group.checkpoint[1]
        hard = HardState(group.hard.term + 1, -1, group.hard.commit)
        new = self.entries_from(number, first, before, hard.term)
        if not new or new[0] == group.log[first]:
            return None
        return self.take(number, group, hard, new)

    def vote(self, number, group):
        hard = HardState(group.hard.term + 1, self.rand.randrange(3), group.hard.commit)
        self.groups[number] = group._replace(hard=hard)
        return GroupWrites(GroupNo(number), hard, ())

    def checkpoint(self, number, group):
        if group.hard.commit <= group.checkpoint[0]:
            return None
        index = self.rand.randrange(group.checkpoint[0] + 1, group.hard.commit + 1)
        at = (index, group.log[index].term)
        log = {one: entry for one, entry in group.log.items() if one > index}
        self.groups[number] = group._replace(checkpoint=at, log=log)
        return GroupWrites(GroupNo(number), None, (), checkpoint=at)

    def install(self, number, group):
        if self.rand.random() < 0.7:
            return None
        last, _ = self.ends(group)
        term = group.hard.term + 1
        at = (last + self.rand.randrange(1, 5), term)
        self.before[number, at[0], term] = term
        hard = HardState(term, -1, at[0])
        self.groups[number] = Group(hard, {}, at)
        return GroupWrites(GroupNo(number), hard, (), checkpoint=at)


def lived(rand, turns, states_per_batch, file_bytes=4096):
    disk = SimDisk()
    wal = open_wal(disk, states_per_batch=states_per_batch, file_bytes=file_bytes, files_max=64)
    history = History(rand)
    commit(wal, *(GroupWrites(GroupNo(number), group.hard, ()) for number, group in history.groups.items()))
    for _ in range(turns):
        some = history.turn()
        for one in some:
            if isinstance(one, int):
                wal.drop_group(one)
            else:
                wal.stage(one)
        if some:
            commit(wal)
    wal.close()
    disk.restart()
    return disk, history


def held(wal, number):
    found = wal.groups()[number]
    kept = []
    while (index := found.first_index + len(kept)) <= found.last_index:
        kept += wal.read(number, index, found.last_index + 1, 1 << 30)
    return {one.index: one for one in kept}


def check(wal, history):
    """Who is not suspended has all of it, and nobody takes for committed what is not."""
    for number, group in history.groups.items():
        if number not in wal.groups():
            assert wal.is_suspended(GroupNo(number)), number
        elif not wal.is_suspended(GroupNo(number)):
            found, log = wal.groups()[number], held(wal, GroupNo(number))
            assert found.hard_state == group.hard, number
            assert found.checkpoint <= group.checkpoint, "an older one will do: what is behind it is there"
            assert {index: one for index, one in log.items() if index > group.checkpoint[0]} == group.log, number
    for number, found in wal.groups().items():
        assert number in history.groups or wal.is_suspended(number), number
        log = held(wal, number)
        assert found.first_index <= found.checkpoint[0] + 1
        assert found.checkpoint[0] <= max(found.hard_state.commit, found.checkpoint[0]) <= found.last_index
        assert found.hard_state.term >= max((one.term for one in log.values()), default=0)
        for index, one in log.items():
            if index <= found.hard_state.commit:
                assert history.committed.get((number, index), one) == one, (number, index)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**40), damages=st.sampled_from((1, 1, 1, 2, 3)))
def test_whoever_is_not_suspended_is_whole_wherever_the_damage_is(seed, damages):
    rand = Random(seed)
    states_per_batch = rand.choice((1, 2, 128))
    disk, history = lived(rand, rand.randrange(5, 60), states_per_batch)
    for _ in range(damages):
        path = f"{FOLDER}/{rand.choice(wal_files(disk))}"
        written = len(disk.content(path).rstrip(b"\0"))
        (flip if rand.random() < 0.8 else cut)(disk, path, rand.randrange(max(written, 1)))
    wal = open_wal(disk, states_per_batch=states_per_batch, files_max=64)
    check(wal, history)
    suspended = {number for number in wal.groups() if wal.is_suspended(number)}
    states = {number: (wal.groups()[number], held(wal, number)) for number in wal.groups()}
    wal.close()
    disk.restart()
    again = open_wal(disk, states_per_batch=states_per_batch, files_max=64)
    assert {number for number in again.groups() if again.is_suspended(number)} == suspended
    for number, (found, log) in states.items():
        then = again.groups()[number]
        assert then.hard_state == found.hard_state
        assert (then.checkpoint, then.last_index) == (found.checkpoint, found.last_index)
        live = {index: one for index, one in log.items() if index > found.checkpoint[0]}
        assert {index: one for index, one in held(again, number).items() if index > found.checkpoint[0]} == live


def three_groups():
    """1 and 2 write in the first batch, 1 alone in two more; 3 in all: where each begins, and the end."""
    disk = SimDisk()
    wal = open_wal(disk)
    positions = []
    for turn in range(4):
        positions.append(wal._position)
        some = [writes(3, entries(1 + turn, 2 + turn), hard=(1, 2, turn))]
        some += [writes(1, entries(1 + turn, 2 + turn, size=70), hard=(1, 2, turn))] if turn != 1 else []
        some += [writes(2, entries(1, 3), hard=(1, 2, 0))] if turn == 0 else []
        if turn == 2:
            some = [writes(1, entries(2, 4, size=70), hard=(1, 2, 0)), some[0]]
        commit(wal, *some)
    positions.append(wal._position)
    wal.close()
    disk.restart()
    return disk, positions


def test_each_flipped_bit_before_the_last_batch_costs_the_groups_that_cannot_be_proven_whole():
    """In batch 3, of four, group 1 and 3 have an entry each that is missing behind it; 2 may have had one."""
    _, positions = three_groups()
    refused = []
    for at in range(positions[3]):
        disk, _ = three_groups()
        flip(disk, FIRST, at)
        wal = open_wal(disk)
        lost = {number for number in (1, 2, 3) if wal.is_suspended(GroupNo(number))}
        if at < FILE_HEADER_BYTES:
            assert not lost, at
        if not lost:
            assert [one.index for one in all_entries(wal, 1)] == [1, 2, 3, 4], at
            refused.append(at)
        if positions[1] <= at < positions[2] and lost:
            assert lost == {2, 3}, "an entry of 3 is missing, 2 may have had some, 1 goes on in the same term"
        assert wal.is_suspended(NOWHERE) or not lost
        assert wal.damage or not lost
        again = commit_more(wal)
        assert again
    assert FILE_HEADER_BYTES <= len(refused) < FILE_HEADER_BYTES + END_BYTES + 8 * 12, "header, empty batch 1, padding"


def commit_more(wal):
    last = wal.groups()[GroupNo(1)].last_index if GroupNo(1) in wal.groups() else 0
    commit(wal, writes(1, entries(last + 1, last + 2, term=2), hard=(2, 2, 0)))
    return wal.read(GroupNo(1), last + 1, last + 2, 1)


def test_a_hole_is_judged_once():
    """Behind it stands what the start knew: nobody who was made whole is suspended again by the same hole."""
    disk, positions = three_groups()
    flip(disk, FIRST, positions[1] + 40)
    wal = open_wal(disk)
    suspended = [number for number in (1, 2, 3, 99) if wal.is_suspended(GroupNo(number))]
    assert suspended == [2, 3, 99]
    commit(wal, writes(3, (entry(2, 5), entry(3, 5)), hard=(5, 1, 1)))
    wal.all_known()
    for number in suspended:
        wal.suspend(GroupNo(number), False)()
    wal.close()
    disk.restart()
    again = open_wal(disk)
    assert not any(again.is_suspended(GroupNo(number)) for number in suspended)
    assert [one.term for one in all_entries(again, 3)] == [1, 5, 5]
    assert again.groups()[GroupNo(3)].hard_state == HardState(5, 1, 1)


@pytest.mark.parametrize("power_off", range(1, 30))
def test_a_start_that_ends_while_it_goes_on_behind_a_hole_finds_it_again(power_off):
    disk, positions = three_groups()
    flip(disk, FIRST, positions[1] + 40)
    disk.power_off_after(power_off)
    try:
        open_wal(disk).close()
    except BaseException as error:  # noqa: BLE001
        assert "PowerLoss" in type(error).__name__
    disk.crash(Random(power_off))
    wal = open_wal(disk)
    assert [number for number in (1, 2, 3, 99) if wal.is_suspended(GroupNo(number))] == [2, 3, 99]
    assert wal.term_at(GroupNo(2), 2) == 1


def test_bytes_that_a_client_stores_are_never_taken_for_batches_behind_a_hole():
    """It knows every id, the position and the number: it lacks the chain value that the next real batch leads to."""
    for number in range(2, 6):
        disk = SimDisk()
        wal = open_wal(disk)
        commit(wal, writes(1, entries(1, 3)))
        seed = FileHeader(1, NODE, CLUSTER, 1, 0).seed
        position = wal._position + RECORD_HEADER_BYTES
        forged, chain = b"", 0xDEADBEEF
        for forged_number in range(number, number + 3):
            writer = BatchWriter(seed, position + len(forged))
            writer.add(1, 1, 3, 9, b"forged")
            batch, chain = writer.finish(forged_number, chain)
            forged += batch
        begin = wal._position
        commit(wal, writes(1, (entry(3, data=forged + bytes(8)),)))
        commit(wal, writes(1, entries(4, 6)))
        commit(wal, writes(1, entries(6, 8)))
        assert disk.content(FIRST)[position : position + len(forged)] == forged
        wal.close()
        disk.restart()
        flip(disk, FIRST, begin)
        again = open_wal(disk)
        assert again.is_suspended(GroupNo(1))
        assert all(one.term == 1 for one in all_entries(again, 1)), number
        assert len(forged) > 2 * END_BYTES


def test_without_a_proof_nothing_behind_a_hole_is_believed_and_everybody_is_suspended():
    disk, positions = three_groups()
    disk.unlink(f"{FOLDER}/{PROOF_NAME}")
    flip(disk, FIRST, positions[1] + 40)
    wal = open_wal(disk)
    assert all(wal.is_suspended(GroupNo(number)) for number in (1, 2, 3, 99))
    assert [one.index for one in all_entries(wal, 3)] == [1]
    assert [one.index for one in all_entries(wal, 2)] == [1, 2]


def test_a_proof_of_the_release_before_counts_as_a_number_without_chain_value():
    from muster_coordinator.records.crc import crc32c
    from muster_coordinator.storage.wal_proof import SLOTS_AT

    disk, positions = three_groups()
    slot = b"MSYN" + (1).to_bytes(2, "big") + bytes(2) + (5).to_bytes(8, "big")
    sealed = slot + crc32c(slot, crc32c(CLUSTER, crc32c(NODE))).to_bytes(4, "big") + bytes(4)
    for at in SLOTS_AT:
        disk.damage(f"{FOLDER}/{PROOF_NAME}", at, sealed)
    flip(disk, FIRST, positions[3] + 40)
    wal = open_wal(disk)
    assert all(wal.is_suspended(GroupNo(number)) for number in (1, 2, 3, 99))
    assert [one.index for one in all_entries(wal, 2)] == [1, 2]
