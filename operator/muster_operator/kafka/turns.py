"""Whose turn it is to be asked, over any number of Kafka clusters. Pure: neither clock nor threads.

A call takes a thread until the cluster answers or a time-out ends it. With few threads and a queue in front of them, a
handful of clusters that hang delay all others, and a question that only waited is taken for one that nobody answered.
So clusters take turns: each in the order in which it asked, one call for each before anybody has a second one, and
those of which it is not known that they answer (new, or silent when last asked) never hold all places. A cluster that
answers therefore waits only for others that answer, however many are dead.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from muster_operator.limits import KAFKA_CALLS_MAX, KAFKA_UNPROVEN_CALLS_MAX

Key = TypeVar("Key", bound=Hashable)
Call = TypeVar("Call")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line(Generic[Call]):
    serial: int
    calls: deque[Call]


class Turns(Generic[Key, Call]):
    """`ask`, `take` until it answers None, and `end` for each that was taken."""

    def __init__(self, *, calls_max: int = KAFKA_CALLS_MAX, unproven_max: int = KAFKA_UNPROVEN_CALLS_MAX) -> None:
        assert 0 < unproven_max < calls_max
        self._calls_max = calls_max
        self._unproven_max = unproven_max
        self._waiting: dict[bool, dict[Key, _Line[Call]]] = {False: {}, True: {}}
        """By whether the cluster is unproven; first of each: whose turn is next. A cluster is in one of them."""
        self._serial = 0
        self._running = 0
        self._unproven = 0

    def ask(self, key: Key, call: Call, *, proven: bool) -> None:
        """`call` to `key` wants a turn."""
        unproven = not proven
        if key in self._waiting[proven]:
            unproven = proven  # as it was when it got in line
        if key not in self._waiting[unproven]:
            self._line_up(key, deque(), unproven)
        self._waiting[unproven][key].calls.append(call)

    def take(self) -> tuple[Call, bool] | None:
        """(the call whose turn it is, whether its cluster was unproven: for `end`); None while nobody may call."""
        if self._running >= self._calls_max:
            return None
        heads = {unproven: next(iter(keys.items())) for unproven, keys in self._waiting.items() if keys}
        if self._unproven >= self._unproven_max:
            heads.pop(True, None)
        if not heads:
            return None
        unproven = min(heads, key=lambda one: heads[one][1].serial)
        key, line = heads[unproven]
        del self._waiting[unproven][key]
        call = line.calls.popleft()
        if line.calls:
            self._line_up(key, line.calls, unproven)  # behind everybody else
        self._running += 1
        self._unproven += unproven
        return call, unproven

    def end(self, *, unproven: bool) -> None:
        """A call is over, well or not."""
        self._running -= 1
        self._unproven -= unproven
        assert 0 <= self._unproven <= self._running

    @property
    def crowded(self) -> bool:
        """An unproven cluster that asked now would have to wait."""
        return len(self) > 0 or self._running >= self._calls_max or self._unproven >= self._unproven_max

    def __len__(self) -> int:
        """Clusters that wait."""
        return sum(len(keys) for keys in self._waiting.values())

    def _line_up(self, key: Key, calls: deque[Call], unproven: bool) -> None:
        self._serial += 1
        self._waiting[unproven][key] = _Line(serial=self._serial, calls=calls)
