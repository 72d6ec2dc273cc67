"""Stalls: partitions whose committed offset does not move although there is more to read; open ones first."""

from dataclasses import dataclass
from heapq import nlargest

from muster_pipeline.report import limits
from muster_pipeline.report.source import Tables, rows

_COLUMNS = (
    "group_id", "topic", "partition", "started_at_ms", "ended_at_ms", "duration_ms", "ended_by", "committed_offset",
    "idle_commits", "evidence",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One row. `evidence` "behind": proven by a sample of the log end; "unknown": there is no such sample."""

    group: str
    topic: str
    partition: int
    started_at_ms: int
    ended_at_ms: int | None
    duration_ms: int
    ended_by: str
    committed_offset: int
    idle_commits: int
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Counts of all, the worst in full."""

    total: int
    open_by_group: dict[str, int]
    """Group -> its stalls that have not ended and have evidence "behind"."""
    worst: tuple[Stall, ...]


def stalls(tables: Tables) -> Stalls:
    """All stalls, in one pass over the table. Stalls with nothing to read are left out."""
    total = 0
    open_by_group: dict[str, int] = {}
    worst: list[Stall] = []
    for group, *values in rows(tables, "stalls", _COLUMNS):
        one = Stall(group=group, **dict(zip(_COLUMNS[1:], values, strict=True)))
        if one.evidence == "nothing_to_read":
            continue
        total += 1
        if one.ended_at_ms is None and one.evidence == "behind":
            open_by_group[group] = open_by_group.get(group, 0) + 1
        worst.append(one)
        if len(worst) > 4 * limits.STALLS_SHOWN_MAX:
            worst = _worst(worst)
    return Stalls(total=total, open_by_group=open_by_group, worst=tuple(_worst(worst)))


def _worst(found: list[Stall]) -> list[Stall]:
    return nlargest(
        limits.STALLS_SHOWN_MAX, found, key=lambda s: (s.ended_at_ms is None, s.evidence == "behind", s.duration_ms)
    )
