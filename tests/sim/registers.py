"""Is one key of committed offsets a linearizable register? Exactly, in O(n log n), since every write is distinct.

Gibbons and Korach (Testing Shared Memories, 1997): the operations on one value form a cluster; its zone runs between
the earliest end and the latest start in it. Forward zones (end before start) must not overlap, and no backward zone may
lie within a forward one. The value before all writes is None, written at the beginning of time.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterable
from itertools import pairwise
from typing import NamedTuple

NEVER_US = 1 << 62
"""End of an operation that nobody knows the end of."""


class Write(NamedTuple):
    value: Hashable
    start_us: int
    end_us: int
    """NEVER_US: it may have happened, may yet happen, or not."""


class Read(NamedTuple):
    value: Hashable
    """None: nothing was ever written."""
    start_us: int
    end_us: int


class _Zone(NamedTuple):
    low: int
    high: int
    value: Hashable


def violation(writes: Iterable[Write], reads: Iterable[Read]) -> str | None:
    """Why the history is no register's, or None. `reads` are successful ones only."""
    starts: dict[Hashable, int] = {None: -1}
    first_end: dict[Hashable, int] = {None: -1}
    last_start: dict[Hashable, int] = {None: -1}
    unknown = set()
    for write in writes:
        assert write.value not in starts, "written twice"
        starts[write.value] = last_start[write.value] = write.start_us
        first_end[write.value] = write.end_us
        if write.end_us == NEVER_US:
            unknown.add(write.value)
    for read in reads:
        value = read.value
        if value not in starts:
            return f"{value} was read and never written"
        if read.end_us < starts[value]:
            return f"{value} was read before it was written"
        first_end[value] = min(first_end[value], read.end_us)
        last_start[value] = max(last_start[value], read.start_us)
        unknown.discard(value)
    forward, backward = [], []
    for value, end_us in first_end.items():
        if value in unknown:
            continue  # never seen: it need not have happened
        start_us = last_start[value]
        if end_us < start_us:
            forward.append(_Zone(end_us, start_us, value))
        else:
            backward.append(_Zone(start_us, end_us, value))
    return _conflict(sorted(forward), backward)


def _conflict(forward: list[_Zone], backward: list[_Zone]) -> str | None:
    for one, two in pairwise(forward):
        if two.low < one.high:
            return f"{one.value} and {two.value} were both current, one after the other, more than once"
    lows = [zone.low for zone in forward]
    for zone in backward:
        at = bisect_right(lows, zone.low) - 1
        # Ties are given to the product: both instants are the same microsecond.
        if at >= 0 and forward[at].low < zone.low and zone.high < forward[at].high:
            return f"{zone.value} was current while {forward[at].value} was, before and after it"
    return None
