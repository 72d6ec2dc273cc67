"""What the cleaner may take of the offsets log and of the transaction log (ADR 76). Pure.

Problem: of these two logs readers want both the last value of each key for ever, and what happened lately as it was
written, on a disk that is not larger than planned. Mechanism: a sealed segment stays as it is until all its records are
older than `history_ms`, or the partition is larger than `history_bytes`. Where it is too large, at least as much is
taken as is clean already: so a round takes in more than half of what it rewrites, and a partition is at most as large
as the larger of `history_bytes` and twice its live records, and one segment. What it does not do: say which records
stay, or look at the active segment.
"""

from collections.abc import Sequence
from typing import NamedTuple

from muster_coordinator.controller.image import MEMBERS_LEVEL, ClusterImage
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.topics.cleaning.plan import CleaningSettings
from muster_coordinator.topics.machine import RetentionView
from muster_coordinator.topics.settings import TopicSettings


class History(NamedTuple):
    """How much stays as it was written."""

    history_ms: int
    history_bytes: int


def compacted(settings: NodeSettings, image: ClusterImage | None) -> bool:
    """Are internal logs cleaned? Below this feature level (ADR 76, L5) a replica of a release may come back that would
    take a cleaned segment for its own; there the leader cuts them (`retention`)."""
    return settings.internal_compacts and image is not None and image.feature_level >= MEMBERS_LEVEL


def cleaning_settings(segment_bytes: int) -> TopicSettings:
    """As the configs of a topic, with Kafka's defaults. What is young is kept by `behind_history`."""
    return TopicSettings(segment_bytes=segment_bytes, compacts=True, deletes=False, cleaning=CleaningSettings())


def behind_history(
    now_ms: int, sealed: Sequence[RetentionView], history: History, *, size_bytes: int, cleaned_to: int
) -> Sequence[RetentionView]:
    """Of the sealed segments, in offset order, those that need not stay as they are: from the first one on. Clean ones
    are among them. `size_bytes`: of the whole partition; `cleaned_to`: the log is clean below."""
    excess_bytes = size_bytes - history.history_bytes
    clean_bytes = sum(view.size_bytes for view in sealed if view.next_offset <= cleaned_to)
    wanted_bytes = max(excess_bytes, clean_bytes + 1) if excess_bytes > 0 else 0
    taken_bytes = 0
    for number, view in enumerate(sealed):
        if view.next_offset <= cleaned_to:
            continue
        # A segment without timestamps (-1) is never old.
        old = 0 <= view.max_timestamp_ms < now_ms - history.history_ms
        if not old and taken_bytes >= wanted_bytes:
            return sealed[:number]
        taken_bytes += view.size_bytes
    return sealed
