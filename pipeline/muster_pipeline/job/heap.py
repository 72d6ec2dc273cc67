"""Memory that a task has freed goes back to the system, so that a worker's size is that of what it uses.

Chunks of a log are folded in arrays of ever other sizes. What they leave free lies in pieces between what lives on, in
the C library's heap (numpy, Python) and in Arrow's pool, and both keep it: 100 MiB of 450 after fifty million records
(measured). What this does not do: bound what is in use; where the C library is not glibc, only Arrow's pool is told.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import pyarrow as pa


def give_back() -> None:
    """Give all free pages to the system: some 10 ms, and as much when they are needed again."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """`malloc_trim` of glibc."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found
