"""Decides which Events are written and how: as a new series, as a repetition of one, or not at all. Pure.

A series is one (object, reason, warning). Its first occurrence creates an events.k8s.io/v1 Event; further ones within
six minutes raise `series.count` of that Event, by at most one patch per minute, as the API intends. Each object has a
token bucket of 25 Events, refilled by one every 12 s, so that an object that flaps cannot flood the API server.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

from muster_operator.limits import (
    EVENT_REPEAT_MS,
    EVENT_SERIES_MAX,
    EVENT_SERIES_MS,
    EVENTS_BURST,
    EVENTS_REFILL_MS,
)


class SeriesKey(NamedTuple):
    uid: str
    reason: str
    warning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Create an Event named `name`."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Patch the Event `name`: it has occurred `count` times."""

    name: str
    count: int


@dataclass(slots=True)
class _Series:
    name: str
    message: str
    count: int
    seen_ms: int
    written_ms: int


@dataclass(slots=True)
class _Bucket:
    level: float
    at_ms: int


class EventSeries:
    """Remembers emitted Events, for at most EVENT_SERIES_MAX series and objects."""

    def __init__(self) -> None:
        self._series: OrderedDict[SeriesKey, _Series] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def occurred(
        self, key: SeriesKey, object_name: str, message: str, now_ms: int
    ) -> tuple[Start | Repeat | None, str]:
        """(what to write, why)."""
        known = self._series.get(key)
        if known is not None and now_ms - known.seen_ms < EVENT_SERIES_MS and known.message == message:
            known.count += 1
            known.seen_ms = now_ms
            self._series.move_to_end(key)
            if now_ms - known.written_ms < EVENT_REPEAT_MS:
                return None, "the series was written a moment ago"
            if not self._spend(key.uid, now_ms):
                return None, "the object's bucket is empty"
            known.written_ms = now_ms
            return Repeat(name=known.name, count=known.count), "the series goes on"
        if not self._spend(key.uid, now_ms):
            return None, "the object's bucket is empty"
        name = f"{object_name[:200]}.{now_ms:x}.{key.reason.lower()[:30]}"
        self._series[key] = _Series(name=name, message=message, count=1, seen_ms=now_ms, written_ms=now_ms)
        self._series.move_to_end(key)
        _bound(self._series)
        return Start(name=name), "a new series"

    def _spend(self, uid: str, now_ms: int) -> bool:
        bucket = self._buckets.setdefault(uid, _Bucket(level=EVENTS_BURST, at_ms=now_ms))
        self._buckets.move_to_end(uid)
        _bound(self._buckets)
        bucket.level = min(EVENTS_BURST, bucket.level + (now_ms - bucket.at_ms) / EVENTS_REFILL_MS)
        bucket.at_ms = now_ms
        if bucket.level < 1:
            return False
        bucket.level -= 1
        return True


def _bound(known: OrderedDict[Any, Any]) -> None:
    while len(known) > EVENT_SERIES_MAX:
        known.popitem(last=False)
