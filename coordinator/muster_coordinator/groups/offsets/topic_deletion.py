"""Removing offsets of deleted topics.

A topic of ours is deleted when the controller log says so (decision 27). Its offsets are matched by id, never by name:
a re-created topic of the same name has another id, and its offsets are valid. A topic of an upstream Kafka (ADR 96) has
no id in commits. Its offsets are matched by name and by the time of the commit: those are removed that were committed
before it was last seen, so what was committed for a topic of the same name that came after it is not.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from typing_extensions import override

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
    return _over_all_groups(core, TopicDeletionRule(topic_ids))


def named_deletion(core: Core, last_seen_ms: Mapping[str, int]) -> Sweep:
    """One pass over all groups for some deleted topics of an upstream; topic → wall time at which it was last seen."""
    return _over_all_groups(core, NamedDeletionRule(last_seen_ms))


def _over_all_groups(core: Core, rule: "_DeletionRule") -> Sweep:
    groups = dict.fromkeys([*core.state.offsets.groups(), *core.state.pending_offsets.groups()])
    return Sweep(rule, groups)


class _DeletionRule(ABC):
    """Offsets of some topics. They are looked for twice: cheaply, for whether a group has any, and then row by row."""

    def __init__(self, topics: int) -> None:
        self._topics = topics

    @abstractmethod
    def may_have(self, core: Core, group: str) -> bool:
        """Are there rows of these topics in the group's committed offsets?"""

    @abstractmethod
    def is_deleted(self, topic: str, row: bytes) -> bool:
        """Does this row go?"""

    def begins(self, core: Core, now: Now) -> bool:
        """Always True."""
        del core, now
        return True

    def inspect(self, core: Core, now: Now, group: str) -> tuple[int, bool]:
        del now
        work = 1 + core.state.offsets.size(group) * self._topics // _ROWS_PER_WORK
        return work, group in core.state.pending_offsets or self.may_have(core, group)

    def tombstones(self, core: Core, now: Now, group: str) -> tuple[list[Record], bool]:
        del now
        table = core.state.offsets.table(group)
        rows = [] if table is None else list(table.rows())
        rows += core.state.pending_offsets.rows_of(group)
        keys = list(dict.fromkeys((topic, index) for topic, index, row in rows if self.is_deleted(topic, row)))
        records = [offset_tombstone(group, *key) for key in keys[: limits.GROUP_TOMBSTONES_PER_BATCH]]
        return records, len(keys) > limits.GROUP_TOMBSTONES_PER_BATCH

    def written(self, core: Core, records: int) -> None:
        core.stats.offsets_deleted += records


class TopicDeletionRule(_DeletionRule):
    """Offsets that were committed under one of these topic ids."""

    def __init__(self, topic_ids: Iterable[bytes]) -> None:
        self._ids = frozenset(topic_ids)
        assert NO_TOPIC_ID not in self._ids
        super().__init__(len(self._ids))

    @override
    def may_have(self, core: Core, group: str) -> bool:
        return any(core.state.offsets.mentions(group, topic_id) for topic_id in self._ids)

    @override
    def is_deleted(self, topic: str, row: bytes) -> bool:
        return topic_id_of(row) in self._ids


class NamedDeletionRule(_DeletionRule):
    """Offsets of these topics that were committed by then."""

    def __init__(self, last_seen_ms: Mapping[str, int]) -> None:
        self._last_seen_ms = dict(last_seen_ms)
        super().__init__(len(self._last_seen_ms))

    @override
    def may_have(self, core: Core, group: str) -> bool:
        return any(core.state.offsets.names(group, topic) for topic in self._last_seen_ms)

    @override
    def is_deleted(self, topic: str, row: bytes) -> bool:
        until_ms = self._last_seen_ms.get(topic)
        return until_ms is not None and commit_timestamp_of(row) <= until_ms
