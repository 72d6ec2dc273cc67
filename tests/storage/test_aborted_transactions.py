"""The index of aborted transactions beside a log: what a read_committed reader gets to know, and what is on disk.

The oracle knows only Kafka's rules (`ProducerStateManager`, `TransactionIndex.collectAbortedTxns`): a transaction of a
producer is open from its first batch to its marker; aborted ones are listed in the order of their markers, with the
last stable offset after each.
"""

import struct
from random import Random

import pytest
from muster_coordinator.records.batch import encode_batch, stamp
from muster_coordinator.records.control import EndMarker, TransactionMarker, marker_batch
from muster_coordinator.storage.aborted import Aborted

from tests.sim.disk import SimDisk
from tests.storage.log_kit import FOLDER, START_MS, flush, open_log
from tests.topics.read_committed import batches, delivered

EPOCH = 4


class History:
    """Random transactions of a few producers in one log, and what is known of them."""

    def __init__(self, log, seed, producers=4):
        self.log = log
        self.random = Random(seed)
        self.producers = producers
        self.opened: dict[int, int] = {}
        self.aborted: list[Aborted] = []
        self.applied = 0

    def add(self, raw):
        base = self.log.next_offset
        self.log.append(stamp(raw, base, 1))
        self.applied += 1
        return base

    def data(self, producer, *, transactional=True):
        raw = encode_batch(
            [(b"k", b"v" * 40)] * 2, timestamp_ms=START_MS, producer_id=producer, producer_epoch=EPOCH,
            base_sequence=0, transactional=transactional,
        )  # fmt: skip
        base = self.add(raw)
        if transactional:
            self.opened.setdefault(producer, base)

    def end(self, producer, commit):
        base = self.add(marker_batch(TransactionMarker(producer, EPOCH, EndMarker(commit, 3), 1), START_MS))
        first = self.opened.pop(producer, None)
        if first is not None and not commit:
            stable = min(self.opened.values(), default=base + 1)
            self.aborted.append(Aborted(producer, first, base, stable))

    def step(self):
        producer = self.random.randrange(self.producers)
        roll = self.random.random()
        if roll < 0.55:
            self.data(producer)
        elif roll < 0.65:
            self.data(producer + 100, transactional=False)
        else:
            self.end(producer, self.random.random() < 0.5)

    def wanted(self, first, end):
        """Those with a batch in the range, as a reader of exactly that range needs them."""
        return [one for one in self.aborted if one.last_offset >= first and one.first_offset < end]

    def ends(self, offset):
        """End offset of what one read from `offset` returns."""
        data = self.log.read(offset, self.random.choice((1, 300, 2_000)), True)
        at, end = 0, offset
        while at < len(data):
            base, length = struct.unpack_from(">qi", data, at)
            end = base + struct.unpack_from(">i", data, at + 23)[0] + 1
            at += 12 + length
        return end

    def check(self):
        offset = self.log.log_start_offset
        while offset < self.log.next_offset:
            end = self.ends(offset)
            assert self.log.aborted(offset, end) == self.wanted(offset, end), (offset, end)
            offset = end


def history(seed, steps=250, **options):
    disk = SimDisk()
    it = History(open_log(disk, **options), seed)
    for _ in range(steps):
        it.step()
    return disk, it


def txnindex(disk):
    return [name for name in disk.listdir(FOLDER) if name.endswith(".txnindex")]


