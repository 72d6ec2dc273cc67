"""The whole segments of a partition that exceed its retention time or size (protocol notes 17.1). Pure.

Problem: retention by each replica's own clock would give the replicas different logs. Mechanism: only the leader
evaluates it. The result is one offset, which goes through the log as `MoveLogStart`, and every replica drops the files
below it. Segments are dropped oldest first, up to the first that stays. What it does not do: roll the active segment.
If the caller passes it as the last view, its records are dropped (the log start moves to its end), and its file later,
once it is rolled and lies below the log start.
"""

from muster_coordinator.topics.machine import RetentionView
from muster_coordinator.topics.settings import TopicSettings


def retained_from(
    wall_ms: int, segments: tuple[RetentionView, ...], settings: TopicSettings, log_start_offset: int
) -> int | None:
    """The new log start, or None when no segment is dropped. `segments` in offset order: sealed ones, then perhaps the
    active one.

    Time: a segment is dropped when its newest record is older than retention.ms; one without timestamps (-1) never is.
    Size: a segment is dropped while the later ones still have retention.bytes.
    """
    if not settings.deletes:
        return None
    size = sum(segment.size_bytes for segment in segments)
    start = log_start_offset
    for segment in segments:
        gone = segment.next_offset <= log_start_offset
        if not gone and not _too_old(wall_ms, segment, settings) and not _too_much(size, segment, settings):
            break
        size -= segment.size_bytes
        start = max(start, segment.next_offset)
    return start if start > log_start_offset else None


def _too_old(wall_ms: int, segment: RetentionView, settings: TopicSettings) -> bool:
    if settings.retention_ms < 0 or segment.max_timestamp_ms < 0:
        return False
    return wall_ms - segment.max_timestamp_ms > settings.retention_ms


def _too_much(size_bytes: int, segment: RetentionView, settings: TopicSettings) -> bool:
    return 0 <= settings.retention_bytes <= size_bytes - segment.size_bytes and segment.size_bytes > 0
