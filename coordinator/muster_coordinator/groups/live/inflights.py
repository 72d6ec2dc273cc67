"""In-flight appends of a group, and the requests that wait for them.

A record that changes a group's membership, or deletes offsets, is *exclusive*: further mutations of the group wait
behind it in order, so that each is judged against applied state. Commits are *shared*: no other request is judged by
their effect, and a commit that was judged before a membership record also precedes it in the log. A deletion must know
every offset of the group, so it waits until no commit is in flight; else it would write no tombstone for that commit,
and the offset would survive the deletion.

A `GroupQueue` exists only while its group has an append in flight or a request waiting.
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
    WriteMarker,
)


class Gate(IntEnum):
    """Which of its group's records must not be in flight when a request is handled."""

    NONE = 0
    """Any may be: the request reads current state."""
    SETTLED = 1
    """No membership record may be."""
    QUIET = 2
    """No record of the group may be."""


def gate_of(request: GroupRequest) -> Gate:
    """The gate of this kind of request."""
    if isinstance(request, Heartbeat | OffsetFetch | DescribeGroup | ListGroups | WriteMarker):
        return Gate.NONE
    if isinstance(request, OffsetDelete | DeleteGroup):
        return Gate.QUIET
    return Gate.SETTLED


class InFlightAppend(NamedTuple):
    """One proposed batch. Exactly one of the two callbacks is called, or neither when leadership ends first."""

    group: str
    exclusive: bool
    asked: tuple[tuple[int, GroupRequest], ...]
    """(ticket, request) pairs that only the end of this append answers; refused if leadership ends first."""
    on_applied: Callable[[Now], None]
    on_dropped: Callable[[Now, Code], None]


class Waiting(NamedTuple):
    """An entry of a group's queue: a client's request, or a background job's call (then `call` is set)."""

    gate: Gate
    ticket: int
    request: GroupRequest | None
    call: Callable[[Now], None] | None


class GroupQueue:
    """A group's in-flight appends and the requests waiting for them."""

    __slots__ = ("deferred", "exclusive", "group", "shared", "timer", "waiting")

    def __init__(self, group: str) -> None:
        self.group = group
        # Token of the exclusive append in flight, 0 for none; and the number of shared ones.
        self.exclusive = 0
        self.shared = 0
        self.waiting: deque[Waiting] = deque()
        self.deferred: list[Timer] = []
        """Timers that fired while an exclusive append was in flight; they are armed again after it."""
        self.timer = Timer(TimerKind.WAITING, group)

    def admits(self, gate: Gate) -> bool:
        """Whether the appends in flight let a request of this gate be handled now."""
        if gate is Gate.NONE:
            return True
        return not self.exclusive and (gate is Gate.SETTLED or not self.shared)

    def free(self) -> bool:
        """Whether nothing is in flight and nothing waits."""
        return not self.exclusive and not self.shared and not self.waiting
