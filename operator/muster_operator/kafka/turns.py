"""Which cluster is contacted next, over any number of Kafka clusters. Pure: neither clock nor threads.

Problem: a call holds a thread until the cluster answers or a time-out ends it. With few threads and one common queue, a
handful of hanging clusters would delay all others, and a request that only waited would look like one without an
answer.

Mechanism: clusters take turns in the order of their requests, with one call each before any gets a second one. Clusters
that are *unproven* (new, or without an answer the last time) never hold all threads. So a cluster that answers waits
only for others that answer, however many are dead.
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
    """`ask`, then `take` until it returns None, and `end` for each call that was taken."""

    def __init__(self, *, calls_max: int = KAFKA_CALLS_MAX, unproven_max: int = KAFKA_UNPROVEN_CALLS_MAX) -> None:
        assert 0 < unproven_max < calls_max
        self._calls_max = calls_max
        self._unproven_max = unproven_max
        self._waiting: dict[bool, dict[Key, _Line[Call]]] = {False: {}, True: {}}
        """By "the cluster is unproven"; within each, the next turn first. Invariant: a cluster is in one of the two
        only."""
        self._serial = 0
        self._running = 0
        self._unproven = 0

    def ask(self, key: Key, call: Call, *, proven: bool) -> None:
        """Queue `call` for the cluster `key`."""
        unproven = not proven
        if key in self._waiting[proven]:
            unproven = proven  # unchanged for a cluster that already waits
        if key not in self._waiting[unproven]:
            self._line_up(key, deque(), unproven)
        self._waiting[unproven][key].calls.append(call)

    def take(self) -> tuple[Call, bool] | None:
        """(the next call, whether its cluster was unproven, which `end` needs); None if no call may start now."""
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
            self._line_up(key, line.calls, unproven)  # behind all other clusters
        self._running += 1
        self._unproven += unproven
        return call, unproven

    def end(self, *, unproven: bool) -> None:
        """A call has ended, successfully or not."""
        self._running -= 1
        self._unproven -= unproven
        assert 0 <= self._unproven <= self._running

    @property
    def crowded(self) -> bool:
        """A new call to an unproven cluster would have to wait."""
        return len(self) > 0 or self._running >= self._calls_max or self._unproven >= self._unproven_max

    def __len__(self) -> int:
        """The number of waiting clusters."""
        return sum(len(keys) for keys in self._waiting.values())

    def _line_up(self, key: Key, calls: deque[Call], unproven: bool) -> None:
        self._serial += 1
        self._waiting[unproven][key] = _Line(serial=self._serial, calls=calls)
