"""Which exchange between two brokers brings their sums closest, and whether it is worth what it costs (ADR 81). Pure.

Problem: brokers that have the same number of replicas may hold very different numbers of bytes. Moves that level these
cost what is copied, and sizes are known late and not exactly, so what is begun for a small difference is undone later.
Mechanism: one broker gives a piece and takes a lighter one for it, or none if it has one piece more. Of all such pairs
the one that leaves the smallest difference is taken, if it

* gains: the difference shrinks by at least half of the bound;
* does not overshoot: afterwards the taker has at most half of the bound more than the giver, so only a change by half
  of the bound would ask for the way back;
* costs no more than `COST_MAX` bytes copied for each byte by which the difference shrinks, where copying costs;
* fits: each of the two has room for what it gets.

Convergence: a difference d > bound shrinks by x twice, bound / 4 <= x and d - x >= bound / 4, so the sum of the squares
of all sums falls by 2 x (d - x) >= bound^2 / 8. No state is come to twice, and after finitely many exchanges none is
left. What this does not do: know what a piece is (`weighing` does), or try chains of three brokers.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import NamedTuple

COST_MAX = 4
"""Bytes copied for each byte by which the difference of two brokers shrinks: the difference of a swap of 90 GiB for 60
is twice 30, which is worth 150, of one for 80 twice 10, which is not worth 170."""


class Piece(NamedTuple):
    """Something that one broker has and another could have."""

    weight: int
    place: int
    """Whose it is, by the caller's numbers."""
    led: bool
    """Is the broker that has it its preferred leader?"""


class Terms(NamedTuple):
    """Between whom, and what is allowed."""

    difference: int
    """By which the giver's sum is above the taker's."""
    bound: int
    """By which brokers may differ, at least 1."""
    alone: bool
    """May a piece be given for none?"""
    led_shifts: Collection[int]
    """By how many the giver's preferred leaderships may fall: of -1, 0 and 1."""
    copies: bool
    """Does the exchange copy what it moves?"""
    giver_room: int = 0
    """Bytes that the giver has room for, ..."""
    taker_room: int = 0
    """... and the taker; both count only where bytes are copied."""


class Exchange(NamedTuple):
    gives: Piece
    takes: Piece | None
    left: int
    """The difference afterwards; negative: the taker has more then."""


def best_exchange(gives: Sequence[Piece], takes: Sequence[Piece], terms: Terms) -> Exchange | None:
    """The exchange that leaves the smallest difference; of equals one that copies least, then the first in the order of
    `gives`. O((n + m) log m)."""
    if terms.difference <= terms.bound:
        return None
    ranked = {
        led: sorted((piece for piece in takes if piece.led is led), key=lambda piece: (piece.weight, piece.place))
        for led in (False, True)
    }
    weights = {led: [piece.weight for piece in pieces] for led, pieces in ranked.items()}
    best: Exchange | None = None
    for give in gives:
        found: list[Piece | None] = [None] if terms.alone and give.led in terms.led_shifts else []
        for led, pieces in ranked.items():
            if give.led - led in terms.led_shifts:
                at = bisect_left(weights[led], give.weight - terms.difference // 2)
                found += pieces[max(0, at - 1) : at + 1]
        for take in found:
            exchange = _judged(give, take, terms)
            if exchange is not None and (best is None or _rank(exchange) < _rank(best)):
                best = exchange
    return best


def _judged(give: Piece, take: Piece | None, terms: Terms) -> Exchange | None:
    back = 0 if take is None else take.weight
    left = terms.difference - 2 * (give.weight - back)
    gain = terms.difference - abs(left)
    if 2 * gain < terms.bound or 2 * left < -terms.bound:
        return None
    if terms.copies:
        fits = give.weight <= terms.taker_room and back <= terms.giver_room
        if not fits or give.weight + back > COST_MAX * gain:
            return None
    return Exchange(give, take, left)


def _rank(exchange: Exchange) -> tuple[int, int]:
    return abs(exchange.left), exchange.gives.weight + (0 if exchange.takes is None else exchange.takes.weight)
