"""The fleet as a heat-map: groups by time, each cell the highest lag of an interval. Values only; the template draws.

A cell's level is its lag on a logarithmic scale up to the highest lag of the map, so that a hundred records are pale
beside a million and not beside a thousand; its text is the lag itself, so that nothing rests on colour alone. Between
two rows a group's lag is that of the earlier one; before its first it is not known.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import ceil, log1p
from typing import Final

from muster_pipeline.report import limits
from muster_pipeline.report.find import WORST_FIRST
from muster_pipeline.report.lag import Series

LEVELS: Final = 4
"""0: nothing to read; LEVELS: the last quarter of the scale."""
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One group in one interval. None: not known."""

    lag: int | None
    level: int | None

    @property
    def text(self) -> str:
        """The lag in at most four characters; a dot for one that is not known."""
        return "·" if self.lag is None else compact(self.lag)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """One group."""

    group: str
    status: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """`starts_ms`: where each column begins, the newest first, as everything on the page."""

    starts_ms: tuple[int, ...]
    step_ms: int
    rows: tuple[HeatRow, ...]


def heat(found: Sequence[Series], statuses: Mapping[str, str]) -> Heat | None:
    """Those in the worst status first, of these those that are furthest behind. None without any lag."""
    drawn = [one for one in found if one.points]
    if not drawn:
        return None
    first = min(one.points[0][0] for one in drawn)
    last = max(one.points[-1][0] for one in drawn)
    step_ms = next(step for step in _steps() if last // step - first // step < limits.HEAT_COLUMNS_MAX)
    starts = range(last // step_ms * step_ms, first - step_ms, -step_ms)
    peak = max(lag for one in drawn for _, lag in one.points)
    rows = [
        HeatRow(
            group=one.group,
            status=statuses.get(one.group, "UNKNOWN"),
            cells=tuple(_cell(lag, peak) for lag in _lags(one, starts)),
        )
        for one in drawn
    ]
    rows.sort(key=lambda row: (WORST_FIRST.index(row.status), -(row.cells[0].lag or 0), row.group))
    return Heat(starts_ms=tuple(starts), step_ms=step_ms, rows=tuple(rows))


def _steps() -> Iterator[int]:
    """Widths of a column that people can count in, up to any number of days."""
    yield from (_MINUTE_MS * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720))
    yield from (_DAY_MS << n for n in count())


def _lags(one: Series, starts: range) -> list[int | None]:
    """The highest of each interval, in the order of `starts`."""
    highest: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, lag in one.points:
        start = at // -starts.step * -starts.step
        highest[start] = max(highest.get(start, 0), lag)
        last[start] = lag
    found: list[int | None] = []
    now: int | None = None
    for start in reversed(starts):
        found.append(highest.get(start, now))
        now = last.get(start, now)
    return found[::-1]


def _cell(lag: int | None, peak: int) -> Cell:
    if lag is None:
        return Cell(lag=None, level=None)
    return Cell(lag=lag, level=ceil(LEVELS * log1p(lag) / log1p(peak)) if lag else 0)


def compact(value: int) -> str:
    """A number in at most four characters: 999, 1.2k, 12k, 3.4M."""
    scaled, units = float(value), iter("kMGTPE")
    if value < 1_000:
        return str(value)
    unit = ""
    while scaled >= 999.5:
        scaled, unit = scaled / 1_000, next(units)
    return f"{scaled:.1f}{unit}" if scaled < 9.95 else f"{scaled:.0f}{unit}"
