"""Waits for several answers by counting callbacks: each part arrives by its index, the last one calls `done`.

With `Gather` the caller begins all parts. `gather_few` begins them itself, for requests that may have any number of
parts, each of which is a task with memory of its own. The number of unfinished parts is bounded, so that they take
little memory together, and so is the number begun in one turn of the loop, so that a large request does not delay
heartbeats: 160,000 unknown groups took 1.2 s of one turn. `in_turns` is for parts that never wait. What this does not
do: encode the answer in slices.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from muster_coordinator.api.limits import HASHED_CHARS_IN_A_TURN_MAX, PARTS_AT_ONCE_MAX, PARTS_IN_A_TURN_MAX
from muster_coordinator.ports import Loop

T = TypeVar("T")


class Gather(Generic[T]):
    """Collects `count` results in order, then calls `done` with the list; at once when `count` is 0."""

    __slots__ = ("_done", "_missing", "_results")

    def __init__(self, count: int, done: Callable[[list[T]], None]) -> None:
        self._results: list[T | None] = [None] * count
        self._missing = count
        self._done = done
        if count == 0:
            done([])

    def part(self, index: int) -> Callable[[T], None]:
        """The callback for one result; must be called once."""

        def arrived(result: T) -> None:
            assert self._results[index] is None, "a part arrives once"
            self._results[index] = result
            self._missing -= 1
            if self._missing == 0:
                self._done([r for r in self._results if r is not None])

        return arrived


class _Few(Generic[T]):
    """State of one `gather_few`."""

    __slots__ = ("_at_once", "_begin", "_beginning", "_count", "_gather", "_loop", "_next", "_paused", "_unfinished")

    def __init__(
        self,
        loop: Loop,
        count: int,
        begin: Callable[[int, Callable[[T], None]], None],
        done: Callable[[list[T]], None],
        at_once: int,
    ) -> None:
        self._loop = loop
        self._begin = begin
        self._at_once = at_once
        self._count = count
        self._next = 0
        self._unfinished = 0
        self._beginning = False
        self._paused = False
        """Whether `_resume` is queued for the next turn."""
        self._gather: Gather[T] = Gather(count, done)

    def go_on(self) -> None:
        # A part that is answered at once calls `finished` from within this loop, which then continues by itself.
        self._beginning = True
        last = min(self._count, self._next + PARTS_IN_A_TURN_MAX)
        while self._next < last and self._unfinished < self._at_once:
            index = self._next
            self._next += 1
            self._unfinished += 1
            self._begin(index, self._finish(self._gather.part(index)))
        self._beginning = False
        if self._next == last < self._count:
            self._paused = True
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._paused = False
        self.go_on()

    def _finish(self, part: Callable[[T], None]) -> Callable[[T], None]:
        def finished(result: T) -> None:
            self._unfinished -= 1
            part(result)
            if not self._beginning and not self._paused:
                self.go_on()

        return finished


def gather_few(
    loop: Loop,
    count: int,
    begin: Callable[[int, Callable[[T], None]], None],
    done: Callable[[list[T]], None],
    *,
    at_once: int = PARTS_AT_ONCE_MAX,
) -> None:
    """Call `begin(index, arrived)` for each of `count` parts, with at most `at_once` of them unanswered at a time; then
    `done` with the results in order. At most `limits.PARTS_IN_A_TURN_MAX` are begun in one turn of the loop."""
    _Few(loop, count, begin, done, at_once).go_on()


def gather_in_turns(
    loop: Loop, count: int, begin: Callable[[int, Callable[[T], None]], None], done: Callable[[list[T]], None]
) -> None:
    """As `gather_few`, but any number may be unanswered: for parts that wait for different things, up to a deadline."""
    gather_few(loop, count, begin, done, at_once=count)


class _Turns:
    """State of one `in_turns`. It refers to no function that refers to it: what is answered is forgotten at once."""

    __slots__ = ("_count", "_done", "_loop", "_next", "_step")

    def __init__(self, loop: Loop, count: int, step: Callable[[int], int], done: Callable[[], None]) -> None:
        self._loop = loop
        self._count = count
        self._step = step
        self._done = done
        self._next = 0

    def go_on(self) -> None:
        hashed = 0
        last = min(self._count, self._next + PARTS_IN_A_TURN_MAX)
        while self._next < last and hashed < HASHED_CHARS_IN_A_TURN_MAX:
            index = self._next
            self._next += 1
            hashed += self._step(index)
        if self._next < self._count:
            self._loop.call_soon(self.go_on)
        else:
            self._done()


def in_turns(loop: Loop, count: int, step: Callable[[int], int], done: Callable[[], None]) -> None:
    """Call `step(index)` for each of `count` parts, then `done`. A turn of the loop ends after
    `limits.PARTS_IN_A_TURN_MAX` of them, or when the numbers of hashed characters that they return reach
    `limits.HASHED_CHARS_IN_A_TURN_MAX`. What fits in one turn is done before this returns."""
    _Turns(loop, count, step, done).go_on()
