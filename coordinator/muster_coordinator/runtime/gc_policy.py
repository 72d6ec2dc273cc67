"""When the garbage collector runs a full collection (decision 21).

Problem: a full collection walks every object, 150-200 ms per million, and stops the loop. Mechanism: objects made at
the start are frozen; young generations are collected automatically; the oldest only while this replica leads no group
(so no client waits for it), or after memory has grown. Growth is measured by resident size, because counting objects
is itself a walk. What a collection, or the end of a burst, has freed is then given back to the system (`heap`).
"""

import gc
import logging
import resource
from collections.abc import Callable

from muster_coordinator.ports import Loop, Timer
from muster_coordinator.runtime.heap import HeapTrim

CHECK_MS = 10_000
IDLE_COLLECT_MS = 60_000
"""Shortest time between full collections while this replica leads no group."""
GROWTH_RATIO = 1.25
GROWTH_BYTES_MIN = 64 * 1024 * 1024
YOUNG_THRESHOLD = 2_000
"""With two full processors, 10,000 objects that are kept took 13 ms to walk, and as many that are freed 10 to 40 ms."""
MIDDLE_THRESHOLD = 1
"""Collect the middle generation often, so that each collection is short: at a larger value one walked 200,000 objects
in 40 ms while partitions were created, which keeps nearly all objects that it allocates. Each object is walked twice on
its way to the oldest generation, whatever the values: smaller ones cost no more in sum."""
_NEVER = 1_000_000_000
_PAGE_BYTES = resource.getpagesize()

_log = logging.getLogger(__name__)


class GcPolicy:
    """Call `start` once the process is set up; `leads_nothing()` and `resident_bytes()` are read every `CHECK_MS`."""

    def __init__(
        self,
        loop: Loop,
        *,
        leads_nothing: Callable[[], bool],
        resident_bytes: Callable[[], int] | None = None,
        heap: HeapTrim | None = None,
    ) -> None:
        self._loop = loop
        self._heap = heap
        self._leads_nothing = leads_nothing
        self._resident_bytes = resident_bytes or read_resident_bytes
        self._after_last_bytes = 0
        self._last_ms = 0
        self._timer: Timer | None = None
        self.collections = 0
        self.longest_ms = 0

    def start(self) -> None:
        """Collect, freeze what is left, and enable the collector, which may have been off until now."""
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
        """Is a full collection due? See the module."""
        if self._leads_nothing() and now_ms - self._last_ms >= IDLE_COLLECT_MS:
            return True
        wanted = max(int(self._after_last_bytes * GROWTH_RATIO), self._after_last_bytes + GROWTH_BYTES_MIN)
        return self._resident_bytes() >= wanted

    def _check(self) -> None:
        if self.due(self._loop.monotonic_ms()):
            self._collect()
        if self._heap is not None:
            self._heap.look()
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
