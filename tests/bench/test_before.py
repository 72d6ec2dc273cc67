"""Today's code beside an earlier release: what is asked to measure, and what counts as a difference."""

import pytest

from bench.before import compared, three_sided
from bench.catalogue import ROWS, select
from bench.compare import AGAIN, BEFORE, MUSTER
from bench.errors import BenchError


def test_a_row_of_requests_gets_three_sides_and_no_target() -> None:
    rows = three_sided(select(["heartbeat", "commit", "offset_fetch"]))
    assert len(rows) >= 5
    assert {row.sides for row in rows} == {(MUSTER, AGAIN, BEFORE)}
    assert not any(row.targets for row in rows)


def test_a_row_with_its_own_clusters_is_refused_by_name() -> None:
    own = next(row for row in ROWS if not row.quick)
    with pytest.raises(BenchError, match=own.name):
        three_sided([own])


@pytest.mark.parametrize(
    ("now", "again", "before", "within"),
    [
        ([100.0, 104.0, 96.0], [101.0, 99.0, 100.0], [103.0], True),
        ([100.0, 100.0, 100.0], [101.0, 99.0, 100.0], [103.0], False),
        ([100.0, 100.0, 100.0], [101.0, 99.0, 100.0], [97.0], False),
        ([100.0, 100.0, 50.0], [100.0, 100.0, 100.0], [70.0], True),
    ],
)
def test_a_change_counts_beyond_what_equal_clusters_differ_by(
    now: list[float], again: list[float], before: list[float], within: bool
) -> None:
    (found,) = compared({"CPU": {MUSTER: now, AGAIN: again, BEFORE: before}})
    assert found.within is within, found.text
    assert BEFORE in found.text


def test_what_one_side_lacks_is_not_compared() -> None:
    assert compared({"rate": {MUSTER: [1.0], AGAIN: [1.0]}, "CPU": {MUSTER: [1.0], BEFORE: [1.0], AGAIN: [0.0]}}) == []
