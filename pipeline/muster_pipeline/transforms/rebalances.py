"""Rows of gold `rebalances`: the views of a group before and after, and the times in between."""

from dataclasses import dataclass, replace
from typing import Any

from muster_pipeline.transforms.group_view import NO_GROUP, HistoricGroup, Moves, Owned, moves
from muster_pipeline.transforms.triggers import trigger

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When a rebalance began and ended. The beginning is known only if a record says so."""

    started_ms: int | None
    started_at: int | None
    """Log offset of the record that began it."""
    ended_ms: int
    ended_at: int
    sync_ms: int | None
    """Classic groups: from the end of the join phase to the leader's assignments."""
    previous_ms: int | None
    """When the previous generation was completed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance; `before` is None if no earlier view is known."""

    group_id: str
    kind: str
    before: HistoricGroup | None
    after: HistoricGroup
    timing: Timing
    reasons: tuple[str, ...] = ()
    lost_before: frozenset[Owned] = frozenset()
    completed: bool = True
    first_generation: int = 1
    """The one with which a group of this kind begins, by the release that wrote it."""
    is_timed: bool = True
    """False: a clock that was wrong took part, so nothing is said about durations."""

    @property
    def avoided(self) -> bool:
        """A static member rejoined under its instance id, without a new generation."""
        return self.before is not None and self.before.generation == self.after.generation

    @property
    def history_complete(self) -> bool:
        """Do the two generations follow each other, or is it the group's first?"""
        if self.before is None:
            return self.after.generation <= self.first_generation
        return self.avoided or self.after.generation == self.before.generation + 1

    def changes(self) -> Moves | None:
        """Moves since the previous view; a first generation with complete history is compared with an empty group."""
        if self.before is None and not self.history_complete:
            return None
        return moves(self.before or NO_GROUP, self.after)


def row(one: Rebalance) -> Row:
    """A row without `cluster` and `log_partition`."""
    changes = one.changes()
    name, evidence = trigger(
        one.before,
        one.after,
        history_complete=one.history_complete,
        reasons=one.reasons,
        changes=changes,
        lost_before=one.lost_before,
    )
    if one.avoided:
        name, evidence = "static_replace", "a static member came back under a new member id; same generation"
    old = one.before if one.before is not None or not one.history_complete else NO_GROUP
    before = old.identities() if old is not None else one.after.identities()
    return {
        "group_id": one.group_id,
        "group_kind": one.kind,
        "started_log_offset": one.timing.started_at,
        "ended_log_offset": one.timing.ended_at,
        "ended_at_ms": one.timing.ended_ms,
        "generation_from": None if one.before is None else one.before.generation,
        "generation_to": one.after.generation,
        "is_completed": one.completed,
        "is_avoided": one.avoided,
        "history_complete": one.history_complete,
        "trigger": name,
        "evidence": evidence,
        "protocol_from": None if one.before is None else one.before.protocol,
        "protocol_to": one.after.protocol,
        "members_before": None if old is None else len(old.members),
        "members_after": len(one.after.members),
        "members_in": sorted(one.after.identities() - before),
        "members_out": sorted(before - one.after.identities()),
        "partitions_kept": None if changes is None else changes.kept,
        "partitions_moved": None if changes is None else changes.moved,
        "partitions_gained": None if changes is None else len(changes.gained),
        "partitions_lost": None if changes is None else len(changes.lost),
        **_duration(one),
    }


def _duration(one: Rebalance) -> Row:
    timing = one.timing
    if not one.is_timed:
        return _durations("unknown", replace(timing, sync_ms=None), None, None, None)
    if one.avoided:
        return _durations("exact", timing, 0, 0, timing.ended_ms)
    if timing.started_ms is not None:
        exact = max(0, timing.ended_ms - timing.started_ms)
        return _durations("exact", timing, exact, exact, timing.started_ms)
    bounds = []
    if timing.previous_ms is not None and one.history_complete:
        bounds.append(max(0, timing.ended_ms - timing.previous_ms))
    views = [view for view in (one.before, one.after) if view is not None]
    timeouts = [member.rebalance_timeout_ms for view in views for member in view.members.values()]
    known = [timeout for timeout in timeouts if timeout is not None]
    if timing.sync_ms is not None and known and len(known) == len(timeouts) and one.history_complete:
        bounds.append(timing.sync_ms + max(known))
    if not bounds:
        return _durations("unknown", timing, timing.sync_ms, None, None)
    longest = min(bounds)
    return _durations("bounded", timing, min(timing.sync_ms or 0, longest), longest, None)


def _durations(name: str, timing: Timing, least: int | None, most: int | None, started_ms: int | None) -> Row:
    return {
        "started_at_ms": started_ms,
        "duration_ms": least if name == "exact" else None,
        "duration_class": name,
        "duration_min_ms": least,
        "duration_max_ms": most,
        "sync_ms": timing.sync_ms,
    }
