"""Every rule fails a history in which it is broken, and only that one; plans are what their seed says."""

from itertools import product

import pytest

from tests.faults.checks import (
    OFFSETS,
    OWNERS,
    PRODUCERS,
    STUCK,
    Claim,
    Found,
    Produced,
    Seen,
    check,
    exactly_once,
    one_owner,
    operations,
)
from tests.faults.plan import CLOCK, FREEZE, HOLD_MS_MAX, KILL, draw
from tests.faults.soak import Point, growth_bytes
from tests.sim import frames
from tests.sim.frames import Fetched, FetchedOffset
from tests.sim.history import CommitAsk, FetchAsk, History

KEY = ("t", 0)
GOOD_LOG = {0: ["a/0", "b/0", "a/1", "b/1", "a/2"]}
PRODUCED = (Produced("a", 0, 3, frozenset()), Produced("b", 0, 2, frozenset()))


class Told:
    """A history of one key, one operation after the other unless said otherwise."""

    def __init__(self) -> None:
        self.history = History()
        self.now_us = 0

    def commit(self, uid: int, code: int | None = 0, *, takes_us: int = 10) -> None:
        rows = ((*KEY, uid, 0, f"u{uid}"),)
        op = self.history.begin("c", frames.COMMIT, "g", CommitAsk(-1, "", None, rows), self.now_us)
        self._end(op, None if code is None else {KEY: code}, takes_us)

    def read(self, uid: int | None, *, takes_us: int = 10, offset: int | None = None) -> None:
        got = FetchedOffset(-1, -1, "", 0) if uid is None else FetchedOffset(offset or uid, 0, f"u{uid}", 0)
        op = self.history.begin("c", frames.FETCH, "g", FetchAsk((KEY,)), self.now_us)
        self._end(op, Fetched(0, {KEY: got}), takes_us)

    def _end(self, op: object, answer: object, takes_us: int) -> None:
        if answer is not None:
            op.answer, op.answered_us = answer, self.now_us + takes_us  # type: ignore[attr-defined]
        self.now_us += 100


def rules(told: Told) -> set[str]:
    return {found.rule for found in check(Seen(told.history, (), {}, (), ()))}


def test_a_history_in_which_all_is_kept_is_silent() -> None:
    told = Told()
    told.read(None)
    told.commit(1)
    told.commit(2, None)
    told.commit(3, 16)
    told.read(1)
    told.read(3)
    told.commit(4, 27)
    told.read(3)
    claims = (Claim("g", 1, "m", frozenset({KEY})), Claim("g", 2, "n", frozenset({KEY})))
    seen = Seen(told.history, PRODUCED, GOOD_LOG, claims, ())
    assert check(seen) == []
    counted = operations(seen)
    assert (counted["commits"], counted["reads"], counted["of unknown outcome or refused"]) == (1, 4, 3)
    assert (counted["records"], counted["assignments"], counted["generations"]) == (5, 2, 2)


def test_a_stale_read_is_found() -> None:
    told = Told()
    told.commit(1)
    told.commit(2)
    told.read(1)
    assert rules(told) == {OFFSETS}


def test_a_read_that_goes_back_is_found_even_where_nothing_was_acknowledged() -> None:
    told = Told()
    told.commit(1)
    told.commit(2, None)
    told.read(2)
    told.read(1)
    assert rules(told) == {OFFSETS}


def test_a_lost_commit_is_found() -> None:
    told = Told()
    told.commit(1)
    told.read(None)
    assert rules(told) == {OFFSETS}


def test_a_refused_commit_that_is_read_is_found() -> None:
    told = Told()
    told.commit(1, 27)
    told.read(1)
    assert rules(told) == {OFFSETS}


def test_an_offset_that_nobody_committed_is_found() -> None:
    told = Told()
    told.commit(1)
    told.read(1, offset=7)
    assert rules(told) == {OFFSETS}
    told = Told()
    told.read(9)
    assert rules(told) == {OFFSETS}


