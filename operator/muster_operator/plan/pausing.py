"""A pause holds a roll-out that is under way, where Kubernetes' own controller carries it out.

A CoordinatorCluster's pods are replaced by the operator alone (OnDelete), so a pause that plans no action stops there.
A ConsumerGroup's are replaced by the StatefulSet controller, from the highest ordinal down to
`updateStrategy.rollingUpdate.partition`. A pause moves that partition to where the roll-out is: above the highest pod
that still has the old revision. What was replaced stays, and a pod that is being stopped comes back with the new
revision; every other one keeps the old revision, also when it dies meanwhile. Whoever resumes gets the partition back
that was there before (annotation `muster.dev/held-partition`).

As long as the controller has not seen the newest template nobody knows which pods are outdated: then everything is
held, and the partition comes down to the right place once it has.

It does nothing where no pod is outdated, and nothing to a workload that somebody else made.
"""

from muster_operator.plan.actions import HoldRollout
from muster_operator.plan.pods import observed, outdated
from muster_operator.world.group import GroupWorld
from muster_operator.world.views import StatefulSetView


def rollout_hold(world: GroupWorld, *, paused: bool) -> HoldRollout | None:
    """What to do about the partition now; None: it is where it should be."""
    statefulset = world.statefulset
    if world.spec.template is None or not isinstance(statefulset, StatefulSetView):
        return None
    before = statefulset.partition_before
    if not paused:
        return None if before is None else _moved(statefulset, before, None)
    if not statefulset.rolls:
        return None  # somebody made it so; the API server would refuse a partition
    if not observed(statefulset):
        return None if before is not None else _held(statefulset, statefulset.replicas)
    return _held(statefulset, _point(statefulset))


def held_at(world: GroupWorld) -> int | None:
    """The ordinal below which a pause keeps the pods as they are; None: it holds nothing."""
    statefulset = world.statefulset
    if not isinstance(statefulset, StatefulSetView) or statefulset.partition_before is None:
        return None
    return statefulset.partition


def _point(statefulset: StatefulSetView) -> int:
    """Above the highest pod that would still be replaced; 0: there is none."""
    waiting = [pod.ordinal for pod in statefulset.pods if outdated(statefulset, pod) and not pod.terminating]
    return max(waiting) + 1 if waiting else 0


def _held(statefulset: StatefulSetView, partition: int) -> HoldRollout | None:
    """Never below what was there before the pause: that was somebody's wish."""
    before = statefulset.partition_before
    least = statefulset.partition if before is None else before
    wanted = max(partition, least)
    return None if wanted == statefulset.partition else _moved(statefulset, wanted, least)


def _moved(statefulset: StatefulSetView, partition: int, before: int | None) -> HoldRollout:
    return HoldRollout(name=statefulset.name, uid=statefulset.uid, partition=partition, before=before)
