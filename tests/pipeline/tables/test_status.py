"""Statuses are those of Burrow's evaluator, over any log and over a recorded history of each state."""

from typing import Any, NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from muster_pipeline.schemas.status import STATUSES
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.tables import burrow, oracle
from tests.pipeline.tables.generated import (
    LOGS,
    SAMPLE_LISTS,
    SETTINGS,
    START_MS,
    commit,
    cut,
    fold,
    log,
    log_end_table,
)

Row = dict[str, Any]
KEY = ("g", "t", 0)
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000

STEADY = st.lists(
    st.tuples(
        st.builds(commit, st.just(KEY), st.one_of(st.integers(0, 30), st.integers(8, 10), st.none())),
        st.one_of(st.integers(0, 1_500), st.integers(0, 5_000), st.sampled_from([60_000, 90_000])),
        st.just(0),
    ),
    min_size=1,
    max_size=25,
).map(log)
"""One partition with many commits, so that windows are full, seconds are shared and offsets go back and forth."""
HEADS = st.lists(
    st.tuples(
        st.just("t"),
        st.just(0),
        st.one_of(st.integers(-5_000, 100_000), st.integers(0, 15_000)).map(lambda delta: START_MS + delta),
        st.one_of(st.integers(0, 40), st.integers(31, 60)),
        st.one_of(st.none(), st.integers(0, 25)),
    ),
    max_size=25,
)


@pytest.mark.computes
@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(data=st.data(), rows=st.one_of(STEADY, LOGS), samples=st.one_of(HEADS, SAMPLE_LISTS))
def test_each_status_is_burrows(data: Any, rows: list[Row], samples: list[Any]) -> None:
    made = fold(data.draw(cut(rows)), log_end_table(samples))
    if not rows:
        assert made["partition_status"].num_rows == 0
        return
    expected = burrow.statuses(made["expiry"].to_pylist(), oracle.Commits(rows), oracle.LogEnds(samples))
    names = ("group_id", "topic", "partition", "status", "since_ms")
    assert [{n: row[n] for n in names} for row in made["partition_status"].to_pylist()] == expected
    for row in expected:
        event(row["status"])


class History(NamedTuple):
    """Commits (ms after the one before, offset) and samples (ms after the start, end, start)."""

    commits: list[tuple[int, int]]
    samples: list[tuple[int, int, int]]
    since_ms: int | None
    """After the start."""


def every(step_ms: int, offsets: list[int]) -> list[tuple[int, int]]:
    return [(step_ms, offset) for offset in offsets]


HISTORIES = {
    "OK": History(every(SECOND, list(range(10, 120, 10))), [(n * SECOND, 40 + 9 * n, 0) for n in range(1, 12)], None),
    "WARN": History(
        every(SECOND, list(range(10, 120, 10))), [(n * SECOND, 20 + 30 * n, 0) for n in range(1, 12)], 2 * SECOND
    ),
    "STALL": History(
        every(SECOND, [10, 20, *[30] * 12]), [(n * SECOND, 100 + n, 0) for n in range(1, 15)], 3 * SECOND
    ),
    "STOP": History(
        every(SECOND, list(range(10, 120, 10))), [(n * 30 * SECOND, 200 + n, 0) for n in range(1, 12)], 11 * SECOND
    ),
    "REWIND": History(
        every(SECOND, [*range(100, 190, 10), 20, 30]), [(n * SECOND, 200 + n, 0) for n in range(1, 12)], 10 * SECOND
    ),
    "TRUNCATED": History(
        every(SECOND, list(range(10, 120, 10))),
        [(9 * SECOND, 200, 50), (10 * SECOND, 300, 150), (11 * SECOND, 300, 160)],
        10 * SECOND,
    ),
    "EXPIRING": History(
        every(SECOND, [10, 20]), [(2 * SECOND, 20, 0), (6 * DAY + HOUR, 20, 0)], 6 * DAY + 2 * SECOND - 3
    ),
    "ABANDONED": History(every(SECOND, [10, 20]), [(2 * SECOND, 25, 0), (DAY + HOUR, 30, 0)], 2 * SECOND),
    "UNKNOWN": History(every(SECOND, list(range(10, 120, 10))), [], None),
}  # fmt: skip
KEEP = FoldSettings(cluster="c", stall_min_ms=90_000, offsets_retention_ms=7 * DAY)


def made_of(history: History) -> list[Row]:
    rows = log([(commit(KEY, offset), step, 0) for step, offset in history.commits])
    samples = [("t", 0, START_MS + at, end, start) for at, end, start in history.samples]
    return fold([rows], log_end_table(samples), KEEP)["partition_status"].to_pylist()


@pytest.mark.parametrize("status", STATUSES)
def test_a_history_of_each_state(status: str) -> None:
    history = HISTORIES[status]
    (row,) = made_of(history)
    assert row["status"] == status
    assert row["since_ms"] == (None if history.since_ms is None else START_MS + history.since_ms)


