"""Damage in the midst of a WAL: the start goes on behind it, and whoever may have lost a promise is suspended.

The oracle is `wal_history`: what was written and synced, by Raft's rules, and nothing of the product.
"""

from contextlib import suppress
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.members import Placed
from muster_coordinator.raft.messages import HardState
from muster_coordinator.storage.wal_format import (
    END_BYTES,
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    BatchWriter,
    FileHeader,
)
from muster_coordinator.storage.wal_losses import LOSSES_NAME
from muster_coordinator.storage.wal_proof import PROOF_NAME

from tests.sim.disk import PowerLoss, SimDisk
from tests.storage.wal_history import NEVER, History, Voter
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
    if at < len(disk.content(path)):
        disk.damage(path, at, bytes((disk.content(path)[at] ^ 1 << at % 8,)))


def cut(disk, path, at):
    file = disk.open(path)
    file.truncate(at)
    file.sync()
    file.close()


def blank(disk, path, at):
    """A sector that was never written."""
    disk.damage(path, at - at % 512, bytes(512))


class Life:
    """A WAL that lives through a history, with starts in between."""

    def __init__(self, rand):
        self.rand = rand
        self.sizes = {"states_per_batch": rand.choice((1, 2, 128)), "files_max": rand.choice((4, 4, 8, 64))}
        self.disk = SimDisk()
        self.history = History(rand)
        self.may_be = (self.history,)
        """What a start may find: with or without a batch that was in flight when power was lost."""
        self.safe = 0
        """Where the last synced batch begins in the last file."""
        self.wal = open_wal(self.disk, **self.sizes)

    def stage(self):
        some = self.history.turn()
        for one in some:
            if isinstance(one, int):
                self.wal.drop_group(one)
                continue
            self.wal.stage(one)
        for number, voter in self.history.voters.items():
            if voter.hard != NEVER and not voter.suspended and self.wal.is_suspended(number):
                assert number not in self.wal.groups(), "it is suspended since a start, or because it is new"
                voter.suspended = True
        if self.rand.random() < 0.1:
            self.wal.carry(self.rand.choice(tuple(self.history.voters)))
        return some

    def turns(self, count):
        for _ in range(count):
            if self.stage():
                file, position = self.wal._files[-1], self.wal._position
                job = self.wal.take_job()
                if job is not None:  # else a group was deleted of which nothing had been written
                    job()
                    self.wal.job_done()
                    self.safe = position if self.wal._files[-1] is file else FILE_HEADER_BYTES
            self.release()

    def release(self):
        """The leader has made good for it: it holds an entry of a term from after the loss, committed by others."""
        for number, voter in self.history.voters.items():
            others = voter.others
            if (
                voter.suspended
                and others.known.get(voter.hard.term, 0) == len(others.committed)
                and others.committed
                and others.committed[-1] > voter.lost_in
                and voter.log[: len(others.committed)] == others.committed
            ):
                voter.suspended = False
                if all(not one.suspended for one in self.history.voters.values()):
                    self.wal.all_known()
                self.wal.suspend(number, False)()

    def end(self):
        """Returns whether everything that was synced is known to be."""
        how = self.rand.choice(("stop", "stop", "kill", "power", "in flight"))
        if how == "in flight":
            before = self.history.copy()
            if self.stage():
                job = self.wal.take_job() or (lambda: None)
                self.disk.power_off_after(self.rand.randrange(8))
                try:
                    job()
                except PowerLoss:
                    self.may_be = (before, self.history)
        if how == "stop":
            self.wal.close()
        if how in ("stop", "kill"):
            self.disk.restart()
            return True
        self.disk.crash(self.rand)
        return False

    def damage(self, proven):
        rand, disk = self.rand, self.disk
        files = wal_files(disk)
        if proven and rand.random() < 0.15:
            rand.choice((flip, cut))(disk, f"{FOLDER}/{PROOF_NAME}", rand.randrange(540))
            proven = False
        if not proven:
            # Of the last batch nothing may be said on the disk: damage of that is not what this is about.
            path = f"{FOLDER}/{rand.choice(files)}"
            last = path.endswith(files[-1])
            end = self.safe if last else len(disk.content(path).rstrip(b"\0"))
            flip(disk, path, rand.randrange(max(end, 1)))
            return
        for _ in range(rand.choice((1, 1, 1, 2, 3))):
            path = f"{FOLDER}/{rand.choice(files)}"
            written = len(disk.content(path).rstrip(b"\0"))
            rand.choice((flip, flip, flip, cut, blank))(disk, path, rand.randrange(max(written, 1)))

    def start(self):
        self.wal = open_wal(self.disk, **self.sizes)

    def check(self):
        for number, voter in self.history.voters.items():
            either = [one.voters[number] for one in self.may_be if number in one.voters]
            check_group(self.wal, number, either or [voter])
        everybody = {number for one in self.may_be for number in one.voters}
        for number in self.wal.groups():
            assert number in everybody or self.wal.is_suspended(number), f"{number} was dropped"

    def adopt(self):
        """Go on with what the start has found."""
        self.history.rand = self.rand
        wal, history = self.wal, self.history
        for number in set(wal.groups()) - set(history.voters):
            wal.drop_group(number)
        for number, voter in history.voters.items():
            if wal.is_suspended(number) or voter.suspended:
                if number in wal.groups() or voter.hard != NEVER:
                    go_back(voter, wal, number)
            elif number in wal.groups():
                agreed = [one.voters[number] for one in self.may_be if number in one.voters]
                agreed = [one for one in agreed if is_whole(wal, number, one)]
                recovery_point = wal.groups()[number].recovery_point
                history.voters[number] = agreed[0]
                agreed[0].others = voter.others
                agreed[0].recovery_point = recovery_point
                agreed[0].checkpoint = wal.groups()[number].checkpoint
                agreed[0].restarted()
            else:
                history.voters[number] = Voter(number, bears_log=voter.bears_log)
                history.voters[number].others = voter.others
        self.may_be = (history,)


