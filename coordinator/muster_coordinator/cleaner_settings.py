"""The keys of the log cleaner (`cleanup.policy=compact`), which `settings.Settings` inherits."""

# a key is a dataclass field with metadata

from dataclasses import dataclass, field
from typing import Any

from muster_coordinator.limits import MIB
from muster_coordinator.setting_values import Parser, integer
from muster_coordinator.topics.cleaning.limits import KEYS_MEMORY_MIN


def _cleaner_key(name: str, parse: Parser, default: str, text: str) -> Any:  # noqa: ANN401  # typed where it is assigned
    metadata = {"key": name, "parse": parse, "default": default, "text": text}
    return field(default_factory=lambda: parse(default), metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class CleanerKeys:
    """The part of `Settings` that is about cleaning."""

    cleaner_backoff_ms: int = _cleaner_key(
        "log.cleaner.backoff.ms", integer(1), "15000", "Time between looks for logs to clean."
    )
    cleaner_keys_bytes: int = _cleaner_key(
        "log.cleaner.dedupe.buffer.size", integer(KEYS_MEMORY_MIN, 2**40), str(128 * MIB), "240 bytes a key of a round."
    )
    cleaner_rate: int = _cleaner_key(
        "log.cleaner.io.max.bytes.per.second", integer(1), str(16 * MIB), "What cleaning reads and writes, at most."
    )
