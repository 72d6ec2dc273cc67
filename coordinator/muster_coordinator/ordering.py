"""Sorting in a worker thread beside an event loop.

`sorted` is one call into C, during which no other thread gets the interpreter: 50,000 names take some 40 ms, in which
the loop of the process stands still. Here short runs are sorted and then merged lazily: the same work in small pieces.
Not among the compiled modules (docs/adr/0010) for the same reason: compiled code keeps the interpreter for a whole
loop.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T", str, bytes)

RUN = 500
"""Items sorted at once: some 200 us."""


def in_order(items: Iterable[T], run: int = RUN) -> Iterator[T]:
    """The items in the order of `sorted`. They are read at the first step."""
    left = iter(items)
    runs: list[list[T]] = []
    while taken := sorted(islice(left, run)):
        runs.append(taken)
    yield from heapq.merge(*runs)
