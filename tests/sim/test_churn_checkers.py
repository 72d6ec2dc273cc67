"""What a topic's deletion does not permit is noticed: each breach is planted in a sound history."""

from typing import Any

import pytest
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import encode_batch

from tests.sim import frames, topic_frames
from tests.sim.admin_frames import ALTER_CONFIGS
from tests.sim.check_churn import ChurnCheck
from tests.sim.churn import CHURN, CHURN_GROUP, Altered, Get, Put
from tests.sim.churn_run import left_over
from tests.sim.frames import Fetched, FetchedOffset
from tests.sim.history import CommitAsk, FetchAsk, History, Op
from tests.sim.incarnations import Incarnations
from tests.sim.topic_frames import LogPart

FIRST, SECOND = b"1" * 16, b"2" * 16


def batch(offset: int, *values: bytes) -> bytes:
    return encode_batch([(None, value) for value in values], timestamp_ms=1, base_offset=offset)


class Told:
    """A history of one replica that knows one topic of the name after the other; 100 us between any two things."""

    def __init__(self) -> None:
        self.history = History()
        self.incarnations = Incarnations(CHURN)
        self.now_us = 0
        self.has(FIRST)

    def has(self, topic_id: bytes | None) -> None:
        """The replica's image changes."""
        self.now_us += 100
        self.incarnations.note(0, self.now_us, topic_id)
        for known in self.incarnations.born_us:
            if known != topic_id:
                self.incarnations.gone_us.setdefault(known, self.now_us)

    def op(self, api: int, ask: Any, answer: Any, group: str = "") -> Op:
        self.now_us += 100
        op = self.history.begin("c", api, group, ask, self.now_us)
        if answer is not None:
            self.now_us += 100
            op.answered_us, op.answer, op.broker = self.now_us, answer, 0
        return op

    def put(self, value: bytes, offset: int, code: int = 0) -> Op:
        return self.op(topic_frames.PRODUCE, Put(0, value), (code, offset))

    def got(self, offset: int, *values: bytes, code: int = 0) -> Op:
        return self.op(frames.FETCH_LOG, Get(0, offset), LogPart(code, 9, batch(offset, *values) if values else b""))

    def commit(self, uid: int, code: int = 0) -> Op:
        ask = CommitAsk(-1, "", None, ((CHURN, 0, uid, 0, f"u{uid}"),))
        return self.op(frames.COMMIT, ask, {(CHURN, 0): code}, CHURN_GROUP)

    def fetch(self, uid: int) -> Op:
        got = FetchedOffset(-1, -1, "", 0) if uid < 0 else FetchedOffset(uid, 0, f"u{uid}", 0)
        return self.op(frames.FETCH, FetchAsk(((CHURN, 0),)), Fetched(0, {(CHURN, 0): got}), CHURN_GROUP)

    def deleted(self) -> None:
        self.has(None)

    def again(self) -> None:
        self.has(None)
        self.has(SECOND)


def names(told: Told, end: tuple[bytes, int, list[bytes]] | None = None) -> set[str]:
    check = ChurnCheck(told.history, told.incarnations)
    check.history_only()
    if end is not None:
        check.final(end[0], 0, end[1], end[2])
    return {violation.invariant for violation in check.found}


def test_a_sound_history_passes() -> None:
    told = Told()
    told.put(b"a", 0)
    told.got(0, b"a")
    told.commit(1)
    told.fetch(1)
    told.deleted()
    told.put(b"b", -1, 3)
    told.fetch(-1)
    told.has(SECOND)
    told.put(b"c", 0)
    told.got(0, b"c")
    told.fetch(-1)
    told.commit(2)
    told.fetch(2)
    told.got(7, code=1)
    assert names(told, (SECOND, 0, [batch(0, b"c")])) == set()


