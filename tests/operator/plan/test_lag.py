"""Lag and ranges as people read them. Unknown and uncommitted are never 0."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_operator.plan.partitions import lag_of, ranges, text_of
from muster_operator.world.group import Counted
from muster_operator.world.views import Unknown

from tests.operator.plan.making import group_view, partition


@pytest.mark.parametrize(
    ("partitions", "records", "text"),
    [
        ([(10, 15), (3, 3)], 5, "5"),
        ([(10, 10)], 0, "0"),
        ([(None, 15), (3, 7)], 4, "4"),
        ([(None, 15), (None, 0)], None, "-"),
        ([(10, None), (3, 7)], None, "Unknown"),
        ([(None, None)], None, "Unknown"),
        ([], None, "Unknown"),
        ([(12, 10)], 0, "0"),
    ],
)
def test_lag(partitions: list[tuple[int | None, int | None]], records: int | None, text: str) -> None:
    views = [partition(number, *one) for number, one in enumerate(partitions)]
    found = lag_of(group_view([], partitions=tuple(views)))
    assert (found.records, found.text) == (records, text)


def test_partitions_without_a_commit_are_counted_apart() -> None:
    views = (partition(0, None, 5), partition(1, 1, 5), partition(2, 1, None))
    found = lag_of(group_view([], partitions=views))
    assert (found.total, found.without_commit, found.unknown) == (3, 1, 1)


EXACT, ABOUT, NOBODY_KNOWS = (
    Counted(records=7, exact=True), Counted(records=7, exact=False), Counted(records=None, exact=False)
)  # fmt: skip


@pytest.mark.parametrize(
    ("counted", "records", "text", "quality", "unknown"),
    [
        ([EXACT], 7, "7", "exact", 0),
        ([ABOUT], 7, "~7", "estimated", 0),
        ([EXACT, ABOUT], 14, "~14", "estimated", 0),
        ([EXACT, NOBODY_KNOWS], None, "Unknown", "unknown", 1),
        ([EXACT, None], 1007, "1007", "exact", 0),
        ([ABOUT, None], 1007, "~1007", "estimated", 0),
    ],
)
def test_what_the_coordinators_have_counted_is_the_lag_and_says_how_good_it_is(
    counted: list[Counted | None], records: int | None, text: str, quality: str, unknown: int
) -> None:
    """Offsets with gaps: 10 and 1010 are a thousand apart, whatever lies between."""
    views = tuple(replace(partition(number, 10, 1010), counted=one) for number, one in enumerate(counted))
    found = lag_of(group_view([], partitions=views))
    assert (found.records, found.text, found.quality, found.unknown) == (records, text, quality, unknown)


def test_a_count_needs_no_log_end_and_none_without_a_commit() -> None:
    views = (replace(partition(0, 10, None), counted=EXACT), partition(1, None, 5))
    found = lag_of(group_view([], partitions=views))
    assert (found.records, found.without_commit, found.unknown) == (7, 1, 0)


def test_an_unknown_group_has_unknown_lag() -> None:
    assert lag_of(Unknown(reason="Unreachable", message="")).text == "Unknown"


@pytest.mark.parametrize(
    ("numbers", "text"), [([7, 0, 1, 2, 3], "0-3,7"), ([5], "5"), ([], ""), ([1, 3, 5], "1,3,5"), ([4, 4, 5], "4-5")]
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


@given(st.sets(st.integers(0, 200)))
def test_ranges_say_exactly_their_numbers(numbers: set[int]) -> None:
    said: set[int] = set()
    for span in filter(None, ranges(numbers).split(",")):
        low, _, high = span.partition("-")
        said |= set(range(int(low), int(high or low) + 1))
    assert said == numbers


def test_assignments_by_topic() -> None:
    assert text_of((("pay", (2,)), ("orders", (0, 1, 2, 7)), ("none", ()))) == ["orders:0-2,7", "pay:2"]
