"""A pause holds a roll-out in progress, where Kubernetes' own controller carries it out.

Only the operator replaces a CoordinatorCluster's pods (OnDelete), so a paused plan without actions stops there. The
StatefulSet controller replaces a ConsumerGroup's pods, from the highest ordinal down to
`updateStrategy.rollingUpdate.partition`. A pause moves that partition to the position of the roll-out: above the
highest pod that still has the old revision. Replaced pods keep the new revision, and a terminating pod comes back with
it; every other pod keeps the old revision, also if it is lost meanwhile. A resume restores the partition that was set
before (annotation `muster.dev/held-partition`).

While the controller has not observed the newest template, it is unknown which pods are outdated: then all are held, and
the partition moves down to the right position afterwards.

It does nothing if no pod is outdated, and nothing to a workload in `workloadRef`.
"""

from muster_operator.plan.actions import HoldRollout
from muster_operator.plan.pods import observed, outdated
from muster_operator.world.group import GroupWorld
from muster_operator.world.views import StatefulSetView


def rollout_hold(world: GroupWorld, *, paused: bool) -> HoldRollout | None:
    """The action on the partition now; None: it has the right value."""
    statefulset = world.statefulset
    if world.spec.template is None or not isinstance(statefulset, StatefulSetView):
        return None
    before = statefulset.partition_before
    if not paused:
        return None if before is None else _moved(statefulset, before, None)
    if not statefulset.rolls:
        return None  # a user chose OnDelete; the API server would refuse a partition
    if not observed(statefulset):
        return None if before is not None else _held(statefulset, statefulset.replicas)
    return _held(statefulset, _point(statefulset))


def held_at(world: GroupWorld) -> int | None:
    """The ordinal below which a pause keeps the pods unchanged; None: nothing is held."""
    statefulset = world.statefulset
    if not isinstance(statefulset, StatefulSetView) or statefulset.partition_before is None:
        return None
    return statefulset.partition


def _point(statefulset: StatefulSetView) -> int:
    """One above the highest pod that would still be replaced; 0: there is none."""
    waiting = [pod.ordinal for pod in statefulset.pods if outdated(statefulset, pod) and not pod.terminating]
    return max(waiting) + 1 if waiting else 0


def _held(statefulset: StatefulSetView, partition: int) -> HoldRollout | None:
    """Never below the partition from before the pause, which a user may have set."""
    before = statefulset.partition_before
    least = statefulset.partition if before is None else before
    wanted = max(partition, least)
    return None if wanted == statefulset.partition else _moved(statefulset, wanted, least)


def _moved(statefulset: StatefulSetView, partition: int, before: int | None) -> HoldRollout:
    return HoldRollout(name=statefulset.name, uid=statefulset.uid, partition=partition, before=before)
