"""Parts of one request: each is begun once, few at a time, and the results come in order."""

from collections.abc import Callable
from random import Random

import pytest
from muster_coordinator.api.gather import gather_few
from muster_coordinator.api.limits import PARTS_IN_A_TURN_MAX

from tests.api.fake_surface import FakeLoop

Arrived = Callable[[int], None]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 50])
@pytest.mark.parametrize("at_once", [1, 4])
def test_few_parts_are_unfinished_at_a_time(count: int, at_once: int) -> None:
    rand, unfinished, begun, done = Random(count), {}, [], []

    def begin(index: int, arrived: Arrived) -> None:
        begun.append(index)
        unfinished[index] = arrived
        assert len(unfinished) <= at_once

    gather_few(FakeLoop(), count, begin, done.append, at_once=at_once)
    while unfinished:
        assert not done
        index = rand.choice(sorted(unfinished))
        unfinished.pop(index)(index * 10)
    assert done == [[index * 10 for index in range(count)]]
    assert begun == list(range(count))


def test_parts_that_are_answered_at_once_need_no_stack() -> None:
    """10,000 of them, each from within the call that begins it, and every third later."""
    later: list[Callable[[], None]] = []
    done: list[list[int]] = []

    def begin(index: int, arrived: Arrived) -> None:
        if index % 3:
            arrived(index)
        else:
            later.append(lambda: arrived(index))

    loop = FakeLoop()
    gather_few(loop, 10_000, begin, done.append, at_once=7)
    while later:
        later.pop()()
        loop.run()
    assert done == [list(range(10_000))]


def test_parts_that_are_answered_at_once_leave_the_loop_its_turns() -> None:
    """The next thousand is begun by the next turn; a late answer in between begins none earlier."""
    loop, begun, late, done = FakeLoop(), [], [], []

    def begin(index: int, arrived: Arrived) -> None:
        begun.append(index)
        if index:
            arrived(index)
        else:
            late.append(arrived)

    gather_few(loop, 2 * PARTS_IN_A_TURN_MAX + 1, begin, done.append)
    turns = [len(begun)]
    late.pop()(0)
    assert len(begun) == turns[0]
    while loop.pending:
        loop.step()
        turns.append(len(begun))
    assert turns == [PARTS_IN_A_TURN_MAX, 2 * PARTS_IN_A_TURN_MAX, 2 * PARTS_IN_A_TURN_MAX + 1]
    assert done == [list(range(2 * PARTS_IN_A_TURN_MAX + 1))]
