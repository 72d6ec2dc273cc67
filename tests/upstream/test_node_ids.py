"""Ids of an upstream's brokers: what a configuration may say, and which replica stands for which broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.upstream.limits import NODES_MAX
from muster_coordinator.upstream.node_ids import home, parse_node_ids


def test_ranges_and_single_ids_keep_their_order() -> None:
    ids = parse_node_ids(" 3-5, 1001 ,0")
    assert ids.ids == (3, 4, 5, 1001, 0)
    assert [ids.place(node) for node in (3, 5, 1001, 0)] == [0, 2, 3, 4]
    assert [ids.place(node) for node in (2, 6, -1, 1002)] == [None] * 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no id"),
        (" , ", "no id"),
        ("a", "neither"),
        ("1-", "neither"),
        ("-1", "neither"),
        ("1-2-3", "neither"),
        ("5-3", "ends before it begins"),
        ("1,1", "twice"),
        ("0-3,2", "twice"),
        ("2147483648", "neither"),
        ("٣", "neither"),
        (f"0-{NODES_MAX}", f"more than {NODES_MAX}"),
        (f"0-{NODES_MAX - 1},{NODES_MAX}", f"more than {NODES_MAX}"),
        ("0-2147483647", f"more than {NODES_MAX}"),
    ],
)
def test_what_is_no_list_of_ids_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_node_ids(text)


def test_the_most_ids_and_the_greatest_one() -> None:
    assert len(parse_node_ids(f"0-{NODES_MAX - 1}").ids) == NODES_MAX
    assert parse_node_ids("2147483647").place(2147483647) == 0


@given(st.sets(st.integers(0, 60), min_size=1, max_size=7), st.data())
def test_a_death_moves_the_brokers_of_the_dead_one_only(replicas: set[int], data: st.DataObject) -> None:
    ordered = tuple(sorted(replicas))
    alive = frozenset(data.draw(st.sets(st.sampled_from(ordered), min_size=1)))
    dead = data.draw(st.sampled_from(sorted(alive)))
    places = range(3 * len(ordered))
    before = [home(ordered, alive, place) for place in places]
    after = [home(ordered, alive - {dead}, place) for place in places]
    for one, other in zip(before, after, strict=True):
        assert one in alive
        assert other == one or (one == dead and (other in alive - {dead} or alive == {dead}))


@given(st.sets(st.integers(0, 60), min_size=1, max_size=7), st.integers(1, 5))
def test_brokers_are_level_over_replicas_that_live(replicas: set[int], times: int) -> None:
    ordered = tuple(sorted(replicas))
    homes = [home(ordered, frozenset(ordered), place) for place in range(times * len(ordered))]
    assert {homes.count(replica) for replica in ordered} == {times}


def test_nobody_alive_is_nobody() -> None:
    assert home((1, 2), frozenset(), 0) is None
    assert home((), frozenset(), 0) is None
