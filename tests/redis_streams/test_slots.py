"""Which node has a slot: lists as Redis 7.0 answers CLUSTER SLOTS, and what single nodes have said since."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from muster_coordinator.redis_streams.slots import SLOTS, SlotRange, Slots, ranges_of

ASKED = ("10.0.0.9", 7000)
A, B = ("10.0.0.1", 7001), ("10.0.0.2", 7002)


def node(host: bytes | None, port: int) -> list[Any]:
    return [host, port, b"0123456789", []]


def test_a_list_tells_ranges_and_their_primaries() -> None:
    answer = [[0, 5460, node(b"10.0.0.1", 7001), node(b"10.0.0.7", 7007)], [5461, 16383, node(b"10.0.0.2", 7002)]]
    slots = Slots(ranges_of(answer, ASKED))
    assert [slots.of(slot) for slot in (0, 5460, 5461, 16383)] == [A, A, B, B]
    assert list(slots.primaries()) == [A, B]


def test_of_a_node_without_a_known_name_its_address_counts() -> None:
    unknown = [b"?", 7001, b"0123456789", [b"ip", b"10.0.0.1", b"shard-id", b"x"]]
    assert ranges_of([[1, 1, unknown]], ASKED) == [SlotRange(1, 1, A)]


@pytest.mark.parametrize("unnamed", [b"", None])
def test_a_node_without_a_name_is_where_it_was_asked(unnamed: bytes | None) -> None:
    assert ranges_of([[1, 1, node(unnamed, 7001)]], ASKED) == [SlotRange(1, 1, ("10.0.0.9", 7001))]


def test_what_a_node_says_of_a_slot_holds_until_the_next_list() -> None:
    slots = Slots([SlotRange(0, 99, A)])
    slots.moved(7, B)
    assert [slots.of(slot) for slot in (6, 7, 8, 100)] == [A, B, A, None]
    assert list(slots.primaries()) == [A, B]
    slots.moved(16_384, B)
    slots.moved(-1, B)
    assert (slots.of(16_384), slots.of(-1)) == (None, None)


def test_each_slot_of_a_list_in_any_order_is_its_ranges() -> None:
    """Against a list that is gone through from its beginning, over as many ranges as there can be."""
    rand = Random(7)
    edges = sorted(rand.sample(range(SLOTS), 400))
    ranges = [
        SlotRange(low, rand.randrange(low, high), (f"n{low}", 1))
        for low, high in pairwise(edges)
        if rand.random() < 0.9
    ]
    slots = Slots(rand.sample(ranges, len(ranges)))
    for slot in range(SLOTS):
        assert slots.of(slot) == next((one.primary for one in ranges if one.first <= slot <= one.last), None)


def test_nobody_has_a_slot_of_a_cluster_that_is_not_formed() -> None:
    assert ranges_of([], ASKED) == []
    assert (Slots().of(0), list(Slots().primaries())) == (None, [])


@pytest.mark.parametrize(
    "broken",
    [
        [[0, 16_384, node(b"a", 1)]],
        [[-1, 3, node(b"a", 1)]],
        [[4, 3, node(b"a", 1)]],
        [[0, 3, node(b"a", 0)]],
        [[0, 3, node(b"a", 65_536)]],
        [[0, 3, node(b"\xff", 1)]],
        [[0, 3, node(b"?", 1)]],
        [[0, 3, [b"?", 1, b"0123456789", [b"ip"]]]],
        [[0, 3, node(b"a/b", 1)]],
        [[0, 3, node(b"user@a", 1)]],
        [[0, 3, node(b"a" * 256, 1)]],
        [[0, 3, [2**40, 1]]],
        [[0, 3, []]],
        [[0, 3]],
        [[b"x", 3, node(b"a", 1)]],
        [7],
    ],
)
def test_what_is_no_list_is_told_as_one_error(broken: list[Any]) -> None:
    with pytest.raises(ValueError, match="CLUSTER SLOTS"):
        ranges_of(broken, ASKED)
