"""When the garbage collector may look at everything (decision 21).

A full collection walks every object: 150-200 ms per million. So: what start-up built is frozen; young generations stay
automatic; the oldest is collected only when this replica leads nothing (nobody waits) or after memory really grew.
Growth is measured by resident size, because counting objects is itself a walk.
"""

import gc
import logging
import resource
from collections.abc import Callable

from muster_coordinator.ports import Loop, Timer

CHECK_MS = 10_000
IDLE_COLLECT_MS = 60_000
"""While leading nothing, not more often than this."""
GROWTH_RATIO = 1.25
GROWTH_BYTES_MIN = 64 * 1024 * 1024
YOUNG_THRESHOLD = 10_000
MIDDLE_THRESHOLD = 1
"""A collection of the middle generation walks what young ones left: 200,000 objects took 40 ms of processor time while
partitions were created, which leaves nearly all of what it allocates. Each object is walked once on its way to the
oldest generation, whatever this is."""
_NEVER = 1_000_000_000
_PAGE_BYTES = resource.getpagesize()

_log = logging.getLogger(__name__)


class GcPolicy:
    """`start` once the process is set up. `leads_nothing()` and `resident_bytes()` are asked every `CHECK_MS`."""

    def __init__(
        self, loop: Loop, *, leads_nothing: Callable[[], bool], resident_bytes: Callable[[], int] | None = None
    ) -> None:
        self._loop = loop
        self._leads_nothing = leads_nothing
        self._resident_bytes = resident_bytes or read_resident_bytes
        self._after_last_bytes = 0
        self._last_ms = 0
        self._timer: Timer | None = None
        self.collections = 0
        self.longest_ms = 0

    def start(self) -> None:
        """The collector may have been off until now."""
        gc.collect()
        gc.freeze()
        gc.enable()
        gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD, _NEVER)
        self._after_last_bytes = self._resident_bytes()
        self._last_ms = self._loop.monotonic_ms()
        self._again()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def due(self, now_ms: int) -> bool:
        """Whether a full collection is worth its pause now."""
        if self._leads_nothing() and now_ms - self._last_ms >= IDLE_COLLECT_MS:
            return True
        wanted = max(int(self._after_last_bytes * GROWTH_RATIO), self._after_last_bytes + GROWTH_BYTES_MIN)
        return self._resident_bytes() >= wanted

    def _check(self) -> None:
        if self.due(self._loop.monotonic_ms()):
            self._collect()
        self._again()

    def _collect(self) -> None:
        began_ms = self._loop.monotonic_ms()
        gc.collect()
        self._last_ms = self._loop.monotonic_ms()
        self._after_last_bytes = self._resident_bytes()
        self.collections += 1
        self.longest_ms = max(self.longest_ms, self._last_ms - began_ms)
        _log.debug("full collection took %d ms", self._last_ms - began_ms)

    def _again(self) -> None:
        self._timer = self._loop.call_at(self._loop.monotonic_ms() + CHECK_MS, self._check)


def read_resident_bytes() -> int:
    """Resident set of this process; 0 where /proc does not exist (then only idle collections happen)."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