@pytest.mark.parametrize("seed", range(4))
def test_each_read_gets_the_transactions_that_overlap_with_it_across_segments(seed):
    _disk, it = history(seed)
    assert len(it.log.views()) > 5
    assert any(one.first_offset // 20 < one.last_offset // 20 for one in it.aborted)
    it.check()


def test_the_files_have_kafkas_format_and_only_segments_with_aborts_have_one():
    disk, it = history(1)
    flush(it.log, it.applied)
    found = []
    for name in txnindex(disk):
        data = disk.content(f"{FOLDER}/{name}")
        assert len(data) % 34 == 0
        entries = [Aborted(*fields[1:]) for fields in struct.iter_unpack(">hqqqq", data) if fields[0] == 0]
        segment = disk.content(f"{FOLDER}/{name.replace('.txnindex', '.log')}")
        base, following = int(name[:20]), int(name[:20]) + 10_000
        assert segment
        assert all(base <= one.last_offset < following for one in entries)
        found += entries
    assert found == it.aborted
    other = SimDisk()
    plain = History(open_log(other), 3)
    for _ in range(60):
        plain.data(7, transactional=False)
    flush(plain.log, plain.applied)
    assert not txnindex(other)
    assert all(
        struct.unpack_from(">4sHH", other.content(f"{FOLDER}/{name}")) == (b"MSIX", 1, 0)
        for name in other.listdir(FOLDER)
        if name.endswith(".sidx")
    ), "a segment without transactions keeps the sidecar of releases before"


def lose(disk, random, how):
    """Some derived files are gone or damaged."""
    for name in [name for name in disk.listdir(FOLDER) if not name.endswith(".log")]:
        path = f"{FOLDER}/{name}"
        if how == "all" or (name.endswith(how) and random.random() < 0.6):
            disk.unlink(path)
        elif how == "flip" and disk.content(path):
            file = disk.open(path)
            at = random.randrange(file.size())
            file.pwrite(at, [bytes([file.pread(at, 1)[0] ^ 1 << random.randrange(8)])])
            file.close()
        elif how == "cut" and disk.content(path):
            file = disk.open(path)
            file.truncate(random.randrange(file.size()))
            file.close()


@pytest.mark.parametrize("how", ["nothing", "all", ".txnindex", ".sidx", "flip", "cut"])
def test_after_a_restart_the_same_is_known_whatever_became_of_the_derived_files(how):
    disk, it = history(5)
    point = flush(it.log, it.applied)
    it.log.close()
    lose(disk, it.random, how)
    it.log = open_log(disk, point)
    it.check()
    for _ in range(80):
        it.step()
    it.check()
    if how != "nothing":
        point = flush(it.log, it.applied)
        it.log.close()
        it.log = open_log(disk, point)
        it.check()


def test_files_that_go_while_the_log_is_open_are_made_again_from_the_segments():
    disk, it = history(8)
    flush(it.log, it.applied)
    it.check()
    for how in (".txnindex", "all"):
        lose(disk, it.random, how)
        it.check()


def test_entries_go_with_their_segments_and_what_is_left_is_still_right():
    disk, it = history(9)
    flush(it.log, it.applied)
    before = len(txnindex(disk))
    start = it.log.views()[4].base_offset
    it.log.advance_start(start)
    it.check()
    for _ in range(3):
        it.data(50)
        point = flush(it.log, it.applied)
    assert all(int(name[:20]) >= start for name in txnindex(disk))
    assert len(txnindex(disk)) < before
    it.log.close()
    lose(disk, it.random, "all")
    it.log = open_log(disk, point, start)
    seen = 0
    for offset in range(start, it.log.next_offset, 7):
        data, end = it.log.read(offset, 2_000, True), it.log.next_offset
        if batches(data):
            end = batches(data)[-1][0].next_offset
        # Where a transaction began is not known when its first segments are gone; which batches it has is.
        mine = delivered(data, [one[:2] for one in it.log.aborted(offset, end)])
        assert mine == delivered(data, [one[:2] for one in it.wanted(offset, end)])
        seen += len(batches(data)) - len(mine)
    assert seen > 50


def test_a_crash_that_loses_all_that_was_not_synced_loses_no_transaction():
    disk, it = history(11, steps=120)
    point = flush(it.log, it.applied)
    kept = (dict(it.opened), list(it.aborted), it.applied)
    for _ in range(60):
        it.step()
    it.log.close()
    lose(disk, it.random, "all")
    it.opened, it.aborted, it.applied = kept
    it.log = open_log(disk, point)
    it.check()
    for _ in range(60):
        it.step()
    it.check()
