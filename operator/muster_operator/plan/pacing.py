"""Which clusters may start to roll to the operator's own image: a few at a time, in the order in which they asked.

Problem: a cluster whose spec sets no image follows the operator's. So an upgrade of the operator changes the image of
all of them at once, and a bad image would take a pod of each. Mechanism: a cluster waits for a turn; a turn ends when
its cluster has converged, and the next one starts after a delay. A cluster whose roll-out is halted keeps its turn, and
all others wait: that is the purpose. One that only waits for a lost volume gives its turn up: no image is the cause.

A roll-out that the cluster's own spec starts (another `image`, settings, a restart) is not paced if its pods already
run the wanted image: one tenant's mistake is no reason to delay another's.

Nothing outlives the process. The world shows whether a cluster's roll-out has begun (`begun`), and after a restart of
the operator no cluster begins before every cluster had a pass, so a crash in the middle neither starts a second
roll-out nor abandons the first.

Deliberately not here: holding back the StatefulSet's template. Pods that are lost while their cluster waits restart
with the new image.
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
    """Every pod has the wanted revision, but not all have been Ready for long enough, or they could not be observed."""
    UNFIT = "unfit"
    """It should roll to the operator's image, has not begun, and could not: it waits for a condition of its own."""
    TURN = "turn"
    """It should roll to the operator's image, and has not begun."""
    BEGUN = "begun"
    """Its roll-out to the operator's image is in progress."""


def need(world: ClusterWorld, settings: PlanSettings, step: Step) -> Need:
    """`step`: the next step if it were the cluster's turn (`rollout.next_step`)."""
    statefulset = world.statefulset
    if world.spec.image is not None or world.owner.paused or world.owner.deleting:
        return Need.NONE
    if not isinstance(statefulset, StatefulSetView):
        return Need.SETTLING if isinstance(statefulset, Unknown) else Need.NONE
    old = [pod for pod in statefulset.pods if outdated(statefulset, pod)]
    if not observed(statefulset) or not old:
        return Need.NONE if step.decision in (Reason.CONVERGED, Reason.VOLUME_LOST) else Need.SETTLING
    if step.decision == Reason.VOLUME_LOST:
        return Need.UNFIT
    if all(pod.image == settings.operator_image for pod in old):
        return Need.SETTLING
    if _begun(world, statefulset, old):
        return Need.BEGUN
    return Need.TURN if step.action is not None else Need.UNFIT


def _begun(world: ClusterWorld, statefulset: StatefulSetView, old: list[PodView]) -> bool:
    """Our own status says so, or a pod is being drained: the operator may have stopped before it wrote the status."""
    if (world.owner.status.get("rollout") or {}).get("toRevision") == statefulset.update_revision:
        return True
    views = [world.replicas.get(pod.name) for pod in old]
    return any(isinstance(view, ReplicaView) and view.drain_phase != IDLE for view in views)


class Turns:
    """Which clusters have a turn. Pure; times are of the monotonic clock."""

    def __init__(self, *, at_once: int, delay_ms: int) -> None:
        self._at_once, self._delay_ms = at_once, delay_ms
        self._holders: dict[Key, None] = {}
        self._looked: set[Key] = set()
        self._free_at_ms = 0

    def ask(self, key: Key, wanted: Need, *, known: Iterable[Key], now_ms: int) -> str | None:
        """Why the cluster of `key` must not begin now; None: it may. `known`: all existing clusters."""
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
            return f"{_name(unseen[0])} had no pass since the operator started"
        if len(self._holders) >= self._at_once:
            return f"{', '.join(map(_name, self._holders))} rolls out the operator's image first"
        if now_ms < self._free_at_ms:
            return f"the last cluster was finished less than {self._delay_ms // 1_000} s ago"
        self._holders[key] = None
        return None

    def looked(self, key: Key) -> None:
        """The cluster had its pass and will not roll: its spec is invalid, or another operator serves it."""
        self._looked.add(key)

    def forget(self, key: Key, now_ms: int) -> None:
        """The cluster does not exist any more."""
        self._looked.discard(key)
        self._release(key, now_ms)

    def _release(self, key: Key, now_ms: int) -> None:
        if key in self._holders:
            del self._holders[key]
            self._free_at_ms = now_ms + self._delay_ms


def _name(key: Key) -> str:
    """`namespace/name` of a CoordinatorCluster."""
    return f"{key[1]}/{key[2]}"
