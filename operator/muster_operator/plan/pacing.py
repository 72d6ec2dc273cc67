"""Which clusters may begin to roll to the operator's own image: a few at a time, in the order in which they asked.

A cluster whose spec names no image follows the operator's. So an upgrade of the operator gives all of them another one
in the same moment, and a bad image would take a pod of each. Here they wait for a turn; a turn ends when its cluster
has converged, and the next is given after a delay. A cluster whose roll-out is halted keeps its turn, and with it
everybody else waits: that is the purpose.

What a cluster's own spec starts (another `image`, settings, a restart) is not paced when its pods run the wanted image
already: one tenant's mistake is no reason to hold up another's.

There is no memory beyond the process. Whether a cluster is under way is seen in it (`begun`), and after a start nobody
begins before every cluster was looked at, so a crash in the middle neither begins a second one nor leaves the first.

Deliberately not here: holding back the StatefulSet's template. Pods that go away by themselves while their cluster
waits come back with the new image.
"""

from collections.abc import Iterable
from enum import StrEnum

from muster_operator.api.conditions import Reason
from muster_operator.plan.pods import observed, outdated
from muster_operator.plan.rollout import IDLE, Step
from muster_operator.plan.settings import PlanSettings
from muster_operator.world.cluster import ClusterWorld, ReplicaView
from muster_operator.world.views import PodView, StatefulSetView, Unknown

Key = tuple[str, str, str]


class Need(StrEnum):
    NONE = "none"
    """It has converged, or is not paced at all."""
    SETTLING = "settling"
    """Every pod is of the wanted revision, but not all of them have been Ready for long enough; or not to be seen."""
    UNFIT = "unfit"
    """It would roll to the operator's image, has not begun, and could not: it waits for something of its own."""
    TURN = "turn"
    """It would roll to the operator's image, and has not begun."""
    BEGUN = "begun"
    """It is under way to the operator's image."""


def need(world: ClusterWorld, settings: PlanSettings, step: Step) -> Need:
    """`step`: the next one if it is the cluster's turn (`rollout.next_step`)."""
    statefulset = world.statefulset
    if world.spec.image is not None or world.owner.paused or world.owner.deleting:
        return Need.NONE
    if not isinstance(statefulset, StatefulSetView):
        return Need.SETTLING if isinstance(statefulset, Unknown) else Need.NONE
    old = [pod for pod in statefulset.pods if outdated(statefulset, pod)]
    if not observed(statefulset) or not old:
        return Need.NONE if step.decision == Reason.CONVERGED else Need.SETTLING
    if all(pod.image == settings.operator_image for pod in old):
        return Need.SETTLING
    if _begun(world, statefulset, old):
        return Need.BEGUN
    return Need.TURN if step.action is not None else Need.UNFIT


def _begun(world: ClusterWorld, statefulset: StatefulSetView, old: list[PodView]) -> bool:
    """Our own status says so, or a pod is being drained: we may have ended before it was written."""
    if (world.owner.status.get("rollout") or {}).get("toRevision") == statefulset.update_revision:
        return True
    views = [world.replicas.get(pod.name) for pod in old]
    return any(isinstance(view, ReplicaView) and view.drain_phase != IDLE for view in views)


class Turns:
    """Who has a turn. Values in, a sentence out; times are the monotonic clock's."""

    def __init__(self, *, at_once: int, delay_ms: int) -> None:
        self._at_once, self._delay_ms = at_once, delay_ms
        self._holders: dict[Key, None] = {}
        self._looked: set[Key] = set()
        self._free_at_ms = 0

    def ask(self, key: Key, wanted: Need, *, known: Iterable[Key], now_ms: int) -> str | None:
        """Why the cluster of `key` must not begin now; None: it may. `known`: all clusters that there are."""
        self._looked.add(key)
        if wanted is Need.NONE:
            self._release(key, now_ms)
            return None
        if wanted is Need.BEGUN:
            self._holders[key] = None
        if wanted is Need.UNFIT:
            self._holders.pop(key, None)
            return "it must be healthy before it can begin"
        if wanted is not Need.TURN or key in self._holders:
            return None
        unseen = sorted(set(known) - self._looked)
        if unseen:
            return f"{_name(unseen[0])} has not been looked at since the operator started"
        if len(self._holders) >= self._at_once:
            return f"{', '.join(map(_name, self._holders))} is being brought to the operator's image first"
        if now_ms < self._free_at_ms:
            return f"the last cluster was finished less than {self._delay_ms // 1_000} s ago"
        self._holders[key] = None
        return None

    def looked(self, key: Key) -> None:
        """It was looked at, and there is nothing to roll: its spec is invalid, or another operator's it is."""
        self._looked.add(key)

    def forget(self, key: Key, now_ms: int) -> None:
        """It does not exist any more."""
        self._looked.discard(key)
        self._release(key, now_ms)

    def _release(self, key: Key, now_ms: int) -> None:
        if key in self._holders:
            del self._holders[key]
            self._free_at_ms = now_ms + self._delay_ms


def _name(key: Key) -> str:
    """`namespace/name` of a CoordinatorCluster."""
    return f"{key[1]}/{key[2]}"
