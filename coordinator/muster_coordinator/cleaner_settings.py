"""The keys of the log cleaner (`cleanup.policy=compact`), which `settings.Settings` inherits."""

# a key is a dataclass field with metadata

from dataclasses import dataclass

from muster_coordinator.limits import MIB
from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import integer
from muster_coordinator.topics.cleaning.limits import KEYS_MEMORY_MIN


def _cleanup_policy(text: str) -> str:
    policies = [one.strip() for one in text.split(",")]
    if not set(policies) <= {"delete", "compact"}:
        raise ValueError("neither delete, nor compact, nor both")
    return ",".join(dict.fromkeys(policies))


def _ratio(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise ValueError("not between 0 and 1")
    return value


@dataclass(frozen=True, kw_only=True)
class CleanerKeys:
    """The part of `Settings` that is about cleaning."""

    cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms", integer(1), "15000", "Time between looks for logs to clean."
    )
    cleaner_keys_bytes: int = setting(
        "log.cleaner.dedupe.buffer.size", integer(KEYS_MEMORY_MIN, 2**40), str(128 * MIB), "240 bytes a key of a round."
    )
    cleaner_rate: int = setting(
        "log.cleaner.io.max.bytes.per.second", integer(1), str(16 * MIB), "What cleaning reads and writes, at most."
    )
    cleanup_policy: str = setting(
        "log.cleanup.policy",
        _cleanup_policy,
        "delete",
        "What happens to old segments of a topic that does not say it; compact counts from feature level 3 on.",
    )
    cleaner_dirty_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio", _ratio, "0.5", "Dirty part of a compacted log from which it is cleaned."
    )
    cleaner_min_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms", integer(0), "0", "For so long a record is not cleaned away."
    )
    cleaner_max_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms",
        integer(1),
        str(2**63 - 1),
        "A record that was never cleaned for this time makes its partition due.",
    )
    cleaner_delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms",
        integer(0),
        "86400000",
        "How long a tombstone stays after the first cleaning that meets it.",
    )

    def cleaner_problem(self) -> str:
        """Why these values do not go together; "": they do."""
        above = self.cleaner_min_lag_ms > self.cleaner_max_lag_ms
        return "log.cleaner.min.compaction.lag.ms is above log.cleaner.max.compaction.lag.ms" if above else ""
