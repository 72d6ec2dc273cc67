"""What the C library's allocator keeps of memory that the process has freed (ADR 92).

Problem: glibc raises its thresholds by itself. Once a buffer of n bytes that had a mapping of its own is freed, buffers
of that size come from the heap, and 2n bytes (up to 64 MiB) of free memory stay at the top of each heap for as long as
the process lives. What a replica keeps after a burst would hang on the largest frame that it has ever met, and on how
much came together while it did not get the processor. Mechanism: the thresholds are said once, before the first thread
is there, which ends their adjustment; and what lies free below something that lives is given back by `HeapTrim`, after
the resident size has grown. Python's own arenas of small objects are given back by Python.

What it does not do: bound what is in use (every queue has its limit), overrule who has told glibc otherwise by the
environment, or do anything where the C library is not glibc.
"""

import ctypes
import logging
from collections.abc import Callable, Mapping

from muster_coordinator.ports import Loop
from muster_coordinator.runtime import limits

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""`malloc.h` of glibc."""

_log = logging.getLogger(__name__)


def set_thresholds(environment: Mapping[str, str]) -> bool:
    """Say how much freed memory may stay. False: nothing was done, somebody else has said it or there is no glibc."""
    if "glibc.malloc" in environment.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") for name in environment
    ):
        return False
    mallopt = _function("mallopt")
    if mallopt is None:
        return False
    values = (
        (_M_TRIM_THRESHOLD, limits.HEAP_TOP_FREE_BYTES_MAX),
        (_M_MMAP_THRESHOLD, limits.HEAP_MAPPED_BYTES_MIN),
        (_M_ARENA_MAX, limits.HEAPS_MAX),
    )
    taken = [mallopt(option, value) for option, value in values]
    return all(taken)


def give_back() -> None:
    """Give all free pages of all heaps to the system: some 0.1 ms for each MiB of them."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(limits.HEAP_TOP_FREE_BYTES_MAX)


def _function(name: str) -> Callable[..., int] | None:
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
    return found


class HeapTrim:
    """Gives back what is free once the resident size is `HEAP_GROWTH_BYTES` above what it was after the last time.

    `look` is called now and then (`gc_policy`), after a full collection if there was one. Growth of what is in use
    costs one vain try each `HEAP_GROWTH_BYTES`.
    """

    def __init__(
        self, loop: Loop, resident_bytes: Callable[[], int], give_back: Callable[[], None] = give_back
    ) -> None:
        self._loop = loop
        self._resident_bytes = resident_bytes
        self._give_back = give_back
        self._least_bytes = resident_bytes()

    def look(self) -> None:
        now_bytes = self._resident_bytes()
        if now_bytes < self._least_bytes + limits.HEAP_GROWTH_BYTES:
            self._least_bytes = min(self._least_bytes, now_bytes)
            return
        began_ms = self._loop.monotonic_ms()
        self._give_back()
        self._least_bytes = self._resident_bytes()
        took_ms = self._loop.monotonic_ms() - began_ms
        _log.debug("%d bytes of free memory given back in %d ms", now_bytes - self._least_bytes, took_ms)
