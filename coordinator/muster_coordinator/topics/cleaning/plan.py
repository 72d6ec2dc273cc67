"""What of a partition may be cleaned now, whether it is worth it, and which segments become one (Kafka's
`LogCleanerManager`).

Problem: cleaning costs reading and writing the whole clean part again, must leave what a reader or a transaction may
still need, and must be done in time where the topic demands it. Mechanism: from the sealed segments in offset order,
all that are below the last stable offset and, with min.compaction.lag.ms, before the first one with a record that is
younger. It is due when the part that was never cleaned has more than min.cleanable.dirty.ratio of the bytes, or has a
record older than max.compaction.lag.ms (KIP-354). What it does not do: look at the active segment, which the caller
does not hand in.
"""

from collections.abc import Sequence
from typing import NamedTuple

from muster_coordinator.topics.cleaning.limits import OFFSETS_MERGED_MAX, SEGMENTS_MERGED_MAX
from muster_coordinator.topics.machine import RetentionView


class CleaningSettings(NamedTuple):
    """Units are in the names; the defaults are Kafka's."""

    dirty_ratio: float = 0.5
    """min.cleanable.dirty.ratio"""
    min_lag_ms: int = 0
    max_lag_ms: int = 2**63 - 1
    delete_retention_ms: int = 86_400_000


class Cleanable(NamedTuple):
    """What a round may clean."""

    segments: tuple[RetentionView, ...]
    """From the log's first one on."""
    first_dirty: int
    clean_bytes: int
    dirty_bytes: int

    @property
    def ratio(self) -> float:
        """The part that is dirty."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable(
    now_ms: int, sealed: Sequence[RetentionView], settings: CleaningSettings, *, cleaned_to: int, stable_offset: int
) -> Cleanable | None:
    """None: nothing is dirty that may be cleaned. `sealed`: durable sealed segments in offset order; `cleaned_to`: the
    log is clean below; `stable_offset`: no open transaction begins below."""
    segments: list[RetentionView] = []
    clean_bytes = dirty_bytes = 0
    for segment in sealed:
        dirty = segment.next_offset > cleaned_to
        young = settings.min_lag_ms > 0 and segment.max_timestamp_ms > now_ms - settings.min_lag_ms
        if segment.next_offset > stable_offset or (dirty and young):
            break
        segments.append(segment)
        if dirty:
            dirty_bytes += segment.size_bytes
        else:
            clean_bytes += segment.size_bytes
    if not dirty_bytes:
        return None
    return Cleanable(tuple(segments), max(cleaned_to, segments[0].base_offset), clean_bytes, dirty_bytes)


def due(now_ms: int, found: Cleanable, settings: CleaningSettings, oldest_dirty_ms: int) -> bool:
    """`oldest_dirty_ms`: the timestamp of the first dirty batch that has one, -1 for none."""
    if oldest_dirty_ms >= 0 and now_ms - oldest_dirty_ms > settings.max_lag_ms:
        return True
    return found.ratio > settings.dirty_ratio or settings.dirty_ratio == 0.0


def groups(segments: Sequence[RetentionView], segment_bytes: int) -> list[tuple[RetentionView, ...]]:
    """Neighbours that become one segment: together not above `segment_bytes`, which one alone may be."""
    found: list[tuple[RetentionView, ...]] = []
    group: list[RetentionView] = []
    size = 0
    for segment in segments:
        if group and (
            size + segment.size_bytes > segment_bytes
            or len(group) == SEGMENTS_MERGED_MAX
            or segment.next_offset - 1 - group[0].base_offset > OFFSETS_MERGED_MAX
        ):
            found.append(tuple(group))
            group, size = [], 0
        group.append(segment)
        size += segment.size_bytes
    if group:
        found.append(tuple(group))
    return found
