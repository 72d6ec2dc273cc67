"""The log against a plain list, with a disk that completes writes late and forgets what a crash interrupts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.raft.log import OVERHEAD, RaftLog, entries_bytes
from muster_coordinator.raft.messages import Entry

from tests.raft.making import entries
from tests.raft.network import Disk


def filled(terms: tuple[int, ...], *, compacted: tuple[int, int] = (0, 0), cache_bytes_max: int = 1 << 20) -> RaftLog:
    """A recovered log with entries of these terms."""
    disk = Disk()
    disk.compacted = compacted
    disk.entries = {entry.index: entry for entry in entries(terms, compacted[0] + 1)}
    return disk.log(cache_bytes_max)


def test_terms_are_found_by_few_look_ups() -> None:
    terms = (1,) * 400 + (3,) * 300 + (4,) + (9,) * 299
    disk = Disk()
    disk.entries = {entry.index: entry for entry in entries(terms)}
    asked = 0

    class Counting:
        def read(self, low: int, high: int, max_bytes: int) -> list[Entry]:
            return disk.read(low, high, max_bytes)

        def term_at(self, index: int) -> int | None:
            nonlocal asked
            asked += 1
            return disk.entries[index].term

    log = RaftLog(Counting(), last_index=1000)
    assert [log.term_at(i) for i in (0, 1, 400, 401, 700, 701, 702, 1000, 1001)] == [0, 1, 1, 3, 3, 4, 9, 9, None]
    assert asked < 60


def test_the_compaction_point_answers_and_what_lies_below_does_not() -> None:
    log = filled((3, 3), compacted=(10, 2))
    assert [log.term_at(i) for i in (9, 10, 11, 12, 13)] == [None, 2, 3, 3, None]
    assert (log.first_index, log.last_index, log.compacted_term) == (11, 12, 2)


@pytest.mark.parametrize(
    ("index", "term", "found"),
    [(9, 9, (7, 5)), (7, 4, (5, 3)), (7, 3, (5, 3)), (4, 3, (4, 3)), (6, 2, (2, 1)), (6, 0, (0, 0)), (1, 1, (1, 1))],
)
def test_find_conflict_by_term(index: int, term: int, found: tuple[int, int]) -> None:
    assert filled((1, 1, 3, 3, 3, 5, 5)).find_conflict_by_term(index, term) == found


def test_find_conflict_by_term_below_the_compaction_point() -> None:
    log = filled((5, 5), compacted=(10, 4))
    assert log.find_conflict_by_term(12, 3) == (9, 0)
    assert log.find_conflict_by_term(7, 9) == (7, 0)
    assert log.find_conflict_by_term(12, 4) == (10, 4)


@pytest.mark.parametrize(
    ("last", "verdict"), [((4, 2), True), ((5, 2), True), ((3, 2), False), ((9, 1), False), ((1, 3), True)]
)
def test_up_to_date(last: tuple[int, int], verdict: bool) -> None:
    assert filled((1, 1, 2, 2)).up_to_date(*last) is verdict


def test_old_payloads_leave_memory_and_are_read_again() -> None:
    disk = Disk()
    log = disk.log(cache_bytes_max=10 * OVERHEAD)
    new = entries((1,) * 40)
    for entry in new:
        log.append([entry], entries_bytes([entry]))
        disk.stage(log.unoffered())
        log.written(log.era, log.last_index)
    assert log.cache_bytes <= 10 * OVERHEAD
    assert log.cache_first > 25
    got: tuple[Entry, ...] = ()
    while len(got) < 40:
        got += log.slice(len(got) + 1, 41, 1 << 20)[0]
    assert got == new


def test_what_is_not_durable_stays_in_memory() -> None:
    log = RaftLog(cache_bytes_max=OVERHEAD)
    new = entries((1,) * 20)
    log.append(new, entries_bytes(new))
    assert log.slice(1, 21, 1 << 20)[0] == new
    log.unoffered()
    log.written(0, 15)
    assert log.cache_first == 16
    assert log.cache_bytes == entries_bytes(new[15:])


def test_a_slice_has_at_least_one_entry_and_then_what_fits() -> None:
    log = RaftLog()
    new = entries((1,) * 5)
    log.append(new, entries_bytes(new))
    one = entries_bytes(new[:1])
    assert log.slice(2, 6, 1) == (new[1:2], one)
    assert log.slice(2, 6, 2 * one) == (new[1:3], 2 * one)
    assert log.slice(2, 4, 1 << 20) == (new[1:3], 2 * one)


def test_a_remembered_slice_does_not_survive_a_cut() -> None:
    log = RaftLog()
    old = entries((1, 1))
    log.append(old, entries_bytes(old))
    assert log.slice(1, 3, 1 << 20)[0] == old
    log.cut(1, 2)
    new = entries((2,), 2)
    log.append(new, entries_bytes(new))
    assert log.slice(1, 3, 1 << 20)[0] == (old[0], new[0])


def test_completions_never_name_what_was_not_handed_out() -> None:
    log = RaftLog()
    new = entries((1, 1))
    log.append(new, entries_bytes(new))
    with pytest.raises(AssertionError, match="handed out"):
        log.written(0, 2)


def test_a_log_is_cut_once_a_term() -> None:
    log = filled((1, 1, 1))
    log.cut(2, 2)
    with pytest.raises(AssertionError, match="once"):
        log.cut(1, 2)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("cut"), st.integers(0, 100)),
        st.tuples(st.just("offer"), st.just(0)),
        st.tuples(st.just("write"), st.just(0)),
        st.tuples(st.just("compact"), st.integers(0, 100)),
        st.tuples(st.just("shrink"), st.integers(0, 300)),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=60,
)


class Model:
    """A list of (term, data), and what of it the disk holds."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.log = self.disk.log(200)
        self.term = 1
        self.entries: list[Entry] = []
        self.compacted = (0, 0)
        self.writes: list[tuple[tuple[Entry, ...], tuple[int, int]]] = []

    def append(self, count: int) -> None:
        new = entries((self.term,) * count, self.log.last_index + 1)
        self.log.append(new, entries_bytes(new))
        self.entries += new

    def cut(self, where: int) -> None:
        self.term += 1
        if self.entries:
            keep = self.compacted[0] + where % len(self.entries)
            self.log.cut(keep, self.term)
            del self.entries[keep - self.compacted[0] :]

    def offer(self, _: int) -> None:
        new = self.log.unoffered()
        self.disk.stage(new)
        self.writes.append((new, (self.log.era, self.log.last_index)))

    def write(self, _: int) -> None:
        if self.writes:
            new, persist = self.writes.pop(0)
            self.disk._put(self.disk.entries, new)
            self.log.written(*persist)

    def compact(self, where: int) -> None:
        index = min(self.compacted[0] + where % (len(self.entries) + 1), self.log.stable)
        if index > self.compacted[0] and not self.writes:
            term = self.entries[index - self.compacted[0] - 1].term
            self.log.compact(index, term)
            self.disk.checkpoint(index, term)
            del self.entries[: index - self.compacted[0]]
            self.compacted = (index, term)

    def shrink(self, max_bytes: int) -> None:
        self.log.shrink_cache(max_bytes)

    def crash(self, _: int) -> None:
        self.writes.clear()
        self.log = self.disk.log(200)
        self.entries = [self.disk.entries[i] for i in sorted(self.disk.entries)]
        self.term += 1

    def check(self) -> None:
        log, first = self.log, self.compacted[0] + 1
        assert (log.first_index, log.last_index) == (first, self.compacted[0] + len(self.entries))
        assert [log.term_at(first + i) for i in range(len(self.entries))] == [e.term for e in self.entries]
        assert log.last_term == (self.entries[-1].term if self.entries else self.compacted[1])
        for index in range(first, log.stable + 1):
            assert self.disk.entries[index] == self.entries[index - first], "stable but not on the disk"
        cached = self.entries[log.cache_first - first :] if log.cache_first >= first else self.entries
        assert log.cache_bytes == entries_bytes(cached)
        if log.offered == log.last_index:  # everything can be read back, from memory or through the reader
            got: list[Entry] = []
            while len(got) < len(self.entries):
                got += log.slice(first + len(got), log.last_index + 1, 100)[0]
            assert got == self.entries


@settings(max_examples=300, deadline=None)
@given(OPERATIONS)
def test_the_log_is_a_list_whatever_the_disk_does(operations: list[tuple[str, int]]) -> None:
    model = Model()
    for name, argument in operations:
        getattr(model, name)(argument)
        model.check()
