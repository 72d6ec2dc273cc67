"""Parts of one request: each is begun once, few at a time, and the results come in order."""

from collections.abc import Callable
from random import Random

import pytest
from muster_coordinator.api.gather import gather_few

Arrived = Callable[[int], None]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 50])
@pytest.mark.parametrize("at_once", [1, 4])
def test_few_parts_are_unfinished_at_a_time(count: int, at_once: int) -> None:
    rand, unfinished, begun, done = Random(count), {}, [], []

    def begin(index: int, arrived: Arrived) -> None:
        begun.append(index)
        unfinished[index] = arrived
        assert len(unfinished) <= at_once

    gather_few(count, begin, done.append, at_once=at_once)
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

    gather_few(10_000, begin, done.append, at_once=7)
    while later:
        later.pop()()
    assert done == [list(range(10_000))]
