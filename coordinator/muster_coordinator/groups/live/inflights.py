"""Records on their way into the log, and who waits for them.

A record that changes a group's membership, or deletes, is *exclusive*: the group's further mutations wait behind it
in order, so each is judged against what was applied. Commits are *shared*: they never change what another request
is judged by, and a commit that was judged before a membership record also precedes it in the log. A deletion must
know every offset there is, so it waits until no commit is in flight (else its tombstones would miss one: a ghost
offset).

A `Queue` exists only while its group has something in flight or waiting.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.deadlines import Timer, TimerKind
from muster_coordinator.groups.requests import (
    DeleteGroup,
    DescribeGroup,
    GroupRequest,
    Heartbeat,
    ListGroups,
    OffsetDelete,
    OffsetFetch,
)


class Gate(IntEnum):
    """What must not be in flight when a request is judged."""

    NONE = 0
    """Read from current state."""
    SETTLED = 1
    """No membership record."""
    QUIET = 2
    """No record of the group at all."""


def gate_of(request: GroupRequest) -> Gate:
    """How long this kind of request has to wait for records of its group."""
    if isinstance(request, Heartbeat | OffsetFetch | DescribeGroup | ListGroups):
        return Gate.NONE
    if isinstance(request, OffsetDelete | DeleteGroup):
        return Gate.QUIET
    return Gate.SETTLED


class InFlightAppend(NamedTuple):
    """One proposed batch. Exactly one of the two calls is made, or neither when leadership ends first."""

    group: str
    exclusive: bool
    asked: tuple[tuple[int, GroupRequest], ...]
    """Requests that nobody else would answer if leadership ended."""
    on_applied: Callable[[Now], None]
    on_dropped: Callable[[Now, Code], None]


class Waiting(NamedTuple):
    """Somebody behind a group's record: a client's request, or a background job's turn (then `call` is set)."""

    gate: Gate
    ticket: int
    request: GroupRequest | None
    call: Callable[[Now], None] | None


class GroupQueue:
    """What one group has in flight."""

    __slots__ = ("deferred", "exclusive", "group", "shared", "timer", "waiting")

    def __init__(self, group: str) -> None:
        self.group = group
        self.exclusive = 0
        self.shared = 0
        self.waiting: deque[Waiting] = deque()
        self.deferred: list[Timer] = []
        """Timers that fired meanwhile; they are judged again when the record is settled."""
        self.timer = Timer(TimerKind.WAITING, group)

    def admits(self, gate: Gate) -> bool:
        """May a request be judged now, as far as records in flight go?"""
        if gate is Gate.NONE:
            return True
        return not self.exclusive and (gate is Gate.SETTLED or not self.shared)

    def free(self) -> bool:
        """Nothing in flight and nobody waiting."""
        return not self.exclusive and not self.shared and not self.waiting
