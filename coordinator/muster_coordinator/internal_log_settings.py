"""The keys of the internal logs, which `settings.Settings` inherits; those of their history are beside the offsets
log's others."""

# a key is a dataclass field with metadata

from dataclasses import dataclass, field
from typing import Any

from muster_coordinator.setting_values import Parser, one_of

COMPACT = "compact"


def _internal_key(name: str, parse: Parser, default: str, text: str) -> Any:  # noqa: ANN401  # typed where it is assigned
    metadata = {"key": name, "parse": parse, "default": default, "text": text}
    return field(default_factory=lambda: parse(default), metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class InternalLogKeys:
    """The part of `Settings` that is about internal logs."""

    internal_cleanup: str = _internal_key(
        "muster.internal.topics.cleanup.policy",
        one_of(COMPACT, "delete"),
        COMPACT,
        "What is left of older history of the offsets log and of the transaction log: the last value of each key, or "
        "nothing.",
    )
