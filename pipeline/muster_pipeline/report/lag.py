"""Lag: the last one of every group that counts, and the course over time of the groups that were furthest behind.

A group's lag is the sum of the last lag of each partition. If some partition's lag is unknown, the sum is a lower bound
and is marked so. Between two rows of a partition the earlier one applies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_pipeline.report import limits
from muster_pipeline.report.source import Tables, rows
from muster_pipeline.report.standing import PRESENT, standings

_WORST_FIRST = ("unknown", "lower_bound", "interpolated", "exact")
_COLUMNS = (
    "group_id",
    "topic",
    "partition",
    "minute_ms",
    "at_ms",
    "committed_offset",
    "lag",
    "quality",
    "is_below_start",
    "time_lag_ms",
    "log_start_offset",
    "log_end_offset",
)
_SERIES_COLUMNS = ("group_id", "topic", "partition", "minute_ms", "lag")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The last row of one partition."""

    topic: str
    partition: int
    at_ms: int
    committed_offset: int
    lag: int | None
    quality: str
    is_below_start: bool | None
    time_lag_ms: int | None
    log_start_offset: int | None
    log_end_offset: int | None


@dataclass(slots=True)
class GroupLag:
    """Last known lag of a group."""

    partitions: dict[tuple[str, int], PartitionLag] = field(default_factory=dict)
    peak: int = 0
    """Highest lag of any partition at any time; by it the groups with a chart are chosen."""

    @property
    def total(self) -> int | None:
        """Sum of the known lags; None when none is known."""
        known = [one.lag for one in self.partitions.values() if one.lag is not None]
        return sum(known) if known else None

    @property
    def quality(self) -> str:
        """The worst quality of its partitions; `lower_bound` if only some of them are unknown."""
        found = {one.quality for one in self.partitions.values()}
        if "unknown" in found and found != {"unknown"}:
            return "lower_bound"
        return next((word for word in _WORST_FIRST if word in found), "unknown")

    @property
    def below_start(self) -> int:
        """Partitions whose committed offset is below the log start: the group has lost records."""
        return sum(one.is_below_start is True for one in self.partitions.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A group's lag over time: (start of the interval in ms, highest sum within it), oldest first."""

    group: str
    points: tuple[tuple[int, int], ...]
    interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A group that does not count any more: why (`standing`), and what is left of it."""

    why: str
    lag: GroupLag


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLag:
    """The groups of table `lag` at the end of the log. Offsets that are gone there are in neither."""

    present: dict[str, GroupLag]
    left: dict[str, Left]


def last_lag(tables: Tables) -> LastLag:
    """Every group's last known lag; one pass over `lag`, one over `expiry`."""
    known = standings(tables)
    groups: dict[str, GroupLag] = {}
    now_ms: int | None = None
    for group, topic, partition, _minute, at_ms, committed, lag, quality, below, *more in rows(tables, "lag", _COLUMNS):
        now_ms = at_ms if now_ms is None else max(now_ms, at_ms)
        mine = groups.setdefault(group, GroupLag())
        if not known.has(group, topic, partition):
            continue
        if lag is not None:
            mine.peak = max(mine.peak, lag)
        before = mine.partitions.get((topic, partition))
        if before is None or at_ms >= before.at_ms:
            mine.partitions[topic, partition] = PartitionLag(
                topic=topic, partition=partition, at_ms=at_ms, committed_offset=committed, lag=lag, quality=quality,
                is_below_start=below, time_lag_ms=more[0], log_start_offset=more[1], log_end_offset=more[2],
            )  # fmt: skip
    why = {group: known.of(group, now_ms) for group in groups}
    return LastLag(
        present={group: lag for group, lag in groups.items() if why[group] == PRESENT},
        left={group: Left(why=why[group], lag=lag) for group, lag in groups.items() if why[group] != PRESENT},
    )


def chosen(groups: Mapping[str, GroupLag]) -> list[str]:
    """Groups that may be drawn over time: highest peak first, then by name."""
    behind = [name for name, one in groups.items() if one.peak > 0]
    return sorted(behind, key=lambda name: (-groups[name].peak, name))[: limits.HEAT_GROUPS_MAX]


def series(tables: Tables, groups: list[str]) -> list[Series]:
    """Lag over time of these groups, in their order; a second pass over the table."""
    minutes: dict[str, dict[int, dict[tuple[str, int], int]]] = {name: {} for name in groups}
    for group, topic, partition, minute_ms, lag in rows(tables, "lag", _SERIES_COLUMNS):
        mine = minutes.get(group)
        if mine is not None and lag is not None:
            mine.setdefault(minute_ms, {})[topic, partition] = lag
    return [_summed(name, minutes[name]) for name in groups]


def _summed(group: str, minutes: Mapping[int, Mapping[tuple[str, int], int]]) -> Series:
    """Carry each partition's last lag forward and merge minutes into at most `SERIES_POINTS_MAX` intervals."""
    if not minutes:
        return Series(group=group, points=(), interval_ms=60_000)
    first, last = min(minutes), max(minutes)
    span = (last - first) // 60_000 + 1
    step_ms = 60_000 * -(-span // limits.SERIES_POINTS_MAX)
    now: dict[tuple[str, int], int] = {}
    points: dict[int, int] = {}
    for minute in sorted(minutes):
        now.update(minutes[minute])
        start = first + (minute - first) // step_ms * step_ms
        points[start] = max(points.get(start, 0), sum(now.values()))
    return Series(group=group, points=tuple(points.items()), interval_ms=step_ms)
