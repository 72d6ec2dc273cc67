"""The topic configs that affect a batch or a segment, parsed once per call.

Problem: `topics` may not import `controller` (siblings), and callers pass either the overrides or all values in force.
Mechanism: a missing name has the default defined here; `tests/topics` proves that these equal
`controller.topic_configs`. What it does not do: validate; the API refuses bad values before they get into the image.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.limits import BATCH_BYTES_MAX, BATCH_BYTES_MAX_DEFAULT
from muster_coordinator.topics.cleaning.plan import CleaningSettings


class TopicSettings(NamedTuple):
    """Units are in the names; the defaults are Kafka's."""

    max_message_bytes: int = BATCH_BYTES_MAX_DEFAULT
    log_append_time: bool = False
    """message.timestamp.type is LogAppendTime."""
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    segment_bytes: int = 1_073_741_824
    compacts: bool = False
    deletes: bool = True
    """Whether cleanup.policy has compact; has delete."""
    retention_ms: int = 604_800_000
    """-1: for ever."""
    retention_bytes: int = -1
    """-1: no bound."""
    cleaning: CleaningSettings = CleaningSettings()


DEFAULTS = TopicSettings()


def topic_settings(configs: Mapping[str, str]) -> TopicSettings:
    """The settings in `configs` (overrides or effective values)."""
    if not configs:
        return DEFAULTS
    get = configs.get
    cleaning = DEFAULTS.cleaning
    policy = get("cleanup.policy", "delete")
    return TopicSettings(
        min(int(get("max.message.bytes", BATCH_BYTES_MAX_DEFAULT)), BATCH_BYTES_MAX),
        get("message.timestamp.type") == "LogAppendTime",
        int(get("message.timestamp.before.max.ms", DEFAULTS.timestamp_before_max_ms)),
        int(get("message.timestamp.after.max.ms", DEFAULTS.timestamp_after_max_ms)),
        int(get("segment.bytes", DEFAULTS.segment_bytes)),
        "compact" in policy,
        "delete" in policy,
        int(get("retention.ms", DEFAULTS.retention_ms)),
        int(get("retention.bytes", DEFAULTS.retention_bytes)),
        CleaningSettings(
            float(get("min.cleanable.dirty.ratio", cleaning.dirty_ratio)),
            int(get("min.compaction.lag.ms", cleaning.min_lag_ms)),
            int(get("max.compaction.lag.ms", cleaning.max_lag_ms)),
            int(get("delete.retention.ms", cleaning.delete_retention_ms)),
        ),
    )
