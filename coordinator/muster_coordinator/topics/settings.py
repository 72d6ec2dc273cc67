"""The few topic configs that decide about a batch or a segment, parsed once a call.

Problem: `topics` may not import `controller` (siblings), and callers hand in either the overrides or all values in
force. Mechanism: a missing name has the default written here; `tests/topics` proves that these equal
`controller.topic_configs`. What it does not do: validate; the API refused bad values before they came into the image.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.limits import BATCH_BYTES_MAX, BATCH_BYTES_MAX_DEFAULT


class TopicSettings(NamedTuple):
    """Units as in the names; the defaults are Kafka's."""

    max_message_bytes: int = BATCH_BYTES_MAX_DEFAULT
    log_append_time: bool = False
    """message.timestamp.type is LogAppendTime."""
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    segment_bytes: int = 1_073_741_824
    compacts: bool = False
    deletes: bool = True
    """cleanup.policy has compact, delete."""
    retention_ms: int = 604_800_000
    """-1: for ever."""
    retention_bytes: int = -1
    """-1: no bound."""


DEFAULTS = TopicSettings()


def topic_settings(configs: Mapping[str, str]) -> TopicSettings:
    """The settings in `configs` (overrides or effective values)."""
    if not configs:
        return DEFAULTS
    get = configs.get
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
    )
