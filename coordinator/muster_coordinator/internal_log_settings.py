"""The keys of the internal logs (the offsets log, the transaction log), which `settings.Settings` inherits."""

# a key is a dataclass field with metadata

from dataclasses import dataclass

from muster_coordinator.limits import GIB
from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import integer, one_of

COMPACT = "compact"


@dataclass(frozen=True, kw_only=True)
class InternalLogKeys:
    """The part of `Settings` that is about internal logs."""

    offsets_history_ms: int = setting(
        "muster.offsets.history.ms",
        integer(1),
        str(7 * 24 * 3_600_000),
        "Segments of the offsets log and of the transaction log are kept as they were written up to this age, ...",
    )
    offsets_history_bytes: int = setting(
        "muster.offsets.history.bytes",
        integer(0),
        str(GIB),
        "... and while the partition is not larger than this.",
    )
    internal_cleanup: str = setting(
        "muster.internal.topics.cleanup.policy",
        one_of(COMPACT, "delete"),
        COMPACT,
        "What is left of older history: the last value of each key, or nothing.",
    )
