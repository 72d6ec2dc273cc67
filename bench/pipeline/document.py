"""The section of docs/benchmarks.md about a run of `make bench-pipeline`: figures, targets, and reasons for missed
ones. Pure.

Common scales have a section of their own between marks (`pipeline_4M`); other scales are printed only, because the
document has no marks for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.report import NO_REASON

SPARK: Final = "spark"
SHARE_MIN: Final = 0.7
WORKER_BYTES_MAX: Final = 450 << 20
SECONDS_MAX: Final = 120.0
LARGE: Final = 90_000_000
"""The target for the total time applies from this number of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`told`: per side, the output of `bench.pipeline.sides`, `peak_bytes`, and `cpu_s` of all turns and the start."""

    records: int
    log_bytes: int
    when: str
    load: float
    stolen_ticks: int
    machine: Mapping[str, str]
    told: Mapping[str, Mapping[str, Any]]

    @property
    def name(self) -> str:
        """Name of the section: millions, rounded."""
        return f"pipeline_{round(self.records / 1e6)}M"

    def seconds(self, side: str) -> float:
        """The side's best turn."""
        return float(min(self.told[side]["took_s"]))


def section(run: Run, reasons: Mapping[str, str]) -> str:
    """Markdown without its marks. `reasons`: figure → one sentence."""
    head = f"### {run.records:,} records, {run.log_bytes >> 20:,} MiB of segments (`{run.name}`)"
    told = (
        f"{run.when}, load {run.load:g} before, {run.stolen_ticks} ticks stolen, {run.machine.get('model', '?')}, "
        f"{run.machine.get('cores', '?')} cores, Muster {run.machine.get('Muster', '?')}. All results equal."
    )
    return "\n\n".join([head, table(run), "\n".join(targets(run, reasons)), told])


def table(run: Run) -> str:
    """One row per side."""
    lines = [
        "| side | makes | each turn, s | records/s | CPU of all, s | peak memory, MiB | largest worker, MiB |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for name, one in run.told.items():
        makes = "all tables" if "tables" in one else f"`commit_rate` (decoding takes {one['decode_s']:.1f} s of it)"
        worker = f"{one['worker_rss'] >> 20:,}" if "worker_rss" in one else "–"
        turns = ", ".join(f"{took:.1f}" for took in one["took_s"])
        rate = run.records / run.seconds(name)
        cost = f"{one['cpu_s']:.0f} | {one['peak_bytes'] >> 20:,}"
        lines.append(f"| {name} | {makes} | {turns} | {rate:,.0f} | {cost} | {worker} |")
    return "\n".join(lines)


def targets(run: Run, reasons: Mapping[str, str]) -> list[str]:
    """One line per target; a missed one is bold and has its reason."""
    if SPARK not in run.told:
        return []
    mine = run.seconds(SPARK)
    worker = run.told[SPARK]["worker_rss"]
    found = [
        _line(
            "memory",
            f"workers ≤ {WORKER_BYTES_MAX >> 20} MiB",
            f"{worker >> 20:,} MiB",
            worker <= WORKER_BYTES_MAX,
            reasons,
        )
    ]
    if run.records >= LARGE:
        found.append(
            _line("time", f"raw to all gold ≤ {SECONDS_MAX:.0f} s", f"{mine:.0f} s", mine <= SECONDS_MAX, reasons)
        )
    peers = {name: run.seconds(name) for name in run.told if name != SPARK}
    if peers:
        best = min(peers, key=lambda name: peers[name])
        share = peers[best] / mine
        what = f"≥ {SHARE_MIN}x of the best peer ({best})"
        found.append(_line("share", what, f"{share:.2f}x", share >= SHARE_MIN, reasons))
    return found


def _line(figure: str, target: str, measured: str, held: bool, reasons: Mapping[str, str]) -> str:
    said = "held" if held else f"**missed**: {reasons.get(figure, NO_REASON)}"
    return f"* {target}: {measured}, {said}"
