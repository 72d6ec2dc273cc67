"""The rows: all that the plan asks for are there, each with a name of its own, and can be chosen."""

import re
from pathlib import Path

import pytest

from bench.catalogue import ROWS, select
from bench.errors import BenchError

ROOT = Path(__file__).resolve().parents[2]


def test_names_are_unique_and_quick_rows_come_first() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    quick = [row.quick for row in ROWS]
    assert quick == sorted(quick, reverse=True), "rows with clusters of their own end the shared ones"


def test_rows_are_chosen_by_name_by_family_and_all() -> None:
    assert [row.name for row in select(["commit_10"])] == ["commit_10"]
    assert [row.name for row in select(["commit"])] == ["commit_1", "commit_10", "commit_half"]
    assert select(["all"]) == list(ROWS)
    assert select([]) == [row for row in ROWS if row.quick]
    with pytest.raises(BenchError, match="no such row: nonsense"):
        select(["nonsense"])


def test_every_reason_belongs_to_a_target_that_exists() -> None:
    import tomllib

    reasons = tomllib.loads((ROOT / "bench" / "reasons.toml").read_text())
    known = {(row.name, target.text) for row in ROWS for target in row.targets}
    scales, figures_of_pipeline = ("4M", "20M", "100M"), ("memory", "time", "share")
    known |= {(f"pipeline_{scale}", figure) for scale in scales for figure in figures_of_pipeline}
    assert {(row, figure) for row, figures in reasons.items() for figure in figures} <= known


def test_the_document_has_no_section_of_a_row_that_is_gone() -> None:
    """Sections of `bench.pipeline` are its own business: one a number of records."""
    document = (ROOT / "docs" / "benchmarks.md").read_text()
    marks = {mark for mark in re.findall(r"<!-- bench:(\S+) -->", document) if not re.fullmatch(r"pipeline_\d+M", mark)}
    assert marks <= {"machine", *(row.name for row in ROWS)}