def go_back(voter, wal, number):
    """It goes on with what is left."""
    found = wal.groups().get(number)
    voter.suspended, voter.lost_in = True, max(voter.others.newest, voter.hard.term)
    if found is None:
        voter.hard, voter.log, voter.checkpoint, voter.recovery_point = (
            NEVER,
            [],
            (0, 0),
            voter.recovery_point._replace(applied=0),
        )
        voter.recovery_point = next(
            recovery_point for recovery_point in voter.recovery_points if recovery_point.applied == 0
        )
    else:
        log = held(wal, number)
        last, term = found.last_index, log[found.last_index].term if log else found.checkpoint[1]
        voter.log = voter.others.leaders[term][:last] if last else []
        voter.checkpoint, voter.recovery_point = found.checkpoint, found.recovery_point
        voter.hard = found.hard_state._replace(
            commit=max(min(found.hard_state.commit, last), found.checkpoint[0], min(found.recovery_point.applied, last))
        )
    voter.restarted()


def held(wal, number):
    found = wal.groups()[number]
    kept = []
    while (index := found.first_index + len(kept)) <= found.last_index:
        kept += wal.read(number, index, found.last_index + 1, 1 << 30)
    return {one.index: one for one in kept}


def is_whole(wal, number, voter):
    """Does the WAL say all that this voter has promised?"""
    found, log = wal.groups()[number], held(wal, number)
    at = found.checkpoint[0]
    return (
        (found.hard_state.term, found.hard_state.vote) == (voter.hard.term, voter.hard.vote)
        and found.hard_state.commit <= voter.hard.commit
        and found.checkpoint in voter.checkpoints
        and at <= voter.checkpoint[0]
        and found.recovery_point in voter.recovery_points
        and {index: one for index, one in log.items() if index > at}
        == {index: voter.entry(index) for index in range(at + 1, len(voter.log) + 1)}
    )


