"""Commits, rate, lag and stalls equal those of a reader that goes record by record, wherever the chunks are cut."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline.transforms import limits

from tests.pipeline.tables import oracle
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


def only(rows: list[Row], like: list[Row]) -> list[Row]:
    """The oracle's columns of the product's rows."""
    names = like[0].keys() if like else ()
    return [{name: row[name] for name in names if name in row} for row in rows] if like else rows


@pytest.mark.computes
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=st.data(), rows=LOGS, samples=SAMPLE_LISTS)
def test_every_table_of_commits_is_what_the_oracle_says(data: Any, rows: list[Row], samples: list[Any]) -> None:
    made = fold(data.draw(cut(rows)), log_end_table(samples))
    commits, log_ends = oracle.Commits(rows), oracle.LogEnds(samples)
    names = ("log_offset", "outcome", "resolved_at_offset", "visible_at_offset", "committed_offset", "producer_id")
    assert [{n: row[n] for n in names} for row in made["commits"].to_pylist()] == [
        {n: row[n] for n in names} for row in commits.rows
    ]
    for name, expected in (
        ("commit_rate", oracle.rate(rows, commits)),
        ("lag", oracle.lag(rows, commits, log_ends)),
        ("stalls", oracle.stalls(rows, commits, log_ends, SETTINGS.stall_min_ms)),
    ):
        assert only(made[name].to_pylist(), expected) == expected, name


@pytest.mark.computes
@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), rows=LOGS, samples=SAMPLE_LISTS)
def test_no_table_shows_where_the_chunks_were_cut(data: Any, rows: list[Row], samples: list[Any]) -> None:
    log_ends = log_end_table(samples)
    whole, pieces = fold([rows], log_ends), fold(data.draw(cut(rows)), log_ends)
    for name, table in whole.items():
        assert pieces[name].equals(table), name


def test_rows_of_each_key_are_the_same_whatever_number_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """None, one, and several times as many keys as are told at once, the last ones not quite."""
    for count in (0, 1, 3, 4, 7):
        rows = log([(commit(("g", "t", number), 5), 1_000, 0) for number in range(count)])
        monkeypatch.setattr(limits, "KEYS_AT_ONCE", 3)
        pieces = fold([rows], log_end_table([("t", 0, START_MS, 9, 0)]))
        monkeypatch.undo()
        whole = fold([rows], log_end_table([("t", 0, START_MS, 9, 0)]))
        for name in ("expiry", "partition_status"):
            assert pieces[name].equals(whole[name])
            assert whole[name]["partition"].to_pylist() == list(range(count))
