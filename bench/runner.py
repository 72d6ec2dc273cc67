"""Runs rows: the sides in turn, so that disturbances of the machine affect all of them; a failed run is repeated
once."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.compare import Judgement, judge
from bench.errors import RunFailed, SideMissing
from bench.histogram import percentile_us
from bench.lab import Lab
from bench.machine import load_average, stolen_ticks
from bench.row import Measured, Row
from bench.sides import Side

TRIES = 2


@dataclass(slots=True, kw_only=True)
class RowResult:
    """The result of one row. `failures`: side -> why it has no or fewer figures."""

    row: Row
    when: str
    load_before: float
    load_after: float = 0.0
    stolen_ticks: int = 0
    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    p99_ms: dict[str, float] = field(default_factory=dict)
    """Side -> p99 over all runs together, which is not the mean or median of their p99s."""

    @property
    def judgements(self) -> list[Judgement]:
        return [judge(target, self.samples) for target in self.row.targets]

    def add(self, side: str, measured: Measured) -> None:
        unknown = set(measured) - set(self.row.units)
        assert not unknown, f"{self.row.name}: figures without a unit: {unknown}"
        for figure, values in measured.items():
            self.samples.setdefault(figure, {}).setdefault(side, []).extend(values)

    def as_dict(self, machine: dict[str, str]) -> dict[str, Any]:
        return {
            "row": self.row.name,
            "when": self.when,
            "machine": machine,
            "load": [self.load_before, self.load_after],
            "stolen_ticks": self.stolen_ticks,
            "units": dict(self.row.units),
            "samples": self.samples,
            "failures": self.failures,
            "p99_ms_of_all_runs": self.p99_ms,
            "targets": [
                {"target": one.target.text, "verdict": one.verdict.value, "measured": one.measured}
                for one in self.judgements
            ],
        }


def run_row(row: Row, lab: Lab, say: Callable[[str], None]) -> RowResult:
    now = datetime.now(UTC).isoformat(timespec="minutes")
    result = RowResult(row=row, when=now, load_before=load_average())
    stolen = stolen_ticks()
    lab.take_latencies()
    if row.own is None:
        _run_shared(row, lab, say, result)
    else:
        _run_own(row, lab, say, result)
    for side, buckets in lab.take_latencies().items():
        together_us = percentile_us(buckets, 0.99)
        if together_us is not None:
            result.p99_ms[side] = together_us / 1_000
    result.load_after, result.stolen_ticks = load_average(), stolen_ticks() - stolen
    return result


def _run_shared(row: Row, lab: Lab, say: Callable[[str], None], result: RowResult) -> None:
    for run in range(row.runs):
        turn = run % len(row.sides)
        for name in (*row.sides[turn:], *row.sides[:turn]):
            if name in result.failures:
                continue  # missing, or failed twice in a row: further runs would add nothing
            try:
                side = lab.side(name)
            except (SideMissing, RunFailed, AssertionError) as error:
                _note(result, name, error, say)
                continue
            _measure(side, lab, say, result)


def _run_own(row: Row, lab: Lab, say: Callable[[str], None], result: RowResult) -> None:
    assert row.own is not None
    for _ in range(row.runs):
        for name in row.sides:
            try:
                with lab.fresh(name, row.own) as side:
                    _measure(side, lab, say, result, tries=1)
            except (SideMissing, RunFailed, AssertionError) as error:
                _note(result, name, error, say)


def _measure(side: Side, lab: Lab, say: Callable[[str], None], result: RowResult, tries: int = TRIES) -> None:
    for left in reversed(range(tries)):
        try:
            with side.active():
                result.add(side.name, result.row.measure(side, lab))
            return
        except (RunFailed, AssertionError) as error:
            if not left:
                _note(result, side.name, error, say)
                kept = lab.keep_logs(side, result.row.name)
                if kept is not None:
                    say(f"  {side.name}: its logs are kept in {kept}")
            else:
                say(f"  {side.name}: {_first_line(error)}; once more")


def _note(result: RowResult, side: str, error: BaseException, say: Callable[[str], None]) -> None:
    result.failures.setdefault(side, []).append(_first_line(error))
    where = traceback.extract_tb(error.__traceback__)[-1]
    say(f"  {side}: not measured: {_first_line(error)} ({where.filename.rpartition('/')[2]}:{where.lineno})")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).split("\n")[0][:300]