@pytest.mark.parametrize(
    ("breach", "name"),
    [
        (lambda t: (t.put(b"a", 0), t.again(), t.got(0, b"a")), "D5"),
        (lambda t: (t.deleted(), t.deleted(), t.put(b"a", 0)), "D5"),
        (lambda t: (t.put(b"a", -1, 6), t.got(0, b"a")), "D6"),
        (lambda t: (t.put(b"a", 0), t.put(b"b", 0)), "R4"),
        (lambda t: (t.put(b"a", 0), t.put(b"b", 1), t.got(0, b"b")), "R4"),
        (lambda t: t.got(0, b"a"), "R4"),
        (lambda t: (t.put(b"a", 0), t.got(1, code=1)), "T1"),
        (lambda t: t.got(0, code=1), "T1"),
        (lambda t: t.got(0, code=3), "T2"),
        (lambda t: t.put(b"a", -1, 3), "T2"),
        (lambda t: t.commit(1, 3), "T2"),
        (lambda t: t.op(topic_frames.METADATA, CHURN, (3, {})), "T2"),
        (lambda t: (t.commit(1), t.again(), t.fetch(1)), "O14"),
        (lambda t: (t.commit(1), t.deleted(), t.deleted(), t.fetch(1)), "O14"),
        (lambda t: (t.commit(1), t.fetch(-1)), "O4"),
        (lambda t: (t.again(), t.commit(1), t.commit(2), t.fetch(1)), "O1/O5"),
        (lambda t: (t.commit(1, 22), t.fetch(1)), "O14"),
    ],
)
def test_a_breach_is_noticed(breach: Any, name: str) -> None:
    told = Told()
    breach(told)
    assert names(told) == {name}


@pytest.mark.parametrize(
    ("log_start", "log", "name"),
    [
        (0, [], "D3"),
        (0, [batch(0, b"b", b"a")], "D3"),
        (0, [batch(0, b"a", b"b", b"a")], "D1"),
        (1, [batch(1, b"b")], "D3"),
        (0, [batch(0, b"a", b"b", b"old")], "D5"),
    ],
)
def test_a_log_that_breaks_a_promise_is_noticed(log_start: int, log: list[bytes], name: str) -> None:
    told = Told()
    told.put(b"old", 0)
    told.again()
    told.put(b"a", 0)
    told.put(b"b", 1)
    assert names(told, (SECOND, 0, [batch(0, b"a", b"b")])) == set()
    assert names(told, (SECOND, log_start, log)) == {name}


def test_retention_takes_what_it_was_told_to_and_only_then() -> None:
    told = Told()
    told.op(ALTER_CONFIGS, Altered(CHURN, "segment.ms"), 0)
    told.put(b"a", 0)
    assert names(told, (FIRST, 1, [])) == {"D3"}
    told.op(ALTER_CONFIGS, Altered(CHURN, "retention.bytes"), None)
    assert names(told, (FIRST, 1, [])) == set()


def test_a_request_while_the_image_changes_may_have_meant_either_topic() -> None:
    told = Told()
    op = told.op(topic_frames.PRODUCE, Put(0, b"a"), (0, 0))
    assert op.answered_us is not None
    told.incarnations.note(0, op.answered_us - 50, SECOND)
    told.got(0, b"a")
    assert told.incarnations.during(0, op.sent_us, op.answered_us) == {FIRST, SECOND}
    assert names(told) == set()


def test_a_fetch_while_the_topic_goes_may_find_no_offset() -> None:
    told = Told()
    told.commit(1)
    op = told.fetch(-1)
    assert names(told) == {"O4"}
    assert op.answered_us is not None
    told.incarnations.note(0, op.answered_us - 50, None)
    assert names(told) == set()


def test_a_late_image_may_find_no_offset_of_a_topic_that_others_saw_deleted_but_not_before_that() -> None:
    """Seed 753: after a power loss tombstones of the offsets are there before the image knows of the deletion again."""
    told = Told()
    told.commit(1)
    op = told.fetch(-1)
    assert op.answered_us is not None
    told.incarnations.gone_us[FIRST] = op.answered_us + 1
    assert names(told) == {"O4"}
    told.incarnations.gone_us[FIRST] = op.answered_us
    assert names(told) == set()


def test_what_is_left_of_a_deleted_topic_is_noticed() -> None:
    files = ["segments/1/__consumer_offsets-0/0.log", "segments/12/t-0/0.log", "wal/0.wal"]
    assert left_over({GroupNo(0), GroupNo(1), GroupNo(12)}, [GroupNo(0), GroupNo(1), GroupNo(12)], files) == []
    assert left_over({GroupNo(0), GroupNo(1)}, [GroupNo(0), GroupNo(1)], files) == ["segments/12/t-0/0.log"]
    assert left_over({GroupNo(0), GroupNo(1)}, [GroupNo(0), GroupNo(12)], files[:1]) == ["group 1", "group 12"]
