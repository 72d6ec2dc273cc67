"""Samples of two or more sides, and whether a target holds. Pure: values in, values out.

A sample set is `{figure: {side: (samples, ...)}}`. Ratios are of medians, because runs alternate between the sides and
a median does not follow one run that the machine disturbed; the spread beside it shows how reliable the median is. A
target without samples is UNKNOWN, never missed and never held.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

Samples = Mapping[str, Mapping[str, Sequence[float]]]
"""Figure -> side -> one value per run."""

MUSTER, KAFKA, KAFKA_FSYNC, UVLOOP, ECHO = "muster", "kafka", "kafka+fsync", "uvloop echo", "compiled echo"
DISK = "disk"
AGAIN, BEFORE = "muster again", "muster 7d8ab59"
"""Today's code a second time, and an earlier release (`before`)."""
SIDES = (MUSTER, AGAIN, BEFORE, KAFKA, KAFKA_FSYNC, UVLOOP, ECHO, DISK)
"""In the order of a table's columns."""


class Verdict(Enum):
    HELD = "held"
    MISSED = "missed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One bound on one figure of one side: absolute, or a ratio to `of_side` and `of_figure` (default: the same)."""

    figure: str
    at_least: float | None = None
    at_most: float | None = None
    side: str = MUSTER
    of_side: str | None = None
    of_figure: str | None = None
    worst: bool = False
    """Bounds every sample instead of the median; only for absolute bounds."""

    def __post_init__(self) -> None:
        assert (self.at_least is None) != (self.at_most is None), "exactly one bound per target"
        assert not (self.worst and self.is_ratio), "worst is for absolute bounds"

    @property
    def is_ratio(self) -> bool:
        return self.of_side is not None or self.of_figure is not None

    @property
    def text(self) -> str:
        """`rate ≥ 1.2x kafka`"""
        bound = f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"
        who = "" if self.side == MUSTER else f"{self.side} "
        what = f"worst {self.figure}" if self.worst else self.figure
        if not self.is_ratio:
            return f"{who}{what} {bound}"
        other = " ".join(part for part in (self.of_side, self.of_figure) if part)
        return f"{who}{what} {bound}x {other}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    target: Target
    verdict: Verdict
    measured: str


def median(samples: Sequence[float]) -> float | None:
    """None without samples."""
    return statistics.median(samples) if samples else None


def ratio(samples: Samples, figure: str, side: str, of_side: str, of_figure: str | None = None) -> float | None:
    """Median over median; None when either is missing or the divisor is 0."""
    above = median(samples.get(figure, {}).get(side, ()))
    below = median(samples.get(of_figure or figure, {}).get(of_side, ()))
    return above / below if above is not None and below else None


def judge(target: Target, samples: Samples) -> Judgement:
    """Whether a target holds, with the number that decides it."""
    if target.is_ratio:
        of_side = target.of_side or target.side
        value = ratio(samples, target.figure, target.side, of_side, target.of_figure)
        measured = "not measured" if value is None else f"{value:.2f}x"
    else:
        value = _absolute(target, samples.get(target.figure, {}).get(target.side, ()))
        measured = "not measured" if value is None else number(value)
    if value is None:
        return Judgement(target=target, verdict=Verdict.UNKNOWN, measured=measured)
    under = target.at_least is not None and value < target.at_least
    over = target.at_most is not None and value > target.at_most
    return Judgement(target=target, verdict=Verdict.MISSED if under or over else Verdict.HELD, measured=measured)


def _absolute(target: Target, values: Sequence[float]) -> float | None:
    if not target.worst or not values:
        return median(values)
    pick: Callable[[Sequence[float]], float] = max if target.at_most is not None else min
    return pick(values)


def number(value: float) -> str:
    """Three significant digits, thousands grouped."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread(samples: Sequence[float]) -> str:
    """`median (least–most)`, or the one value, or a dash."""
    if not samples:
        return "–"
    middle = number(statistics.median(samples))
    return middle if len(samples) == 1 else f"{middle} ({number(min(samples))}–{number(max(samples))})"
