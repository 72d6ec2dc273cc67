"""One measured figure: its samples, their summary, and its target, if it has one."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Samples in one unit. `median_max` and `worst_max` are targets in the same unit; None: no target."""

    name: str
    unit: str
    samples: Sequence[float]
    median_max: float | None = None
    worst_max: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def worst(self) -> float:
        return max(self.samples)

    @property
    def missed(self) -> bool:
        over_median = self.median_max is not None and self.median > self.median_max
        return over_median or (self.worst_max is not None and self.worst > self.worst_max)

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "unit": self.unit,
            "samples": [round(sample, 4) for sample in self.samples],
            "median": round(self.median, 4),
            "worst": round(self.worst, 4),
            "median_max": self.median_max,
            "worst_max": self.worst_max,
            "missed": self.missed,
        }


def table(title: str, figures: Sequence[Figure]) -> str:
    """A Markdown table, ready for docs/benchmarks.md."""
    lines = [f"### {title}", "", "| figure | runs | min | median | worst | target |", "|---|--:|--:|--:|--:|---|"]
    for figure in figures:
        wanted = []
        if figure.median_max is not None:
            wanted.append(f"median ≤ {figure.median_max:g}")
        if figure.worst_max is not None:
            wanted.append(f"worst ≤ {figure.worst_max:g}")
        verdict = (", ".join(wanted) + (" **missed**" if figure.missed else "")) if wanted else "–"
        lines.append(
            f"| {figure.name} ({figure.unit}) | {len(figure.samples)} | {min(figure.samples):.3f} "
            f"| {figure.median:.3f} | {figure.worst:.3f} | {verdict} |"
        )
    return "\n".join([*lines, ""])
