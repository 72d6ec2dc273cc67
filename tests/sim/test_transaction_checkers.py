"""Every checker of transactions and of cleaning fails a run in which its promise is broken."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.control import EndMarker, TransactionMarker, marker_batch
from muster_coordinator.records.keys import encode_offset_key
from muster_coordinator.records.offsets_log import encode_offset_value

from tests.sim import frames, topic_frames
from tests.sim import transaction_frames as made
from tests.sim.check_transactions import TransactionsCheck
from tests.sim.compaction import check_cleaned
from tests.sim.frames import Fetched, FetchedOffset
from tests.sim.history import History, Op
from tests.sim.producers import DATA
from tests.sim.transaction_frames import CommittedPart, Named
from tests.sim.transactors import OUTPUT, UNSTABLE, LogAsk, OffsetAsk, Pass, Sent, Txn, TxnAsk
from tests.sim.written import check_whole

TIME_MS = 1_700_000_000_000
PRODUCER = (7, 3)
GROUP = "g-copier"


def data(base: int, *values: bytes, producer: tuple[int, int] = PRODUCER, sequence: int = 0) -> bytes:
    return encode_batch(
        [(None, value) for value in values],
        timestamp_ms=TIME_MS,
        base_offset=base,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=True,
    )


def marker(base: int, *, commit: bool) -> bytes:
    batch = marker_batch(TransactionMarker(*PRODUCER, EndMarker(commit, 1), 0), TIME_MS)
    return base.to_bytes(8, "big") + batch[8:]


def offset_row(base: int, offset: int, uid: str) -> bytes:
    value = encode_offset_value(offset, -1, uid, TIME_MS)
    return encode_batch(
        [(encode_offset_key(GROUP, DATA, 0), value)],
        timestamp_ms=TIME_MS,
        base_offset=base,
        producer_id=PRODUCER[0],
        producer_epoch=PRODUCER[1],
        base_sequence=0,
        transactional=True,
    )


class Course:
    """Two transactions of a copier in two partitions: the first commits offsets 0 and 1, the second aborts."""

    def __init__(self) -> None:
        self.history = History()
        self.now_us = 0
        first = Txn("copier/0/0", "copier", PRODUCER, True, end_us=200, told=True, group=GROUP, row_known=True)
        first.sent = [Sent(OUTPUT, 0, (b"copier/0/0/0:0",), 0), Sent(OUTPUT, 1, (b"copier/0/0/0:1",), 0)]
        first.row = (DATA, 0, 2, -1, "x1")
        second = Txn("copier/0/1", "copier", PRODUCER, False, end_us=600, told=False)
        second.sent = [Sent(OUTPUT, 0, (b"copier/0/1/0:2",), 2)]
        self.txns = [first, second]
        self.logs = [
            [data(0, b"copier/0/0/0:0"), marker(1, commit=True), data(2, b"copier/0/1/0:2"), marker(3, commit=False)],
            [data(0, b"copier/0/0/0:1"), marker(1, commit=True)],
        ]
        self.offsets = [offset_row(0, 2, "x1"), marker(1, commit=True)]
        self.read = [(0, b"copier/0/0/0:0")]

    def op(self, api: int, ask: Any, answer: Any, *, term: int = 1) -> Op:
        self.now_us += 100
        op = self.history.begin("c", api, "", ask, self.now_us)
        self.now_us += 100
        op.answered_us, op.answer, op.broker, op.term = self.now_us, answer, 0, term
        return op

    def fetch(self, offset: int, uid: str, error: int = 0, *, stable: bool = False) -> None:
        row = FetchedOffset(offset, -1, uid, error)
        self.op(made.STABLE_FETCH, OffsetAsk(GROUP, DATA, 0, stable), Fetched(0, {(DATA, 0): row}))

    def stable(self, offset: int, *, term: int = 1, end: int = 100) -> None:
        self.op(frames.FETCH_LOG, LogAsk(OUTPUT, 0), CommittedPart(0, end, offset, (), b""), term=term)

    def ask(self, api: int, producer: tuple[int, int], answer: Any) -> None:
        self.op(api, TxnAsk("copier", producer, self.now_us + 100), answer)

    def broken(self) -> set[str]:
        check = TransactionsCheck(self.history, self.txns)
        check.log(OUTPUT, 0, self.logs[0], [("reader", Pass(0, self.read))])
        check.log(OUTPUT, 1, self.logs[1])
        check.offsets(self.offsets)
        return {violation.invariant for violation in check.finish({0: (0, 1, 2)})}


def test_a_course_in_which_nothing_is_broken() -> None:
    course = Course()
    course.now_us = 1_000
    course.fetch(2, "x1")
    course.fetch(-1, "", UNSTABLE, stable=True)
    course.stable(2)
    course.stable(1, term=0)  # a leader of before, which has not heard
    course.stable(4)
    course.ask(topic_frames.INIT_PRODUCER_ID, (-1, -1), Named(0, 7, 4))
    course.ask(made.ADD_PARTITIONS, (7, 4), 0)
    course.ask(made.ADD_PARTITIONS, PRODUCER, 90)
    assert course.broken() == set()


def never_ended(course: Course) -> None:
    del course.logs[0][3]


def two_fates(course: Course) -> None:
    course.logs[1][1] = marker(1, commit=False)


def committed_unasked(course: Course) -> None:
    course.logs[0][3] = marker(3, commit=True)


def lost_after_its_commit_was_told(course: Course) -> None:
    course.txns[0] = replace(course.txns[0], sent=[], row=None)
    course.logs[0][:2] = course.logs[1][:] = course.offsets[:] = []


def stands_twice(course: Course) -> None:
    course.logs[0].insert(1, data(1, b"copier/0/0/0:0", sequence=1))


def out_of_order(course: Course) -> None:
    course.txns[1].sent.insert(0, Sent(OUTPUT, 0, (b"copier/0/1/0:3",), None))


def elsewhere(course: Course) -> None:
    course.txns[0].sent[0] = course.txns[0].sent[0]._replace(base_offset=5)


def an_aborted_record_is_read(course: Course) -> None:
    course.read.append((2, b"copier/0/1/0:2"))


def a_committed_record_is_not_read(course: Course) -> None:
    course.read[:] = [(2, b"copier/0/1/0:2")]


def stable_offset_goes_back(course: Course) -> None:
    course.stable(4)
    course.stable(2, term=2)


def pending_offset_is_read(course: Course) -> None:
    course.fetch(2, "x1")
    assert course.txns[0].end_us is not None
    course.txns[0].end_us = course.now_us + 1


def aborted_offset_is_read(course: Course) -> None:
    course.now_us = 1_000
    course.fetch(3, "x2")


def offset_goes_back(course: Course) -> None:
    course.now_us = 1_000
    course.fetch(2, "x1")
    course.fetch(-1, "")


def unstable_for_who_did_not_ask(course: Course) -> None:
    course.fetch(-1, "", UNSTABLE)


def an_old_producer_is_heard(course: Course) -> None:
    course.ask(topic_frames.INIT_PRODUCER_ID, (-1, -1), Named(0, 7, 4))
    course.ask(topic_frames.PRODUCE, PRODUCER, (0, 9))


def copied_twice(course: Course) -> None:
    course.txns[1].commits = course.txns[1].told = True
    course.txns[1].sent[0] = Sent(OUTPUT, 0, (b"copier/0/1/0:1",), 2)
    course.logs[0][2:] = [data(2, b"copier/0/1/0:1"), marker(3, commit=True)]
    course.read.append((2, b"copier/0/1/0:1"))


def not_copied(course: Course) -> None:
    row = course.txns[0].row
    assert row is not None
    course.txns[0].row = (*row[:2], 3, *row[3:])
    course.offsets[0] = offset_row(0, 3, "x1")


@pytest.mark.parametrize(
    ("breaks", "invariant"),
    [
        (never_ended, "E1"),
        (two_fates, "E1"),
        (committed_unasked, "E1"),
        (lost_after_its_commit_was_told, "E1"),
        (stands_twice, "D1"),
        (out_of_order, "D2"),
        (elsewhere, "D3"),
        (an_aborted_record_is_read, "D7"),
        (a_committed_record_is_not_read, "D7"),
        (stable_offset_goes_back, "D8"),
        (pending_offset_is_read, "E2"),
        (aborted_offset_is_read, "E2"),
        (offset_goes_back, "E2"),
        (unstable_for_who_did_not_ask, "E2"),
        (an_old_producer_is_heard, "E3"),
        (copied_twice, "E4"),
        (not_copied, "E4"),
    ],
)
def test_what_is_broken_is_noticed(breaks: Any, invariant: str) -> None:
    course = Course()
    breaks(course)
    assert invariant in course.broken()


def keyed(base: int, *records: tuple[bytes, bytes | None]) -> bytes:
    return encode_batch(list(records), timestamp_ms=TIME_MS, base_offset=base)


WRITTEN = [
    keyed(0, (b"a", b"1"), (b"b", b"1")),
    keyed(2, (b"a", b"2"), (b"c", b"1")),
    keyed(4, (b"c", None)),
    keyed(5, (b"d", b"1")),
]
CLEANED = [keyed(1, (b"b", b"1")), keyed(2, (b"a", b"2")), keyed(4, (b"c", None)), keyed(5, (b"d", b"1"))]


def test_a_log_of_which_everything_hidden_was_taken() -> None:
    assert check_cleaned("it", WRITTEN, CLEANED, tombstones_stay=True) == []
    assert check_cleaned("it", WRITTEN, [CLEANED[0], CLEANED[1], CLEANED[3]], tombstones_stay=False) == []


@pytest.mark.parametrize(
    ("standing", "invariant"),
    [
        (CLEANED[1:], "C1"),
        ([CLEANED[0], keyed(2, (b"a", b"1")), *CLEANED[2:]], "C2"),
        (CLEANED[:-1], "C2"),
        ([CLEANED[0], CLEANED[1], CLEANED[3]], "C3"),
    ],
)
def test_what_cleaning_may_not_do_is_noticed(standing: list[bytes], invariant: str) -> None:
    found = check_cleaned("it", WRITTEN, standing, tombstones_stay=True)
    assert invariant in {violation.invariant for violation in found}


def test_an_open_or_aborted_record_hides_nothing() -> None:
    """Of an aborted transaction: the value before it is the last."""
    aborted = encode_batch(
        [(b"d", b"2")],
        timestamp_ms=TIME_MS,
        base_offset=6,
        producer_id=PRODUCER[0],
        producer_epoch=PRODUCER[1],
        base_sequence=0,
        transactional=True,
    )
    written = [*WRITTEN, aborted, marker(7, commit=False)]
    end = marker(7, commit=False)
    assert check_cleaned("it", written, [*CLEANED, end], tombstones_stay=True) == []
    lost = check_cleaned("it", written, [*CLEANED[:3], aborted, end], tombstones_stay=True)
    assert [violation.invariant for violation in lost] == ["C1"]


def test_a_whole_log_that_is_not_what_was_applied_is_noticed() -> None:
    """Batches without a transaction are not compared."""
    applied = [offset_row(3, 9, "u"), marker(4, commit=True)]
    log = [keyed(0, (b"a", b"1")), *applied, keyed(5, (b"a", b"2"))]
    assert check_whole(1, applied, log) == []
    for standing in (log[:2], [*log, marker(6, commit=True)], [offset_row(3, 8, "u"), *log[2:]]):
        assert [violation.invariant for violation in check_whole(1, applied, standing)] == ["R1"]
