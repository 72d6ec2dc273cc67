"""Which whole segments of a partition are past their time or size (protocol notes 17.1). Pure.

Problem: retention by each replica's own clock would give replicas different logs. Mechanism: only the leader looks;
the result is one offset that goes through the log as `MoveLogStart`, and every replica drops the files below it.
Segments go oldest first and the first that stays ends the walk. What it does not do: roll the active segment. If the
caller passes it as the last view, its records go (the log start moves to its end) and its file follows once it is
rolled and lies below.
"""

from muster_coordinator.topics.machine import RetentionView
from muster_coordinator.topics.settings import TopicSettings


def retained_from(
    wall_ms: int, segments: tuple[RetentionView, ...], settings: TopicSettings, log_start_offset: int
) -> int | None:
    """The new log start, or None when nothing is to go. `segments` in offset order, sealed ones and maybe the active.

    Time: a segment goes when its newest record is older than retention.ms; one without timestamps (-1) never does.
    Size: a segment goes while the segments without it still hold retention.bytes.
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