def check_group(wal, number, either):
    """Who is not suspended has all that it promised, and nobody takes for committed what is not."""
    voter, found = either[-1], wal.groups().get(number)
    if any(one.suspended for one in either[:1]):
        assert wal.is_suspended(number), f"{number} was suspended already"
    if found is None:
        assert any(one.hard == NEVER for one in either) or wal.is_suspended(number), number
        return
    if not wal.is_suspended(number):
        assert any(is_whole(wal, number, one) for one in either), number
    log = held(wal, number)
    at, last = found.checkpoint, found.last_index
    assert found.first_index <= at[0] + 1
    assert at[0] <= last
    assert at in voter.checkpoints
    assert found.recovery_point in voter.recovery_points
    assert found.hard_state.term >= max((one.term for one in log.values()), default=0)
    others = voter.others
    whole = others.leaders[log[last].term][:last] if log else others.committed[:last]
    for index, one in log.items():
        assert (one.term, len(whole)) == (whole[index - 1], last), "it is a log that Raft allows"
    assert at == (0, 0) or whole[at[0] - 1] == at[1]
    taken = min(max(found.hard_state.commit, found.recovery_point.applied, at[0]), last)
    assert whole[:taken] == others.committed[:taken], "what is taken for committed is"
    check_configs(found, log, voter, whole)


def check_configs(found, log, voter, whole):
    """Also who is suspended knows the configuration at its checkpoint, and that of each CONF entry that it has."""
    at = found.checkpoint[0]
    below = [one.config for one in found.configs if one.at <= at]
    assert (below[-1] if below else None) == voter.config_at(whole, at)
    brought = [Placed(index, voter.brought(index, one.term)) for index, one in sorted(log.items())]
    assert [one for one in found.configs if one.at > at] == [one for one in brought if one.config and one.at > at]
    assert set(found.configs) >= {one for one in brought if one.config and one.at != at}


def lived(rand):
    """A life of one to three starts, the last one to come."""
    life = Life(rand)
    for _ in range(rand.randrange(2)):
        life.turns(rand.randrange(20))
        life.end()
        life.start()
        life.check()
        assert not any(life.wal.is_suspended(number) for number in life.history.voters), "nothing was damaged"
        life.adopt()
    life.turns(rand.randrange(5, 100))
    return life


def states(life):
    """What a start has found of the groups that there are."""
    wal = life.wal
    return {
        number: (found.hard_state, found.checkpoint, found.last_index, wal.is_suspended(number), live(wal, number))
        for number, found in wal.groups().items()
        if number in life.history.voters
    }


def live(wal, number):
    at = wal.groups()[number].checkpoint[0]
    return {index: one for index, one in held(wal, number).items() if index > at}


def whoever_is_not_suspended_is_whole(seed):
    life = lived(Random(seed))
    for again in (True, False):
        life.damage(life.end())
        life.start()
        life.check()
        found = states(life)
        life.wal.close()
        life.disk.restart()
        life.start()
        assert states(life) == found, "the next start does not judge anew"
        life.adopt()
        if again:
            life.turns(life.rand.randrange(40))
    return life


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**40))
@example(seed=27201821)
def test_whoever_is_not_suspended_is_whole_wherever_the_damage_is(seed):
    whoever_is_not_suspended_is_whole(seed)


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


def test_a_start_that_ends_while_it_goes_on_behind_a_hole_finds_it_again():
    for power_off in range(1, 30):
        disk, positions = three_groups()
        flip(disk, FIRST, positions[1] + 40)
        disk.power_off_after(power_off)
        with suppress(PowerLoss):
            open_wal(disk).close()
        disk.crash(Random(power_off))
        wal = open_wal(disk)
        assert [number for number in (1, 2, 3, 99) if wal.is_suspended(GroupNo(number))] == [2, 3, 99], power_off
        assert wal.term_at(GroupNo(2), 2) == 1


def test_a_start_that_ends_while_it_cuts_what_was_synced_finds_the_loss_again():
    for power_off in range(1, 30):
        disk, positions = three_groups()
        disk.unlink(f"{FOLDER}/{PROOF_NAME}")
        disk.sync_dir(FOLDER)
        flip(disk, FIRST, positions[2] + 40)  # the batch behind it is all that says that it was synced
        disk.power_off_after(power_off)
        with suppress(PowerLoss):
            open_wal(disk).close()
        disk.crash(Random(power_off))
        wal = open_wal(disk)
        assert [number for number in (1, 2, 3, 99) if wal.is_suspended(GroupNo(number))] == [1, 2, 3, 99], power_off


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
            writer.add(1, 1, forged_number - number + 3, 1, b"forged")
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
        assert all(one.data != b"forged" for one in all_entries(again, 1)), number
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
