"""Decides whether a new status is worth a write now. Pure.

Problem: every status write is a write to etcd and an event to every watcher, and lag changes all the time; its history
belongs into metrics. Mechanism: no write if nothing changed. An immediate write if anything but lag changed, with the
current lag. For lag alone, a write only if its order of magnitude changed and has stayed changed for a while. Lag that
becomes known or Unknown is not "lag alone". The time of the lag value is written with it and is never a reason to
write.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from muster_operator.drift import same_status
from muster_operator.limits import LAG_BAND_HELD_MS

Json = Any
_LAG_KEYS: Final = frozenset({"lag", "lagText"})
_TIME_KEY: Final = "lagTime"
_MASK: Final = "#"
_QUALITY_KEY: Final = "lagQuality"
_ABOUT: Final = "~"
"""Before a lag that is an estimate: whether it is one is a part of the number."""


class Decision(StrEnum):
    SKIP = "skip"
    WAIT = "wait"
    LAG = "lag"
    """Only lag is to be written: when the group's turn comes (`lag_writes`)."""
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The band in which lag has been in every pass since a moment of our monotonic clock."""

    band: int | None
    since_ms: int


def band_of(lag: Json) -> int | None:
    """0 for 0, 1 for 1 to 3, 2 for 4 to 15, 3 for 16 to 63, ...: powers of four. None: unknown."""
    if not isinstance(lag, int) or isinstance(lag, bool):
        return None
    return (max(0, lag).bit_length() + 1) // 2


def holding(held: Held | None, status: Mapping[str, Any], now_ms: int) -> Held:
    """The state after this pass."""
    band = band_of(status.get("lag"))
    return held if held is not None and held.band == band else Held(band=band, since_ms=now_ms)


def decide(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], *, held: Held, now_ms: int, as_written: bool = False
) -> tuple[Decision, str, int]:
    """(decision, reason, wait in ms). `held` includes this pass (`holding`); `as_written`: `stored` is known to be what
    the server made of `wanted`, apart from lag."""
    if not as_written and not same_status(masked(stored), masked(wanted)):
        return Decision.WRITE, "more than lag changed", 0
    if band_of(stored.get("lag")) == held.band:
        return Decision.SKIP, "nothing changed but lag within its band", 0
    left = held.since_ms + LAG_BAND_HELD_MS - now_ms
    if left > 0:
        return Decision.WAIT, "lag came into another band a moment ago", left
    return Decision.LAG, "lag has stayed in another band", 0


def masked(value: Json) -> Json:
    """`value` with every known number under a lag key replaced by one placeholder, and without the time of the lag
    value and how good it is."""
    if isinstance(value, Mapping):
        return {
            key: _MASK if key in _LAG_KEYS and _is_number(one) else masked(one)
            for key, one in value.items()
            if key not in (_TIME_KEY, _QUALITY_KEY)
        }
    if isinstance(value, list | tuple):
        return [masked(one) for one in value]
    return value


def _is_number(value: Json) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, str) and value.removeprefix(_ABOUT).isdigit())