def test_one_commit_proves_nothing_until_a_minute_has_passed() -> None:
    for after_ms, status in ((MINUTE, "UNKNOWN"), (MINUTE + 1, "STOP")):
        (row,) = made_of(History([(SECOND, 10)], [(SECOND, 20, 0), (SECOND + after_ms, 30, 0)], None))
        assert row["status"] == status


def test_a_lag_that_no_sample_tells_proves_nothing() -> None:
    """Samples begin after the commits: whether the lag fell, or was zero, nobody knows."""
    for offsets in (list(range(10, 120, 10)), [10] * 11):
        (row,) = made_of(History(every(SECOND, offsets), [(12 * SECOND, 111, 0)], None))
        assert row["status"] == "UNKNOWN"


def test_a_reader_that_was_at_the_end_lately_has_not_stopped() -> None:
    """Burrow's exception of rule 3: nothing to read for long, then a record."""
    samples = [(11 * SECOND, 110, 0), *((n * MINUTE, 110, 0) for n in range(1, 9))]
    (row,) = made_of(History(every(SECOND, list(range(10, 120, 10))), [*samples, (9 * MINUTE, 111, 0)], None))
    assert (row["status"], row["lag"]) == ("OK", 1)


def test_rates_and_what_follows_from_them() -> None:
    """Ten a second are read, five written; the log start follows at twenty a second, 290 behind the reader."""
    samples = [(n * SECOND, 1_000 + 5 * n, 20 * n) for n in range(1, 12)]
    (row,) = made_of(History(every(SECOND, list(range(410, 520, 10))), samples, None))
    assert (row["read_per_s"], row["written_per_s"], row["commits"]) == (10.0, 5.0, 10)
    assert (row["lag"], row["sampled_ms"]) == (545, START_MS + 11 * SECOND)
    assert row["drained_in_ms"] == 109_000
    assert row["lost_in_ms"] == 29_000


def test_offsets_with_gaps_tell_times_and_statuses_and_no_numbers() -> None:
    """As the rates above, of a topic in Redis by its last sample; at the end of the log nothing is behind, exactly."""
    samples = [("t", 0, START_MS + n * SECOND, 1_000 + 5 * n, 20 * n, n > 10) for n in range(1, 12)]
    rows = log([(commit(KEY, offset), SECOND, 0) for offset in range(410, 520, 10)])
    (row,) = fold([rows], log_end_table(samples), KEEP)["partition_status"].to_pylist()
    assert (row["lag"], row["read_per_s"], row["written_per_s"]) == (None, None, None)
    assert (row["status"], row["drained_in_ms"], row["lost_in_ms"]) == ("OK", 109_000, 29_000)
    rows = log([(commit(KEY, 1_055), 11 * SECOND, 0)])
    (row,) = fold([rows], log_end_table(samples), KEEP)["partition_status"].to_pylist()
    assert (row["status"], row["lag"]) == ("OK", 0)
    (told,) = fold([rows], log_end_table(samples), KEEP)["lag"].to_pylist()
    assert (told["lag"], told["quality"], told["detail"]) == (0, "exact", "sampled")


@pytest.mark.parametrize(
    ("around", "has_gaps"),
    [
        ([(0, False), (20, True)], True),
        ([(0, True), (20, None)], True),
        ([(0, None), (20, False)], False),
        ([(10, False), (20, True)], False),
        ([(0, False), (10, True)], True),
        ([(0, True)], True),
    ],
)
def test_lag_over_gaps_is_not_known_and_its_time_is(around: list[tuple[int, bool | None]], has_gaps: bool) -> None:
    """A sample at that time says whether there are gaps, else those on both sides of it do."""
    samples = [("t", 0, START_MS + at * MINUTE, 100 + at, 0, gaps) for at, gaps in around]
    made = fold([log([(commit(KEY, 90), 10 * MINUTE, 0)])], log_end_table(samples), KEEP)["lag"].to_pylist()
    (row,) = (one for one in made if one["at_ms"] == START_MS + 10 * MINUTE)
    assert (row["lag"] is None, row["quality"] == "unknown", row["detail"] == "gaps") == (has_gaps,) * 3
    assert row["log_end_offset"] >= 100
    assert row["time_lag_ms"] is not None


def test_what_does_not_come_closer_has_no_time() -> None:
    samples = [(n * SECOND, 1_000 + 30 * n, 0) for n in range(1, 12)]
    (row,) = made_of(History(every(SECOND, list(range(410, 520, 10))), samples, None))
    assert (row["drained_in_ms"], row["lost_in_ms"]) == (None, None)


def test_the_largest_offsets() -> None:
    top = 2**63 - 1
    (row,) = made_of(History(every(SECOND, [0, top - 1]), [(SECOND, 10, 0), (2 * SECOND, top, 0)], None))
    assert (row["lag"], row["commits"]) == (1, 2)


def test_settings_of_the_generated_logs_keep_offsets() -> None:
    assert SETTINGS.offsets_retention_ms == KEEP.offsets_retention_ms, "or EXPIRING would hide all other statuses"
