"""Who owned each partition of a group, and when: spans over the log's history.

A classic group's owners change when a generation is completed, and end when the group is empty or deleted. Of the
others each record gives a member the whole of what it owns now, so what an earlier record of it had, and this one has
not, ends there. What it cannot tell: when a member gave back its last partition, since such a record leaves no row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from muster_pipeline.report.source import Tables, rows

Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """`owner` is an instance id, or a member id; `until_ms` is None while it goes on."""

    topic: str
    partition: int
    owner: str
    from_ms: int
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class _Record:
    """What one record says: who owns what from then on."""

    at: int
    at_ms: int
    member: str | None
    """None: of the whole group."""
    owners: dict[Place, str]


def spans(tables: Tables, group: str) -> list[Span]:
    """By topic, partition and time; one pass over `assignments`, `generations` and `memberships` each."""
    found: list[Span] = []
    now: dict[Place, tuple[str, str, int]] = {}
    """Place -> member, owner, since."""

    def end(place: Place, at_ms: int) -> None:
        _, owner, since = now.pop(place)
        found.append(Span(topic=place[0], partition=place[1], owner=owner, from_ms=since, until_ms=at_ms))

    for record in sorted(_records(tables, group), key=lambda one: one.at):
        mine = {place for place, (member, _, _) in now.items() if record.member is None or member == record.member}
        for place in mine - record.owners.keys():
            end(place, record.at_ms)
        for place, owner in record.owners.items():
            if place in now and now[place][1] != owner:
                end(place, record.at_ms)
            if place not in now:
                now[place] = record.member or owner, owner, record.at_ms
    found += [
        Span(topic=place[0], partition=place[1], owner=owner, from_ms=since, until_ms=None)
        for place, (_, owner, since) in now.items()
    ]
    return sorted(found, key=lambda one: (one.topic, one.partition, one.from_ms))


def _records(tables: Tables, group: str) -> Iterator[_Record]:
    columns = (
        *("group_id", "log_offset", "append_timestamp_ms", "kind", "member_id", "instance_id", "topic", "partition"),
    )
    assigned = (row for row in rows(tables, "assignments", columns) if row[0] == group and row[6] is not None)
    for at, record in groupby(assigned, key=lambda row: row[1]):
        yield from _record(at, list(record))
    for of, at, at_ms, stage in rows(tables, "generations", ("group_id", "log_offset", "append_timestamp_ms", "stage")):
        if of == group and stage in ("empty", "deleted"):
            yield _Record(at, at_ms, None, {})
    left = ("group_id", "log_offset", "append_timestamp_ms", "stage", "member_id")
    for of, at, at_ms, stage, member in rows(tables, "memberships", left):
        if of == group and stage == "left":
            yield _Record(at, at_ms, member, {})


def _record(at: int, record: list[tuple[Any, ...]]) -> Iterator[_Record]:
    kind, member, at_ms = record[0][3], record[0][4], record[0][2]
    if kind not in ("assigned", "current", "revoking"):
        return
    owners = {(row[6], row[7]): row[5] or row[4] for row in record if row[3] in ("assigned", "current")}
    yield _Record(at, at_ms, None if kind == "assigned" else member, owners)
