"""Charts as plain values with positions, which the template draws. Pure.

Coordinates are SVG's, in a view box of `WIDTH` x the chart's height; the page scales it to any width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

WIDTH = 360
COLOURS = 8
_TICKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A label at a position along an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An area under a line."""

    title: str
    height: int
    path: str
    area: str
    peak: int
    last: int
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One event on a timeline."""

    x: float
    kind: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One group's events on a timeline."""

    title: str
    y: float
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One column, with its heights above and below the axis."""

    x: float
    width: float
    up: float
    down: float
    hint: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment in a drawing over time."""

    x: float
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of a row."""

    x: float
    width: float
    colour: int
    """Number of its colour, 0 to COLOURS - 1."""
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """One partition's owners."""

    title: str
    y: float
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Rows over one time axis."""

    rows: tuple[SegmentRow, ...]
    ticks: tuple[Tick, ...]
    owners: tuple[tuple[str, int], ...]
    """(owner, colour), in the order of their first appearance."""


class Owned(Protocol):
    """What `segments` draws (`ownership.Span`)."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def owner(self) -> str: ...
    @property
    def from_ms(self) -> int: ...
    @property
    def until_ms(self) -> int | None: ...


def moment(ms: int) -> str:
    """A time for people, UTC, to the second."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock(ms: int, step_ms: int) -> tuple[str, str]:
    """(date or nothing, time of day) for the head of a narrow column that is `step_ms` wide."""
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return (at.strftime("%m-%d") if step_ms >= 3_600_000 else "", at.strftime("%H:%M"))


def day(ms: int) -> str:
    """A date, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


def time_ticks(first_ms: int, last_ms: int) -> tuple[Tick, ...]:
    """Labels along a time axis: days when it is long, else times of day; of a single moment one."""
    span = max(1, last_ms - first_ms)
    form = "%m-%d %H:%M" if span > 86_400_000 else "%H:%M:%S" if span < 600_000 else "%H:%M"
    places = [i / _TICKS for i in range(_TICKS + 1)] if last_ms > first_ms else [0.0]
    return tuple(
        Tick(at=round(WIDTH * p, 1), text=datetime.fromtimestamp((first_ms + span * p) / 1000, UTC).strftime(form))
        for p in places
    )


def line(title: str, points: Sequence[tuple[int, int]], height: int = 70) -> Line | None:
    """(ms, value) as an area; None without points. One point is a flat line."""
    if not points:
        return None
    first, last = points[0][0], points[-1][0]
    peak = max(value for _, value in points)
    placed = [(_along(at, first, last), height * (1 - value / peak) if peak else float(height)) for at, value in points]
    if first == last:
        placed = [(0.0, placed[-1][1]), (float(WIDTH), placed[-1][1])]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    return Line(
        title=title,
        height=height,
        path=path,
        area=f"{placed[0][0]:.1f},{height} {path} {placed[-1][0]:.1f},{height}",
        peak=peak,
        last=points[-1][1],
        ticks=time_ticks(first, last),
    )


def lanes(
    events: Sequence[tuple[str, int, str, str]], lane_height: int = 18
) -> tuple[tuple[Lane, ...], tuple[Tick, ...]]:
    """(lane, ms, kind, hint) as lanes in order of their first appearance, and the ticks of their common axis."""
    if not events:
        return (), ()
    first, last = min(e[1] for e in events), max(e[1] for e in events)
    by_lane: dict[str, list[Dot]] = {}
    for title, at, kind, hint in events:
        by_lane.setdefault(title, []).append(Dot(x=round(_along(at, first, last), 1), kind=kind, hint=hint))
    drawn = tuple(
        Lane(title=title, y=lane_height * (i + 0.5), dots=tuple(dots))
        for i, (title, dots) in enumerate(by_lane.items())
    )
    return drawn, time_ticks(first, last)


def bars(columns: Sequence[tuple[str, int, int]], height: int = 36) -> tuple[Bar, ...]:
    """(label, up, down) as columns around an axis; heights share one scale."""
    if not columns:
        return ()
    most = max(max(up, down) for _, up, down in columns) or 1
    step = WIDTH / max(len(columns), 7)
    return tuple(
        Bar(
            x=round(step * i + step * 0.1, 1),
            width=round(step * 0.8, 1),
            up=round(height * up / most, 1),
            down=round(height * down / most, 1),
            hint=f"{label}: {up:,} / {down:,}" if down else f"{label}: {up:,}",
            text=label,
        )
        for i, (label, up, down) in enumerate(columns)
    )


def marks(events: Sequence[tuple[int, str]], first: int, last: int) -> tuple[Mark, ...]:
    """(ms, what) as moments within a drawing of that time."""
    return tuple(
        Mark(x=round(_along(at, first, last), 1), hint=f"{moment(at)} {what.replace('_', ' ')}")
        for at, what in sorted(events)
        if first <= at <= last
    )


def segments(owned: Sequence[Owned], row_height: int = 16) -> Segments | None:
    """Owners of partitions over time; one that goes on reaches the end of the drawing. None without any."""
    if not owned:
        return None
    first = min(one.from_ms for one in owned)
    last = max(one.until_ms or one.from_ms for one in owned)
    colour = {name: n % COLOURS for n, name in enumerate(dict.fromkeys(one.owner for one in owned))}
    by_row: dict[str, list[Segment]] = {}
    for one in owned:
        begin = _place(one.from_ms, first, last)
        end = float(WIDTH) if one.until_ms is None else _place(one.until_ms, first, last)
        until = "now" if one.until_ms is None else moment(one.until_ms)
        by_row.setdefault(f"{one.topic}-{one.partition}", []).append(
            Segment(
                x=round(begin, 1),
                width=round(max(end - begin, 1.0), 1),
                colour=colour[one.owner],
                hint=f"{one.owner}: {moment(one.from_ms)} – {until}",
            )
        )
    drawn = tuple(
        SegmentRow(title=title, y=float(row_height * n), segments=tuple(parts))
        for n, (title, parts) in enumerate(by_row.items())
    )
    return Segments(rows=drawn, ticks=time_ticks(first, last), owners=tuple(colour.items()))


def _place(at: int, first: int, last: int) -> float:
    """From the left; a single moment is all of the drawing."""
    return 0.0 if last == first else WIDTH * (at - first) / (last - first)


def _along(at: int, first: int, last: int) -> float:
    return WIDTH / 2 if last == first else WIDTH * (at - first) / (last - first)
