"""What is wrong now, newest first: partitions by table `partition_status`, and a group by the worst of its partitions.

A group is ERR if some partition stands still, went back or lost records, and WARN if one falls behind or its offset
expires soon (Burrow's levels, with ours). Of the partitions in trouble the newest are told in full, with who owns them;
the rest is counted. Now is the newest time in the table, so that the same tables give the same page.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Final

from muster_pipeline.report import limits
from muster_pipeline.report.owners import Owner, owners
from muster_pipeline.report.source import Tables, rows

ERR, WARN, UNKNOWN, ABANDONED, OK = "ERR", "WARN", "UNKNOWN", "ABANDONED", "OK"
LEVELS: Final = {
    "STOP": ERR,
    "STALL": ERR,
    "REWIND": ERR,
    "TRUNCATED": ERR,
    "WARN": WARN,
    "EXPIRING": WARN,
    "UNKNOWN": UNKNOWN,
    "ABANDONED": ABANDONED,
    "OK": OK,
}
"""Status of a partition -> that of its group if it is the worst of them."""
LEVELS_WORST_FIRST: Final = (ERR, WARN, UNKNOWN, ABANDONED, OK)

WHY: Final = {
    "STOP": "no commit any more, and there is more to read",
    "STALL": "commits name the same offset again and again, and there is more to read",
    "REWIND": "a commit went back, and the offset before it has not been reached again",
    "TRUNCATED": "the next records were deleted by retention before they were read",
    "WARN": "it reads, and falls behind",
    "EXPIRING": "the committed offset expires",
}
WHAT_TO_DO: Final = {
    "STOP": "Look at the owner: is it alive, does it poll? Without an owner, see why the group does not settle.",
    "STALL": "Look at the owner's log: a record that fails again and again, or a call that does not come back.",
    "REWIND": "Find who reset the group. Records are read again until it is where it was.",
    "TRUNCATED": "Raise retention. What is lost stays lost: the consumer goes on by auto.offset.reset.",
    "WARN": "Add consumers, as many as partitions, or make them faster.",
    "EXPIRING": "Start a consumer of the group, or let the offset go; then auto.offset.reset says where to begin.",
}

_COLUMNS = (
    "group_id", "topic", "partition", "status", "since_ms", "committed_offset", "committed_ms", "lag", "sampled_ms",
    "read_per_s", "written_per_s", "drained_in_ms", "lost_in_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One partition that is not as it should be."""

    group: str
    topic: str
    partition: int
    status: str
    since_ms: int
    committed_offset: int
    committed_ms: int
    lag: int | None
    sampled_ms: int | None
    read_per_s: float | None
    written_per_s: float | None
    drained_in_ms: int | None
    lost_in_ms: int | None
    owner: Owner | None = None

    @property
    def level(self) -> str:
        """ERR or WARN."""
        return LEVELS[self.status]

    @property
    def why(self) -> str:
        """In words."""
        return WHY[self.status]

    @property
    def what_to_do(self) -> str:
        """The next step of a person."""
        return WHAT_TO_DO[self.status]


@dataclass(slots=True)
class GroupStatus:
    """One group, over its partitions."""

    partitions: dict[tuple[str, int], str] = field(default_factory=dict)
    """(topic, partition) -> its status."""
    since_ms: int | None = None
    """Since when the oldest of its troubles holds."""

    @property
    def statuses(self) -> Counter[str]:
        """Status -> partitions."""
        return Counter(self.partitions.values())

    @property
    def status(self) -> str:
        """The worst."""
        levels = {LEVELS[one] for one in self.partitions.values()}
        return next(level for level in LEVELS_WORST_FIRST if level in levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """All groups that have a committed offset, and the newest troubles."""

    groups: Mapping[str, GroupStatus]
    newest: tuple[Trouble, ...]
    total: int
    now_ms: int | None
    """The newest time in the table; None: it is empty."""

    def count(self, status: str) -> int:
        """Groups of that status."""
        return sum(one.status == status for one in self.groups.values())

    @property
    def hidden(self) -> int:
        """Troubles that are not in `newest`."""
        return self.total - len(self.newest)


def troubles(tables: Tables) -> Troubles:
    """One pass over `partition_status`, and those of `owners`."""
    groups: dict[str, GroupStatus] = {}
    found: list[Trouble] = []
    total, now_ms = 0, None
    for group, *values in rows(tables, "partition_status", _COLUMNS):
        row = dict(zip(_COLUMNS[1:], values, strict=True))
        seen_ms = max(row["committed_ms"], row["sampled_ms"] or row["committed_ms"])
        now_ms = seen_ms if now_ms is None else max(now_ms, seen_ms)
        mine = groups.setdefault(group, GroupStatus())
        mine.partitions[row["topic"], row["partition"]] = row["status"]
        if LEVELS[row["status"]] not in (ERR, WARN):
            continue
        total += 1
        one = Trouble(group=group, **row)
        mine.since_ms = one.since_ms if mine.since_ms is None else min(mine.since_ms, one.since_ms)
        found.append(one)
        if len(found) > 4 * limits.TROUBLES_SHOWN_MAX:
            found = _newest(found)
    found = _newest(found)
    known = owners(tables, {one.group for one in found}) if found else {}
    return Troubles(groups=groups, newest=tuple(_owned(one, known) for one in found), total=total, now_ms=now_ms)


def _newest(found: list[Trouble]) -> list[Trouble]:
    """Newest first; of those of one time the furthest behind."""
    return nlargest(
        limits.TROUBLES_SHOWN_MAX,
        found,
        key=lambda one: (one.since_ms, one.level == ERR, one.lag or 0, one.group, one.topic, one.partition),
    )


def _owned(one: Trouble, known: Mapping[tuple[str, str, int], Owner]) -> Trouble:
    owner = known.get((one.group, one.topic, one.partition))
    return one if owner is None else replace(one, owner=owner)
