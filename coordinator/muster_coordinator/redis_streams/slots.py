"""Which node of a Redis Cluster has which slot, by what nodes say. Values in, values out.

Problem: a call must go to the node that has its keys' slot, slots move, and a list of all may be late. Mechanism: the
list of a node (CLUSTER SLOTS) is taken as it is; a node that says MOVED is right about that slot until the next list.
What this does not do: ask, or know of ASK, which is about one call (`runtime.redis_cluster`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from muster_coordinator.redis_streams.sentinels import Address

SLOTS = 16_384


class SlotRange(NamedTuple):
    """Slots `first` to `last`, both included, and the primary that has them."""

    first: int
    last: int
    primary: Address


def ranges_of(answer: Sequence[Any], asked: Address) -> list[SlotRange]:
    """Of CLUSTER SLOTS, as this node answered. A node that does not know its own name says none: then it is the one
    that was asked. Raises ValueError."""
    try:
        found = []
        for first, last, primary, *_ in answer:
            host = bytes(primary[0] or b"").decode() or asked[0]
            found.append(SlotRange(int(first), int(last), (host, int(primary[1]))))
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"no answer to CLUSTER SLOTS: {error!r}") from error
    for one in found:
        if not (0 <= one.first <= one.last < SLOTS and 0 < one.primary[1] < 65_536):
            raise ValueError(f"CLUSTER SLOTS tells {one}")
    return found


class Slots:
    """A list, and what was said of single slots since."""

    def __init__(self, ranges: Sequence[SlotRange] = ()) -> None:
        self._ranges = tuple(ranges)
        self._moved: dict[int, Address] = {}

    def primaries(self) -> list[Address]:
        """Each once."""
        return list(dict.fromkeys([*(one.primary for one in self._ranges), *self._moved.values()]))

    def of(self, slot: int) -> Address | None:
        """None: no node has it, as far as is known."""
        if slot in self._moved:
            return self._moved[slot]
        return next((one.primary for one in self._ranges if one.first <= slot <= one.last), None)

    def moved(self, slot: int, to: Address) -> None:
        """A node has said so."""
        if 0 <= slot < SLOTS:
            self._moved[slot] = to
