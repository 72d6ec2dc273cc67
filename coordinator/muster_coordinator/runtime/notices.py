"""`ports.Notice` as log lines: the first few of a kind in a window, and at its end the number of further ones.

Problem: an error that a client can cause at any rate must not fill a disk with tracebacks. All notices are counted, for
/metrics. Loss and damage are also told as events, whose bounds are wider (`event_log`).
"""

import logging
from collections import Counter
from collections.abc import Mapping

from muster_coordinator.ports import Loop
from muster_coordinator.runtime import limits

_log = logging.getLogger(__name__)


class NoticeLog:
    """Call it as a `Notice`."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.counts: Counter[str] = Counter()
        """Notices since the start, by kind."""
        self._before: dict[str, int] = {}
        """Kind -> its count when its current window began; no key while it has no window."""

    def __call__(self, what: str, details: Mapping[str, object], error: BaseException | None) -> None:
        if what not in self._before:
            self._before[what] = self.counts[what]
            ends_ms = self._loop.monotonic_ms() + limits.NOTICE_WINDOW_MS
            self._loop.call_at(ends_ms, lambda: self._end_window(what))
        self.counts[what] += 1
        if self.counts[what] - self._before[what] <= limits.NOTICES_PER_WINDOW_MAX:
            _log.error(what, extra=dict(details), exc_info=error)

    def _end_window(self, what: str) -> None:
        silent = self.counts[what] - self._before.pop(what) - limits.NOTICES_PER_WINDOW_MAX
        if silent > 0:
            _log.error("%s: more of these were not logged", what, extra={"times": silent})
