"""Which node of a Redis Cluster has which slot, by what nodes say. Values in, values out.

Problem: a call must go to the node that has its keys' slot, slots move, and a list of all may be late. Mechanism: the
list of a node (CLUSTER SLOTS) is taken as it is; a node that says MOVED is right about that slot until the next list.
What this does not do: ask, or know of ASK, which is about one call (`runtime.redis_cluster`).
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from muster_coordinator.redis_streams.addresses import UNKNOWN, Address, address_of, text_of
from muster_coordinator.redis_streams.answers import pairs

SLOTS = 16_384


class SlotRange(NamedTuple):
    """Slots `first` to `last`, both included, and the primary that has them."""

    first: int
    last: int
    primary: Address


def ranges_of(answer: Sequence[Any], asked: Address) -> list[SlotRange]:
    """Of CLUSTER SLOTS, as this node answered. One that does not know its own address tells none, and is the one that
    was asked; for one whose name is not known (`cluster-preferred-endpoint-type hostname`) "?" stands there, and its IP
    address beside that. Raises ValueError."""
    try:
        found = [SlotRange(int(first), int(last), _primary(node, asked)) for first, last, node, *_ in answer]
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"no answer to CLUSTER SLOTS: {error!r}") from error
    for one in found:
        if not 0 <= one.first <= one.last < SLOTS:
            raise ValueError(f"CLUSTER SLOTS tells {one}")
    return found


def _primary(node: Sequence[Any], asked: Address) -> Address:
    host = text_of(node[0]) if node[0] else asked[0]
    if host == UNKNOWN:
        beside = node[3] if len(node) > 3 else ()
        told = {text_of(name): value for name, value in pairs(beside)}
        host = text_of(told.get("ip"))
    return address_of(host, node[1])


class Slots:
    """A list, and what was said of single slots since."""

    def __init__(self, ranges: Iterable[SlotRange] = ()) -> None:
        self._ranges = sorted(ranges)
        self._firsts = [one.first for one in self._ranges]
        self._moved: dict[int, Address] = {}
        self._primaries = dict.fromkeys(one.primary for one in self._ranges)

    def primaries(self) -> Collection[Address]:
        """Each once. A slot that goes on to another node leaves its node here until the next list."""
        return self._primaries.keys()

    def of(self, slot: int) -> Address | None:
        """None: no node has it, as far as is known."""
        if slot in self._moved:
            return self._moved[slot]
        at = bisect_right(self._firsts, slot) - 1
        return self._ranges[at].primary if at >= 0 and slot <= self._ranges[at].last else None

    def moved(self, slot: int, to: Address) -> None:
        """A node has said so."""
        if 0 <= slot < SLOTS:
            self._moved[slot] = to
            self._primaries[to] = None
