"""Which groups count at the end of the log, and which have left: deleted, empty, or abandoned.

The state is that of table `expiry`, which has a row for each committed offset that is left at the end of the log. A
group that has none there is deleted, or (if its last record in `generations` says that it lives) has no offsets. One
without members has nobody who could catch up, so it does not lag; neither does one that commits by hand and has not for
`ABANDONED_AFTER_MS`. Now is the newest time of table `lag`, so that the same tables give the same page.
"""

from dataclasses import dataclass, field
from typing import Final

from muster_pipeline.report.source import Tables, rows
from muster_pipeline.schemas.status import ABANDONED_AFTER_MS

PRESENT: Final = "present"
EMPTY: Final = "empty"
ABANDONED: Final = "abandoned"
DELETED: Final = "deleted"
NO_OFFSETS: Final = "no_offsets"


_COLUMNS = ("group_id", "topic", "partition", "commit_timestamp_ms", "group_state")


@dataclass(slots=True)
class _Group:
    state: str
    committed_ms: int
    offsets: set[tuple[str, int]] = field(default_factory=set)


class Standings:
    """Groups with a committed offset at the end of the log."""

    def __init__(self, groups: dict[str, _Group], living: frozenset[str]) -> None:
        self._groups = groups
        self._living = living

    def has(self, group: str, topic: str, partition: int) -> bool:
        """Is there a committed offset at the end of the log?"""
        known = self._groups.get(group)
        return known is not None and (topic, partition) in known.offsets

    def of(self, group: str, now_ms: int | None) -> str:
        """PRESENT, EMPTY, ABANDONED, DELETED or NO_OFFSETS at that time; None: no time is known."""
        known = self._groups.get(group)
        if known is None:
            return NO_OFFSETS if group in self._living else DELETED
        if known.state == "empty":
            return EMPTY
        is_old = now_ms is not None and now_ms - known.committed_ms > ABANDONED_AFTER_MS
        return ABANDONED if known.state == "simple" and is_old else PRESENT


def standings(tables: Tables) -> Standings:
    """One pass over `expiry`, one over `generations`."""
    groups: dict[str, _Group] = {}
    for group, topic, partition, committed_ms, state in rows(tables, "expiry", _COLUMNS):
        mine = groups.setdefault(group, _Group(state, committed_ms))
        mine.committed_ms = max(mine.committed_ms, committed_ms)
        mine.offsets.add((topic, partition))
    last: dict[str, str] = {}
    for group, stage in rows(tables, "generations", ("group_id", "stage")):
        if stage != "settled" and group not in groups:
            last[group] = stage
    return Standings(groups, frozenset(group for group, stage in last.items() if stage != "deleted"))
