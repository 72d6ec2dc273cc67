"""Waits for several answers without a scheduler: each part is told by index, the last one calls `done`."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Gather(Generic[T]):
    """Collects `count` results in order, then calls `done` with the list; at once when there is nothing to wait for."""

    __slots__ = ("_done", "_missing", "_results")

    def __init__(self, count: int, done: Callable[[list[T]], None]) -> None:
        self._results: list[T | None] = [None] * count
        self._missing = count
        self._done = done
        if count == 0:
            done([])

    def part(self, index: int) -> Callable[[T], None]:
        """The callback for one result; to be called once."""

        def arrived(result: T) -> None:
            assert self._results[index] is None, "a part arrives once"
            self._results[index] = result
            self._missing -= 1
            if self._missing == 0:
                self._done([r for r in self._results if r is not None])

        return arrived
