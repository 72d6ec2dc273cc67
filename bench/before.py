"""Today's code beside an earlier release in one run, and beside itself: how much two equal clusters differ here.

A change that only moves code may not cost anything, and on a shared machine two runs of the same bytes differ by some
percent. So a row gets three sides that take turns: today's, today's once more, and the release that `tests/releases`
keeps. A figure is within the control if today differs from the release by no more than the equal two differ in any run.
What this does not do: compare with Kafka, or judge targets; `make bench` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.compare import AGAIN, BEFORE, MUSTER, Samples, median
from bench.errors import BenchError
from bench.row import Row

FIGURES = ("rate", "CPU")
"""Of those that a row has. CPU is of the servers' processes alone, and least disturbed by whatever else runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    figure: str
    change: float
    """Today's median over the release's, less 1."""
    control: float
    """The largest such difference of the equal two in one run."""

    @property
    def within(self) -> bool:
        return abs(self.change) <= self.control

    @property
    def text(self) -> str:
        verdict = "within" if self.within else "beyond"
        return (
            f"* {self.figure}: {self.change:+.1%} against {BEFORE}, {verdict} the {self.control:.1%} of equal clusters"
        )


def three_sided(rows: Sequence[Row]) -> list[Row]:
    """Raises BenchError for rows that start clusters of their own: those have no turns."""
    own = [row.name for row in rows if not row.quick]
    if own:
        raise BenchError(f"not with --before, since their clusters are their own: {', '.join(own)}")
    return [
        replace(row, sides=(MUSTER, AGAIN, BEFORE), targets=())
        for row in rows
        if MUSTER in row.sides and any(figure in row.units for figure in FIGURES)
    ]


def compared(samples: Samples) -> list[Compared]:
    """Of the figures that all three sides have."""
    found = []
    for figure in FIGURES:
        sides = samples.get(figure, {})
        now, again, before = (sides.get(side, ()) for side in (MUSTER, AGAIN, BEFORE))
        middle_now, middle_before = median(now), median(before)
        if middle_now is None or not middle_before or not again or not all(again):
            continue
        control = max(abs(one / other - 1) for one, other in zip(now, again, strict=False))
        found.append(Compared(figure=figure, change=middle_now / middle_before - 1, control=control))
    return found
