"""How rows are run: sides in turn, a failed run once more, a missing side named and never a figure."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from bench.compare import KAFKA, MUSTER
from bench.errors import RunFailed, SideMissing
from bench.lab import Lab, Own
from bench.row import Row
from bench.runner import RowResult, run_row
from bench.sides import Disk, Side


class NamedSide(Disk):
    def __init__(self, name: str) -> None:
        self.name = name


class FakeLab:
    """Hands out sides that are nothing but names."""

    def __init__(self, *missing: str) -> None:
        self.missing = missing
        self.kept: list[tuple[str, str]] = []

    def side(self, name: str) -> Side:
        if name in self.missing:
            raise SideMissing(f"no {name} here")
        return NamedSide(name)

    def keep_logs(self, side: Side, row: str) -> Path:
        self.kept.append((side.name, row))
        return Path("kept")

    def take_latencies(self) -> dict[str, list[tuple[int, int]]]:
        return {MUSTER: [(1_000_000, 98), (9_000_000, 2)], KAFKA: []}

    @contextmanager
    def fresh(self, name: str, own: Own) -> Iterator[Side]:
        yield self.side(name)


def run(measure: Callable[[Side, Lab], Mapping[str, list[float]]], *missing: str, **fields: Any) -> RowResult:
    return run_in(FakeLab(*missing), measure, **fields)


def run_in(lab: FakeLab, measure: Callable[[Side, Lab], Mapping[str, list[float]]], **fields: Any) -> RowResult:
    row = Row(name="row", title="", how="", units={"rate": "/s"}, measure=measure, **fields)
    return run_row(row, cast(Lab, lab), lambda text: None)


def test_every_run_begins_with_another_side() -> None:
    order: list[str] = []

    def measure(side: Side, lab: Lab) -> dict[str, list[float]]:
        order.append(side.name)
        return {"rate": [float(len(order))]}

    result = run(measure, runs=3)
    assert order == [MUSTER, KAFKA, KAFKA, MUSTER, MUSTER, KAFKA]
    assert result.samples["rate"] == {MUSTER: [1.0, 4.0, 5.0], KAFKA: [2.0, 3.0, 6.0]}


def test_the_p99_of_all_runs_is_that_of_their_merged_latencies() -> None:
    assert run(lambda side, lab: {"rate": [1.0]}, runs=1).p99_ms == {MUSTER: 9.0}


def test_a_failed_run_is_tried_once_more_and_then_named() -> None:
    calls: list[str] = []

    def measure(side: Side, lab: Lab) -> dict[str, list[float]]:
        calls.append(side.name)
        if side.name == KAFKA or calls.count(MUSTER) == 1:
            raise RunFailed("errors by code {16: 1}")
        return {"rate": [1.0]}

    result = run(measure, runs=2)
    assert calls.count(KAFKA) == 2, "a side that failed twice is not asked again"
    assert result.samples == {"rate": {MUSTER: [1.0, 1.0]}}
    assert result.failures == {KAFKA: ["errors by code {16: 1}"]}


@pytest.mark.parametrize("own", [None, Own()])
def test_the_logs_of_a_side_that_was_not_measured_are_kept(own: Own | None) -> None:
    def measure(side: Side, lab: Lab) -> dict[str, list[float]]:
        if side.name == KAFKA:
            raise RunFailed("errors by code {16: 1}")
        return {"rate": [1.0]}

    lab = FakeLab()
    run_in(lab, measure, runs=1, own=own)
    assert lab.kept == [(KAFKA, "row")]


@pytest.mark.parametrize("own", [None, Own()])
def test_a_side_that_this_machine_lacks_leaves_the_others_their_figures(own: Own | None) -> None:
    result = run(lambda side, lab: {"rate": [1.0]}, KAFKA, runs=1, own=own)
    assert result.samples == {"rate": {MUSTER: [1.0]}}
    assert result.failures == {KAFKA: ["no kafka here"]}


def test_a_bug_in_a_row_is_not_taken_for_a_failed_run() -> None:
    def measure(side: Side, lab: Lab) -> dict[str, list[float]]:
        raise KeyError("typo")

    with pytest.raises(KeyError):
        run(measure, runs=1)
