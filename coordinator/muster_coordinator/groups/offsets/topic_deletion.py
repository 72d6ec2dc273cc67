"""Removing offsets of deleted topics.

A topic of ours is deleted when the controller log says so (decision 27). Its offsets are matched by id, never by name:
a re-created topic of the same name has another id, and its offsets are valid. A topic of an upstream Kafka (ADR 96) has
no id in commits. Its offsets are matched by name and by the time of the commit: those are removed that were committed
before it was last seen, so what was committed for a topic of the same name that came after it is not.
"""

from collections.abc import Iterable, Mapping

from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core, Record
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.offsets.sweep import Sweep
from muster_coordinator.groups.offsets.tombstones import offset_tombstone
from muster_coordinator.groups.state.offset_row import NO_TOPIC_ID, commit_timestamp_of, topic_id_of

_ROWS_PER_WORK = 16
"""Rows that are searched for an id in the time of inspecting one offset."""


def topic_deletion(core: Core, topic_ids: Iterable[bytes]) -> Sweep:
    """One pass over all groups for some deleted topics."""
    groups = dict.fromkeys([*core.state.offsets.groups(), *core.state.pending_offsets.groups()])
    return Sweep(TopicDeletionRule(topic_ids), groups)


class TopicDeletionRule:
    """Offsets that were committed under one of these topic ids."""

    def __init__(self, topic_ids: Iterable[bytes]) -> None:
        self._ids = frozenset(topic_ids)
        assert NO_TOPIC_ID not in self._ids

    def begins(self, core: Core, now: Now) -> bool:
        """Always True."""
        del core, now
        return True

    def inspect(self, core: Core, now: Now, group: str) -> tuple[int, bool]:
        del now
        work = 1 + core.state.offsets.size(group) * len(self._ids) // _ROWS_PER_WORK
        if group in core.state.pending_offsets:
            return work, True
        return work, any(core.state.offsets.mentions(group, topic_id) for topic_id in self._ids)

    def tombstones(self, core: Core, now: Now, group: str) -> tuple[list[Record], bool]:
        del now
        table = core.state.offsets.table(group)
        found = [] if table is None else [(t, p) for t, p, row in table.rows() if topic_id_of(row) in self._ids]
        found += [(t, p) for t, p, row in core.state.pending_offsets.rows_of(group) if topic_id_of(row) in self._ids]
        keys = list(dict.fromkeys(found))
        records = [offset_tombstone(group, *key) for key in keys[: limits.GROUP_TOMBSTONES_PER_BATCH]]
        return records, len(keys) > limits.GROUP_TOMBSTONES_PER_BATCH

    def written(self, core: Core, records: int) -> None:
        core.stats.offsets_deleted += records


def named_deletion(core: Core, last_seen_ms: Mapping[str, int]) -> Sweep:
    """One pass over all groups for some deleted topics of an upstream; topic → wall time at which it was last seen."""
    groups = dict.fromkeys([*core.state.offsets.groups(), *core.state.pending_offsets.groups()])
    return Sweep(NamedDeletionRule(last_seen_ms), groups)


class NamedDeletionRule:
    """Offsets of these topics that were committed by then."""

    def __init__(self, last_seen_ms: Mapping[str, int]) -> None:
        self._last_seen_ms = dict(last_seen_ms)

    def begins(self, core: Core, now: Now) -> bool:
        """Always True."""
        del core, now
        return True

    def inspect(self, core: Core, now: Now, group: str) -> tuple[int, bool]:
        del now
        work = 1 + core.state.offsets.size(group) * len(self._last_seen_ms) // _ROWS_PER_WORK
        if group in core.state.pending_offsets:
            return work, True
        return work, any(core.state.offsets.names(group, topic) for topic in self._last_seen_ms)

    def tombstones(self, core: Core, now: Now, group: str) -> tuple[list[Record], bool]:
        del now
        table = core.state.offsets.table(group)
        rows = [] if table is None else list(table.rows())
        rows += core.state.pending_offsets.rows_of(group)
        seen = self._last_seen_ms
        found = [(t, p) for t, p, row in rows if t in seen and commit_timestamp_of(row) <= seen[t]]
        keys = list(dict.fromkeys(found))
        records = [offset_tombstone(group, *key) for key in keys[: limits.GROUP_TOMBSTONES_PER_BATCH]]
        return records, len(keys) > limits.GROUP_TOMBSTONES_PER_BATCH

    def written(self, core: Core, records: int) -> None:
        core.stats.offsets_deleted += records
