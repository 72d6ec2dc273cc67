"""`events.Tell` as log lines: one line per event, with its fields, up to a bound per kind.

Problem: ten thousand rebalances a minute must cost the loop and the disk little, and an expulsion must not be lost
among them. Mechanism: each kind has its own bound per window; events beyond it are summed up in one line when the
window ends. Those with a stream of their own (the audit) are all written. All are counted, for /metrics. What it does
not do: write. The log pipeline does, off the loop (`logs`).
"""

import logging
from collections import Counter

from muster_coordinator.events import KINDS, Event, EventKind, Room
from muster_coordinator.ports import Loop
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.log_levels import event_logger

for _kind in KINDS:
    if _kind.stream:  # whatever level the process has
        logging.getLogger(_kind.stream).setLevel(_kind.level)
_LOGGERS = {room: event_logger(room) for room in Room}


class EventLog:
    """Call it as a `Tell`."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.counts: Counter[str] = Counter({kind.name: 0 for kind in KINDS})
        """Events since the start, by name; has a key for every kind."""
        self._written: dict[EventKind, int] = {}
        """Lines of each kind in its current window; no key while the kind has no window."""
        self._repeats: Counter[EventKind] = Counter()
        for kind in KINDS:
            if kind.stream:
                logging.getLogger(kind.stream).setLevel(kind.level)  # whatever the level of the rooms is

    def __call__(self, event: Event) -> None:
        kind = event.kind
        self.counts[kind.name] += 1
        if kind.stream:
            self._write(logging.getLogger(kind.stream), event)
            return
        log = _LOGGERS[kind.room]
        if not log.isEnabledFor(kind.level):
            return
        written = self._written.get(kind)
        if written is None:
            written = 0
            self._loop.call_at(self._loop.monotonic_ms() + limits.EVENT_WINDOW_MS, lambda: self._end_window(kind))
        if written >= (limits.RARE_EVENTS_PER_WINDOW_MAX if kind.rare else limits.EVENTS_PER_WINDOW_MAX):
            self._written[kind] = written
            self._repeats[kind] += 1
            return
        self._written[kind] = written + 1
        self._write(log, event)

    @staticmethod
    def _write(log: logging.Logger, event: Event) -> None:
        kind = event.kind
        fields = {"room": str(kind.room)} | {
            name: value[: limits.EVENT_TEXT_CHARS_MAX] if isinstance(value, str) else value
            for name, value in event.fields.items()
        }
        log.log(kind.level, kind.name, extra=fields)

    def _end_window(self, kind: EventKind) -> None:
        del self._written[kind]
        repeats = self._repeats.pop(kind, 0)
        if repeats:
            times = {"room": str(kind.room), "times": repeats}
            _LOGGERS[kind.room].log(kind.level, "%s: more of these were not logged", kind.name, extra=times)
