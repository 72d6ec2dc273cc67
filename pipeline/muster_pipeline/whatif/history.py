"""Recorded membership history of groups, from silver `memberships` and `assignments`.

One step is one completed classic generation: its members, their subscriptions, and the assignments that the leader
gave. Partition counts are not in the log. A topic's count at a step is one more than the highest partition that any
generation up to then assigned (or the given count, if larger): a lower bound, exact once every partition was assigned.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.tables.errors import BadInput, LimitReached
from muster_pipeline.whatif import limits

Owned = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMember:
    """One member of one generation. `identity` survives a restart of a static member."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    rack_id: str | None
    recorded: frozenset[Owned]

    @property
    def identity(self) -> str:
        """Instance id, or the member id of a dynamic member."""
        return self.member_id if self.instance_id is None else self.instance_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One completed generation."""

    log_offset: int
    generation: int
    at_ms: int
    members: tuple[HistoryMember, ...]
    partition_counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The steps of one group, in the order of the log. `skipped`: generations whose subscriptions are not readable."""

    group_id: str
    steps: tuple[Step, ...]
    skipped: int

    def without(self, log_offsets: Container[int]) -> "History":
        """A copy without the generations that were completed at these log offsets."""
        return replace(self, steps=tuple(step for step in self.steps if step.log_offset not in log_offsets))


def histories(
    memberships: pa.Table, assignments: pa.Table, partition_counts: Mapping[str, int] | None = None
) -> Iterator[History]:
    """One history for each classic group, ordered by group id. Raises LimitReached, BadInput."""
    for topic, count in (partition_counts or {}).items():
        if count < 1:
            raise BadInput(f"topic {topic} cannot have {count} partitions")
    chosen = memberships.filter((pc.field("group_kind") == "classic") & (pc.field("stage") == "completed")).sort_by(
        [("group_id", "ascending"), ("log_offset", "ascending")]
    )
    recorded = _recorded(assignments)
    for group_id, rows in groupby(chosen.to_pylist(), key=lambda row: str(row["group_id"])):
        yield _history(group_id, list(rows), recorded, dict(partition_counts or {}))


def _recorded(assignments: pa.Table) -> dict[tuple[str, int, str], set[Owned]]:
    found: dict[tuple[str, int, str], set[Owned]] = {}
    names = ("group_id", "log_offset", "member_id", "topic", "partition")
    chosen = assignments.filter(pc.field("kind") == "assigned").select(names)
    for group_id, at, member_id, topic, partition in zip(*(chosen[n].to_pylist() for n in names), strict=True):
        found.setdefault((group_id, at, member_id), set()).add((topic, partition))
    return found


def _history(
    group_id: str,
    rows: Sequence[dict[str, Any]],
    recorded: Mapping[tuple[str, int, str], set[Owned]],
    counts: dict[str, int],
) -> History:
    steps: list[Step] = []
    skipped = 0
    for at, same in groupby(rows, key=lambda row: int(row["log_offset"])):
        members = list(same)
        if any(row["subscribed_topics"] is None for row in members):
            skipped += 1
            continue
        if len(steps) >= limits.GENERATIONS_MAX:
            raise LimitReached(f"group {group_id} has more than GENERATIONS_MAX = {limits.GENERATIONS_MAX} generations")
        steps.append(_step(group_id, at, members, recorded, counts))
    return History(group_id=group_id, steps=tuple(steps), skipped=skipped)


def _step(
    group_id: str,
    at: int,
    rows: Sequence[dict[str, Any]],
    recorded: Mapping[tuple[str, int, str], set[Owned]],
    counts: dict[str, int],
) -> Step:
    members = []
    for row in rows:
        owned = frozenset(recorded.get((group_id, at, row["member_id"]), ()))
        for topic, partition in owned:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        members.append(
            HistoryMember(
                member_id=row["member_id"],
                instance_id=row["instance_id"],
                topics=tuple(sorted(row["subscribed_topics"])),
                rack_id=row["rack_id"],
                recorded=owned,
            )
        )
    return Step(
        log_offset=at,
        generation=rows[0]["generation"],
        at_ms=rows[0]["append_timestamp_ms"],
        members=tuple(members),
        partition_counts=dict(counts),
    )