def test_operations_that_overlap_may_take_either_order() -> None:
    told = Told()
    told.commit(1)
    told.commit(2, takes_us=1_000)
    told.read(1)
    told.read(2)
    assert rules(told) == set()


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (["a/0", "b/0", "a/1", "a/1", "b/1", "a/2"], "stand twice"),
        (["a/0", "a/1", "b/0", "a/0", "b/1", "a/2"], "stand twice"),
        (["a/1", "b/0", "a/0", "b/1", "a/2"], "out of order"),
        (["a/0", "b/0", "b/1", "a/2"], "lost"),
        (["a/0", "b/0", "a/1", "b/1", "a/2", "a/3"], "never sent"),
        (["a/0", "b/0", "a/1", "b/1", "a/2", "a/x"], "never sent"),
        (["a/0", "b/0", "a/1", "b/1", "a/2", "c/0"], "sent by nobody"),
        (["a/0", "b/0", "a/1", "b/1", "a/2", "junk"], "sent by nobody"),
        ([], "lost"),
    ],
)
def test_a_log_that_breaks_exactly_once_is_found(log: list[str], said: str) -> None:
    assert exactly_once(PRODUCED, GOOD_LOG) == []
    found = exactly_once(PRODUCED, {0: log})
    assert any(said in one.text for one in found), found
    assert {one.rule for one in found} == {PRODUCERS}


def test_what_a_producer_gave_up_may_stand_once_or_not() -> None:
    gave_up = (Produced("a", 0, 3, frozenset({1})), PRODUCED[1])
    assert exactly_once(gave_up, GOOD_LOG) == []
    assert exactly_once(gave_up, {0: ["a/0", "b/0", "b/1", "a/2"]}) == []
    assert exactly_once(gave_up, {0: ["a/0", "b/0", "a/1", "a/1", "b/1", "a/2"]}) != []


def test_a_partition_with_two_owners_in_a_generation_is_found() -> None:
    mine = Claim("g", 3, "m", frozenset({("t", 0), ("t", 1)}))
    assert one_owner([mine, mine, Claim("g", 3, "n", frozenset({("t", 2)}))]) == []
    assert one_owner([mine, Claim("g", 4, "n", frozenset({("t", 1)})), Claim("h", 3, "n", frozenset({("t", 1)}))]) == []
    found = one_owner([mine, Claim("g", 3, "n", frozenset({("t", 1)}))])
    assert [one.rule for one in found] == [OWNERS]
    assert "m and n" in found[0].text


def test_who_is_never_served_again_is_found() -> None:
    assert check(Seen(History(), (), {}, (), ("c7",))) == [Found(STUCK, "c7: no success after the last fault")]


def test_a_plan_follows_from_its_seed_and_has_every_kind_of_fault() -> None:
    assert draw(5, 60, clocks=True) == draw(5, 60, clocks=True)
    assert draw(5, 60, clocks=True) != draw(6, 60, clocks=True)
    assert draw(5, 12, clocks=True) == draw(5, 60, clocks=True)[:12]
    steps = {(CLOCK, 1), (CLOCK, 3)}
    for seed, clocks in product(range(200), (False, True)):
        faults = draw(seed, 12, clocks=clocks)
        kinds = {(fault.kind, len(fault.servers)) for fault in faults}
        assert kinds == {(kind, size) for kind in (KILL, FREEZE) for size in (1, 2, 3)} | (steps if clocks else set())
        assert all((fault.step_ms != 0) == (fault.kind == CLOCK) for fault in faults)
        assert all(0 < fault.hold_ms <= HOLD_MS_MAX for fault in faults)
        assert all(len(set(fault.servers)) == len(fault.servers) for fault in faults)


def test_growth_is_the_most_that_was_held_after_the_warm_up() -> None:
    points = [Point(1, 10), Point(2, 50), Point(3, 70), Point(4, 60)]
    assert growth_bytes(points, 1) == 60
    assert growth_bytes(points, 2) == 20
    assert growth_bytes(points, 4) == 0
