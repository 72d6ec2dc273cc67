"""Rebalances: the timeline, their triggers, and how many members joined and left."""

from collections import Counter
from dataclasses import dataclass
from heapq import heappush, heapreplace
from typing import Any

from muster_pipeline.report import limits
from muster_pipeline.report.source import Tables, rows

_COLUMNS = (
    "group_id", "ended_at_ms", "generation_from", "generation_to", "trigger", "evidence", "is_avoided", "members_after",
    "members_in", "members_out", "partitions_moved", "partitions_kept", "duration_ms", "duration_class",
    "duration_min_ms", "duration_max_ms", "history_complete",
)  # fmt: skip
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One row of the table, as shown."""

    group: str
    ended_at_ms: int
    generation_from: int | None
    generation_to: int
    trigger: str
    evidence: str
    is_avoided: bool
    members_after: int
    members_in: tuple[str, ...]
    members_out: tuple[str, ...]
    partitions_moved: int | None
    partitions_kept: int | None
    duration_ms: int | None
    duration_class: str
    duration_min_ms: int | None
    duration_max_ms: int | None
    history_complete: bool


@dataclass(slots=True)
class GroupRebalances:
    """One group's share."""

    count: int = 0
    avoided: int = 0
    moved: int = 0
    members: int | None = None
    last: Rebalance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalances:
    """The whole table, bounded: the newest ones in full, the rest counted."""

    groups: dict[str, GroupRebalances]
    newest: tuple[Rebalance, ...]
    """Newest first."""
    total: int
    avoided: int
    by_trigger: tuple[tuple[str, int], ...]
    churn: tuple[tuple[int, int, int], ...]
    """(day, members that joined, members that left), oldest first."""

    @property
    def hidden(self) -> int:
        """Rows that are not in `newest`."""
        return self.total + self.avoided - len(self.newest)


def rebalances(tables: Tables) -> Rebalances:
    """All rebalances, in one pass over the table."""
    groups: dict[str, GroupRebalances] = {}
    heap: list[tuple[int, int, Rebalance]] = []
    triggers: Counter[str] = Counter()
    came: Counter[int] = Counter()
    went: Counter[int] = Counter()
    for place, row in enumerate(rows(tables, "rebalances", _COLUMNS)):
        one = _rebalance(row)
        mine = groups.setdefault(one.group, GroupRebalances())
        if one.is_avoided:
            mine.avoided += 1
        else:
            mine.count += 1
            triggers[one.trigger] += 1
        mine.moved += one.partitions_moved or 0
        if mine.last is None or one.ended_at_ms >= mine.last.ended_at_ms:
            mine.last, mine.members = one, one.members_after
        day = one.ended_at_ms // _DAY_MS * _DAY_MS
        came[day] += len(one.members_in)
        went[day] += len(one.members_out)
        entry = (one.ended_at_ms, place, one)
        if len(heap) < limits.REBALANCES_SHOWN_MAX:
            heappush(heap, entry)
        elif entry > heap[0]:
            heapreplace(heap, entry)
    return Rebalances(
        groups=groups,
        newest=tuple(one for _, _, one in sorted(heap, key=lambda e: e[:2], reverse=True)),
        total=sum(one.count for one in groups.values()),
        avoided=sum(one.avoided for one in groups.values()),
        by_trigger=tuple(triggers.most_common()),
        churn=tuple((day, came[day], went[day]) for day in sorted(came.keys() | went.keys())),
    )


def _rebalance(row: tuple[Any, ...]) -> Rebalance:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["group"] = values.pop("group_id")
    values["members_in"] = tuple(values["members_in"] or ())
    values["members_out"] = tuple(values["members_out"] or ())
    return Rebalance(**values)
