"""The search of one FindCoordinator: which offsets partition each key belongs to, and who leads these partitions.

Problem: one request of 1 MB may have 180,000 keys. Mechanism: the keys are hashed in slices (`gather.in_turns`). There
are only as many answers as offsets partitions, so each is looked up once, when the first of its keys is hashed, and
waited for once; all waits end at the same time, counted from the request. What this does not do: notice that a group is
moved to another partition while its answer waits.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.cluster_view import ClusterView, offsets_group, offsets_partition
from muster_coordinator.api.gather import in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import COORDINATOR_LOOKUP_WAIT_MS

_LOOK_AGAIN_MS = 20
_DENIED, _UNFORMED = -1, -2
"""Instead of a key's partition: the caller may not see the group; the cluster is not formed yet."""


class Found(NamedTuple):
    """The answer for one key."""

    code: Code
    node_id: int = -1
    host: str = ""
    port: int = -1


_NOT_AVAILABLE = Found(Code.COORDINATOR_NOT_AVAILABLE)


class Keys(NamedTuple):
    """Of what the keys are names: of consumer groups, or of transactions."""

    may: Callable[[Services, RequestContext, str], bool]
    """Whether the client may know of this one."""
    partition: Callable[[ClusterImage, str], int]
    group: Callable[[ClusterImage, int], GroupNo]
    """Raft group of a partition."""
    denied: Code


GROUPS = Keys(
    may=lambda services, context, key: services.may_group(context, Operation.DESCRIBE, key),
    partition=offsets_partition,
    group=lambda _image, partition: offsets_group(partition),
    denied=Code.GROUP_AUTHORIZATION_FAILED,
)


class CoordinatorSearch:
    """Calls `done` once, with the answers in the order of the keys."""

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        keys: Sequence[str],
        done: Callable[[list[Found]], None],
        of: Keys = GROUPS,
    ) -> None:
        self._of = of
        self._services = services
        self._context = context
        self._keys = keys
        self._done = done
        self._until_ms = 0
        self._places: list[int] = []
        """The partition of each key that was hashed, or why it has none."""
        self._found: dict[int, Found] = {_DENIED: Found(of.denied), _UNFORMED: _NOT_AVAILABLE}
        """By partition; what was found last."""
        self._unled = 0
        """Number of partitions whose leader is waited for."""
        self._placed = False
        """Whether all keys are."""

    def begin(self) -> None:
        """To be called once. The waits are counted from here."""
        self._until_ms = self._services.surface.loop.monotonic_ms() + COORDINATOR_LOOKUP_WAIT_MS
        in_turns(self._services.surface.loop, len(self._keys), self._place, self._all_placed)

    def _place(self, index: int) -> int:
        if not self._of.may(self._services, self._context, self._keys[index]):
            self._places.append(_DENIED)
            return 0
        self._places.append(_UNFORMED)
        return self._hash(index, wait=True)

    def _all_placed(self) -> None:
        loop = self._services.surface.loop
        if _UNFORMED not in self._places:
            self._hashed()
        else:
            loop.call_at(self._until_ms, lambda: in_turns(loop, len(self._keys), self._place_late, self._hashed))

    def _place_late(self, index: int) -> int:
        """The cluster was not formed; now its time is over, and it may be formed."""
        return self._hash(index, wait=False) if self._places[index] == _UNFORMED else 0

    def _hashed(self) -> None:
        self._placed = True
        self._answer()

    def _hash(self, index: int, *, wait: bool) -> int:
        """Returns the number of hashed characters."""
        image = self._services.surface.image()
        if image is None:
            return 0
        partition = self._of.partition(image, self._keys[index])
        self._places[index] = partition
        if partition not in self._found:
            found = self._found[partition] = self._now(partition)
            if wait and found.code is not Code.NONE:
                self._unled += 1
                self._wait(partition)
        return len(self._keys[index])

    def _wait(self, partition: int) -> None:
        """Wait until the leader is known *and alive*: a crashed one is still known until its link is given up."""
        surface = self._services.surface

        def known() -> None:
            found = self._found[partition] = self._now(partition)
            now_ms = surface.loop.monotonic_ms()
            if found.code is Code.NONE or now_ms >= self._until_ms:
                self._unled -= 1
                self._answer()
            else:
                again_ms = min(now_ms + _LOOK_AGAIN_MS, self._until_ms)
                surface.loop.call_at(again_ms, lambda: self._wait(partition))

        wait_ms = max(0, self._until_ms - surface.loop.monotonic_ms())
        image = surface.image()
        if image is None:
            surface.loop.call_at(self._until_ms, known)
            return
        surface.when_leader_known(self._of.group(image, partition), wait_ms, known)

    def _now(self, partition: int) -> Found:
        surface = self._services.surface
        image = surface.image()
        if image is None:
            return _NOT_AVAILABLE
        node = ClusterView(surface, image, self._context.listener).leader(self._of.group(image, partition)).node
        return _NOT_AVAILABLE if node is None else Found(Code.NONE, node.node_id, node.host, node.port)

    def _answer(self) -> None:
        if self._placed and not self._unled:
            self._done([self._found[place] for place in self._places])
