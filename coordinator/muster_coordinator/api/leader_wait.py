"""Parks a request until partitions have leaders, or until its time is over.

Problem: a partition that was just created has no leader for some tens of milliseconds, hundreds of partitions for
longer. Not all clients ask again when they are told so: some believe it until their next refresh, minutes later.
Mechanism: a list of partitions is walked from its head. One with a leader is passed and not examined again, so the
whole wait costs one pass. At the first without one, it waits for the leader of that group; or polls, when the partition
is not known here yet or its leader is not reachable. What it does not do: elect leaders, or wait without a bound.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from muster_coordinator.api.cluster_view import ClusterView
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.replica.partitions.surface import Surface

LOOK_AGAIN_MS = 20
T = TypeVar("T")


class Standing(NamedTuple):
    """State of one partition."""

    settled: bool
    """Nothing to wait for: the partition has a leader that clients of this listener can reach, or it is deleted."""
    group: GroupNo | None
    """The Raft group whose leader to wait for; None: the partition is not known here yet."""


NOT_HERE_YET = Standing(False, None)
GONE = Standing(True, None)


class Grown(NamedTuple):
    """A partition that a change has created; it may not be applied here yet."""

    topic_id: bytes
    number: int


class LeaderWait(Generic[T]):
    """One wait. `done` gets the partitions that are still not settled at the end, in the normal case none."""

    __slots__ = ("_done", "_items", "_position", "_standing", "_surface", "_until_ms")

    def __init__(
        self,
        surface: Surface,
        items: Sequence[T],
        standing: Callable[[T], Standing],
        until_ms: int,
        done: Callable[[list[T]], None],
    ) -> None:
        self._surface = surface
        self._items = items
        self._standing = standing
        self._until_ms = until_ms
        self._done = done
        self._position = 0
        self._look()

    def _look(self) -> None:
        items = self._items
        standing = GONE
        while self._position < len(items):
            standing = self._standing(items[self._position])
            if not standing.settled:
                break
            self._position += 1
        left_ms = self._until_ms - self._surface.loop.monotonic_ms()
        if standing.settled or left_ms <= 0:
            self._done([item for item in items[self._position :] if not self._standing(item).settled])
        elif standing.group is None:
            self._later()
        else:
            self._surface.when_leader_known(standing.group, left_ms, self._heard)

    def _heard(self) -> None:
        """A leader is known. If it is still not reachable, no event will tell when it is: poll."""
        if self._standing(self._items[self._position]).settled:
            self._look()
        else:
            self._later()

    def _later(self) -> None:
        loop = self._surface.loop
        loop.call_at(min(loop.monotonic_ms() + LOOK_AGAIN_MS, self._until_ms), self._look)


def standing_of_group(surface: Surface, listener: str) -> Callable[[GroupNo], Standing]:
    """The state of partitions that are known here."""

    def standing(group: GroupNo) -> Standing:
        image = surface.image()
        settled = image is not None and ClusterView(surface, image, listener).leader(group).code is Code.NONE
        return Standing(settled, group)

    return standing


def standing_of_grown(surface: Surface, listener: str) -> Callable[[Grown], Standing]:
    """The state of partitions that the controller has created: this replica may apply that after the answer came."""
    of_group = standing_of_group(surface, listener)

    def standing(grown: Grown) -> Standing:
        image = surface.image()
        if image is None:
            return NOT_HERE_YET
        name = image.names_by_id.get(grown.topic_id)
        if name is None:
            return GONE if grown.topic_id in image.deleted_topic_ids else NOT_HERE_YET
        partitions = image.topics[name].partitions
        return of_group(partitions[grown.number].group) if grown.number < len(partitions) else NOT_HERE_YET

    return standing
