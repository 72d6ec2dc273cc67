"""Sorting in a worker thread beside an event loop.

`sorted` is one call into C: it gives the interpreter to nobody before it is done, and 50,000 names take it some 40 ms,
in which the loop of the same process stands still. Here short runs are sorted, and merged as they are taken: no more
work in all, and none of it in one piece. Not among the compiled modules (docs/adr/0010) for the same reason: compiled
code keeps the interpreter for a whole loop.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T", str, bytes)

RUN = 500
"""Items sorted in one piece: some 200 us."""


def in_order(items: Iterable[T], run: int = RUN) -> Iterator[T]:
    """What `sorted` gives; `items` are taken at the first step."""
    left = iter(items)
    runs: list[list[T]] = []
    while taken := sorted(islice(left, run)):
        runs.append(taken)
    yield from heapq.merge(*runs)
