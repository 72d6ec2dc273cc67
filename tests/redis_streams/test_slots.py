"""Which node has a slot: lists as Redis 7.0 answers CLUSTER SLOTS, and what single nodes have said since."""

from typing import Any

import pytest
from muster_coordinator.redis_streams.slots import SlotRange, Slots, ranges_of

ASKED = ("10.0.0.9", 7000)
A, B = ("10.0.0.1", 7001), ("10.0.0.2", 7002)


def node(host: bytes | None, port: int) -> list[Any]:
    return [host, port, b"0123456789", []]


def test_a_list_tells_ranges_and_their_primaries() -> None:
    answer = [[0, 5460, node(b"10.0.0.1", 7001), node(b"10.0.0.7", 7007)], [5461, 16383, node(b"10.0.0.2", 7002)]]
    slots = Slots(ranges_of(answer, ASKED))
    assert [slots.of(slot) for slot in (0, 5460, 5461, 16383)] == [A, A, B, B]
    assert slots.primaries() == [A, B]


@pytest.mark.parametrize("unnamed", [b"", None])
def test_a_node_without_a_name_is_where_it_was_asked(unnamed: bytes | None) -> None:
    assert ranges_of([[1, 1, node(unnamed, 7001)]], ASKED) == [SlotRange(1, 1, ("10.0.0.9", 7001))]


def test_what_a_node_says_of_a_slot_holds_until_the_next_list() -> None:
    slots = Slots([SlotRange(0, 99, A)])
    slots.moved(7, B)
    assert [slots.of(slot) for slot in (6, 7, 8, 100)] == [A, B, A, None]
    assert slots.primaries() == [A, B]
    slots.moved(16_384, B)
    slots.moved(-1, B)
    assert (slots.of(16_384), slots.of(-1)) == (None, None)


def test_nobody_has_a_slot_of_a_cluster_that_is_not_formed() -> None:
    assert ranges_of([], ASKED) == []
    assert (Slots().of(0), Slots().primaries()) == (None, [])


@pytest.mark.parametrize(
    "broken",
    [
        [[0, 16_384, node(b"a", 1)]],
        [[-1, 3, node(b"a", 1)]],
        [[4, 3, node(b"a", 1)]],
        [[0, 3, node(b"a", 0)]],
        [[0, 3, node(b"a", 65_536)]],
        [[0, 3, node(b"\xff", 1)]],
        [[0, 3, []]],
        [[0, 3]],
        [[b"x", 3, node(b"a", 1)]],
        [7],
    ],
)
def test_what_is_no_list_is_told_as_one_error(broken: list[Any]) -> None:
    with pytest.raises(ValueError, match="CLUSTER SLOTS"):
        ranges_of(broken, ASKED)
