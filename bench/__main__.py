"""`python -m bench [row ...] [--runs=N] [--no-doc] [--before]`: measure rows, print and store the figures.

Without names: the rows that take seconds, five runs per side. `all`: every row. JSON goes to `bench/results/`, tables
into docs/benchmarks.md (not with --no-doc). `--before`: beside an earlier release instead of Kafka (`before`), printed
only. Exit code 1: a target is missed and `reasons.toml` does not say why, or it could not be judged, or a figure
differs from before by more than equal clusters do; 2: nothing ran.
"""

import json
import signal
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

from bench import generator
from bench.before import compared, three_sided
from bench.catalogue import ROWS, select
from bench.compare import Verdict
from bench.errors import BenchError
from bench.lab import FOLDER, Lab
from bench.machine import facts
from bench.report import machine_section, place, section, unexplained
from bench.row import Row
from bench.runner import RowResult, run_row

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DOCUMENT = HERE.parent / "docs" / "benchmarks.md"
MACHINE = "machine"
BESIDE_BEFORE = "--before"
RUNS_MAX = 100
EXIT_TERMINATED = 128 + signal.SIGTERM


def say(text: str) -> None:
    print(text, flush=True)


def with_runs(rows: list[Row], options: list[str]) -> list[Row]:
    """The quick rows with another number of runs: fewer to check that a row works, more for a better median."""
    for option in options:
        name, _, value = option.partition("=")
        if option in ("--no-doc", BESIDE_BEFORE):
            continue
        if name != "--runs" or not value.isdecimal() or not 1 <= int(value) <= RUNS_MAX:
            raise BenchError(f"no such option: {option} (there are: --no-doc, --before, --runs=1 to --runs={RUNS_MAX})")
        rows = [replace(row, runs=int(value)) if row.quick else row for row in rows]
    return rows


def main(words: list[str]) -> int:
    options = [word for word in words if word.startswith("--")]
    keep = "--no-doc" not in options
    try:
        rows = with_runs(select([word for word in words if word not in options]), options)
        rows = three_sided(rows) if BESIDE_BEFORE in options else rows
        generator.binary()
    except BenchError as error:
        print(error, file=sys.stderr)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    RESULTS.mkdir(exist_ok=True)
    machine = facts(FOLDER)
    say(machine_section(machine))
    try:
        lab = Lab(say)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 2
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED)
    )  # so that the context manager stops the clusters
    with lab:
        return beside_before(rows, lab, machine) if BESIDE_BEFORE in options else beside_kafka(rows, lab, machine, keep)


def beside_kafka(rows: list[Row], lab: Lab, machine: dict[str, str], keep: bool) -> int:
    """`keep`: in the document too."""
    reasons = tomllib.loads((HERE / "reasons.toml").read_text())
    verdicts: list[Verdict] = []
    unknown: list[str] = []
    sections = {MACHINE: machine_section(machine)}
    for row in rows:
        began = time.monotonic()
        say(f"\n{row.name} ...")
        result = run_row(row, lab, say)
        sections[row.name] = section(result, reasons, machine)
        say(f"{sections[row.name]}\n({time.monotonic() - began:.0f} s)")
        store(row.name, result, machine)
        verdicts += [judgement.verdict for judgement in result.judgements]
        unknown += unexplained(result, reasons)
        if keep:
            order = [MACHINE, *(one.name for one in ROWS)]
            DOCUMENT.write_text(place(DOCUMENT.read_text(), sections, order))
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict.value}" for verdict in Verdict)
    say(f"\ntargets: {counts}; JSON in {RESULTS.relative_to(HERE.parent)}/")
    for one in unknown:
        say(f"without a reason: {one}")
    return 1 if unknown else 0


def beside_before(rows: list[Row], lab: Lab, machine: dict[str, str]) -> int:
    beyond = 0
    for row in rows:
        say(f"\n{row.name} ...")
        result = run_row(row, lab, say)
        store(f"{row.name}-before", result, machine)
        found = compared(result.samples)
        beyond += sum(not one.within for one in found) + (not found)
        lines = [section(result, {}, machine), *(one.text for one in found)]
        say("\n".join(lines if found else [*lines, "* nothing to compare was measured"]))
    return 1 if beyond else 0


def store(name: str, result: RowResult, machine: dict[str, str]) -> None:
    text = json.dumps(result.as_dict(machine), indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
