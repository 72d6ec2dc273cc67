"""`ports.Notice` as log lines: the first few of a kind a minute, then their number.

What a client can cause as often as it likes must not fill a disk with tracebacks. All are counted, for /metrics.
"""

import logging
from collections import Counter
from collections.abc import Mapping

from muster_coordinator import limits
from muster_coordinator.ports import Clock

_log = logging.getLogger(__name__)


class NoticeLog:
    """Call it as a `Notice`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.counts: Counter[str] = Counter()
        """By what happened, since the start."""
        self._windows: dict[str, tuple[int, int]] = {}
        """What -> (when its window began, how many there were before it)"""

    def __call__(self, what: str, details: Mapping[str, object], error: BaseException | None) -> None:
        now_ms = self._clock.monotonic_ms()
        began_ms, before = self._windows.get(what, (now_ms - limits.NOTICE_WINDOW_MS, 0))
        if now_ms - began_ms >= limits.NOTICE_WINDOW_MS:
            silent = self.counts[what] - before - limits.NOTICES_PER_WINDOW_MAX
            if silent > 0:
                _log.error("%s: more of these were not logged", what, extra={"times": silent})
            self._windows[what] = (now_ms, self.counts[what])
            before = self.counts[what]
        self.counts[what] += 1
        if self.counts[what] - before <= limits.NOTICES_PER_WINDOW_MAX:
            _log.error(what, extra=dict(details), exc_info=error)
