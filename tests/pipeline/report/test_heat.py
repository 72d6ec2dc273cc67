"""The fleet over time as numbers: what each cell says, in which order, and what is left out."""

import pytest
from muster_pipeline.report import limits
from muster_pipeline.report.heat import LEVELS, compact, heat
from muster_pipeline.report.lag import Series
from muster_pipeline.report.page import About, build
from muster_pipeline.report.source import InMemory

from tests.pipeline.report.fleet_tables import START_MS, expiry_rows, lag_rows, status, table

MINUTE_MS = 60_000
ABOUT = About(cluster="main", source="a folder", run="run-1", version="0.1.0")


def course(group: str, *points: tuple[int, int]) -> Series:
    """(minute, lag)."""
    return Series(
        group=group, points=tuple((START_MS + MINUTE_MS * at, lag) for at, lag in points), interval_ms=MINUTE_MS
    )


def test_a_cell_is_the_highest_of_its_interval_and_goes_on_until_the_next() -> None:
    found = heat([course("a", (0, 5), (2, 900), (3, 0)), course("b", (2, 7))], {"a": "OK", "b": "ERR"})
    assert found is not None
    assert found.step_ms == MINUTE_MS
    assert found.starts_ms == tuple(START_MS + MINUTE_MS * n for n in (3, 2, 1, 0)), "the newest first"
    assert [(row.group, row.status) for row in found.rows] == [("b", "ERR"), ("a", "OK")], "the worst first"
    b, a = ([cell.lag for cell in row.cells] for row in found.rows)
    assert a == [0, 900, 5, 5]
    assert b == [7, 7, None, None], "unknown before its first row"
    assert [cell.text for cell in found.rows[0].cells] == ["7", "7", "·", "·"]


def test_levels_are_logarithmic_over_the_whole_map() -> None:
    found = heat([course("a", (0, 0), (1, 1), (2, 900_000), (3, 1_000_000)), course("b", (0, 900), (3, 30))], {})
    assert found is not None
    rows = {row.group: [cell.level for cell in row.cells] for row in found.rows}
    assert rows == {"a": [LEVELS, LEVELS, 1, 0], "b": [1, 2, 2, 2]}
    flat = heat([course("a", (0, 0))], {})
    assert flat is not None
    assert flat.rows[0].cells[0].level == 0, "nobody was behind"


def test_a_long_time_is_few_columns_and_the_last_value_goes_on() -> None:
    week = [(60 * hour, hour % 24) for hour in range(24 * 7)]
    found = heat([course("a", *week)], {})
    assert found is not None
    assert found.step_ms == 12 * 60 * MINUTE_MS, "a width that people can count in"
    assert len(found.starts_ms) == len(found.rows[0].cells) == 14 <= limits.HEAT_COLUMNS_MAX
    assert [cell.lag for cell in found.rows[0].cells] == [23, 11] * 7


@pytest.mark.parametrize("minutes", [1, 23, 24, 25, 60, 1_439, 1_440, 10_080, 525_600, 5_256_000])
def test_any_time_is_at_most_so_many_columns(minutes: int) -> None:
    """Whatever minute it begins with: columns begin at round times."""
    for begin in (0, 1, 59):
        found = heat([course("a", (begin, 1), (begin + minutes, 2))], {})
        assert found is not None
        assert 1 <= len(found.starts_ms) <= limits.HEAT_COLUMNS_MAX
        assert found.starts_ms[-1] <= START_MS + MINUTE_MS * begin < found.starts_ms[-1] + found.step_ms
        assert found.starts_ms[0] <= START_MS + MINUTE_MS * (begin + minutes) < found.starts_ms[0] + found.step_ms
        assert [cell.lag for cell in found.rows[0].cells][:: max(1, len(found.starts_ms) - 1)] in ([2, 1], [2])


def test_a_small_group_in_trouble_is_on_the_map_before_large_ones() -> None:
    most = limits.HEAT_GROUPS_MAX
    lag = [one for n in range(2 * most) for one in lag_rows(f"loud-{n}", [9_000, 0])] + lag_rows("quiet", [3, 3])
    words = [status(f"loud-{n}", "OK", lag=0) for n in range(2 * most)] + [status("quiet", "STALL", 1, lag=3)]
    tables = {"lag": lag, "expiry": expiry_rows(lag), "partition_status": words}
    report = build(ABOUT, InMemory({name: table(name, rows) for name, rows in tables.items()}))
    assert report.heat is not None
    assert len(report.heat.rows) == most
    assert (report.heat.rows[0].group, report.heat.rows[0].status) == ("quiet", "ERR")
    assert len(report.series) == limits.LAG_SERIES_MAX
    assert "quiet" not in {one.group for one in report.series}, "charts are those that were furthest behind"


def test_without_a_lag_there_is_no_map() -> None:
    assert heat([], {}) is None
    assert heat([course("a")], {}) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (999, "999"), (1_000, "1.0k"), (1_249, "1.2k"), (9_949, "9.9k"), (9_950, "10k"), (99_499, "99k"),
        (999_499, "999k"), (999_500, "1.0M"), (12_345_678, "12M"), ((1 << 63) - 1, "9.2E"),
    ],
)  # fmt: skip
def test_numbers_are_at_most_four_characters(value: int, text: str) -> None:
    assert compact(value) == text
    assert len(text) <= 4
