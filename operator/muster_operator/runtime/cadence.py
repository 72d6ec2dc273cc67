"""Is this status worth a write now? Pure.

Every write of a status is a write to etcd and an event to every watcher, and lag moves all the time. So: nothing when
nothing
changed; at once when anything but lag changed; lag alone at most every 10 s. Lag that becomes known or Unknown is not
"lag alone".
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from muster_operator.drift import same_status
from muster_operator.limits import LAG_ONLY_STATUS_MS

Json = Any
_LAG_KEYS: Final = frozenset({"lag", "lagText"})
_MASK: Final = "#"


class Decision(StrEnum):
    SKIP = "skip"
    WAIT = "wait"
    WRITE = "write"


def decide(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], *, last_write_ms: int | None, now_ms: int
) -> tuple[Decision, str, int]:
    """(decision, reason, wait in ms). `last_write_ms`: our last write of this status, None when not known."""
    if same_status(stored, wanted):
        return Decision.SKIP, "nothing changed", 0
    if not same_status(masked(stored), masked(wanted)):
        return Decision.WRITE, "more than lag changed", 0
    if last_write_ms is None:
        return Decision.WRITE, "lag changed and was not written by this process yet", 0
    left = last_write_ms + LAG_ONLY_STATUS_MS - now_ms
    if left > 0:
        return Decision.WAIT, "only lag changed, and it was written a moment ago", left
    return Decision.WRITE, "lag changed", 0


def masked(value: Json) -> Json:
    """`value` with every known number under a lag key replaced by one mark."""
    if isinstance(value, Mapping):
        return {key: _MASK if key in _LAG_KEYS and _is_number(one) else masked(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked(one) for one in value]
    return value


def _is_number(value: Json) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, str) and value.isdigit())
