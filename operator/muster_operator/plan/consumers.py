"""What is missing for the consumer pods, whoever created them: their number, readiness, the wanted revision.

A StatefulSet's pods are compared by ordinal and revision. For a Deployment or Rollout only numbers are compared: the
controller's count of pods of the newest template shows the progress of a roll-out, and it is used only once the
controller has observed the newest spec.
"""

from muster_operator import naming
from muster_operator.api.conditions import Reason
from muster_operator.plan.pods import missing, observed, outdated
from muster_operator.plan.scaling import naming_some
from muster_operator.world.group import GroupWorld
from muster_operator.world.views import PodView, ReferencedView, StatefulSetView, Unknown, Unusable

Lack = tuple[Reason, str]


def unusable(world: GroupWorld) -> Lack | None:
    """Why the workload in `workloadRef` cannot be used; None: it can, or there is no `workloadRef`."""
    found = world.referenced
    return (Reason(found.reason), found.message) if isinstance(found, Unusable) else None


def ready(world: GroupWorld) -> tuple[PodView, ...]:
    return tuple(pod for pod in world.pods if pod.ready and not pod.terminating)


def rolling(world: GroupWorld) -> bool:
    """Some pods still have an older template."""
    if isinstance(world.statefulset, StatefulSetView):
        return world.statefulset.current_revision != world.statefulset.update_revision
    found = world.referenced
    return isinstance(found, ReferencedView) and found.updated_replicas < found.replicas


def lacking(world: GroupWorld) -> Lack | None:
    """None if exactly the wanted pods exist, Ready and of the wanted revision."""
    statefulset, found = world.statefulset, world.referenced
    if isinstance(statefulset, StatefulSetView):
        return _of_statefulset(world, statefulset)
    if isinstance(found, ReferencedView):
        return _of_counted(world, found)
    assert not isinstance(statefulset, Unknown), "asked before"
    return Reason.CREATING_CHILDREN, "the StatefulSet does not exist yet"


def _of_statefulset(world: GroupWorld, statefulset: StatefulSetView) -> Lack | None:
    if not observed(statefulset) or statefulset.replicas != world.wanted:
        return Reason.STATEFULSET_NOT_OBSERVED, "the StatefulSet's controller has not seen its last change yet"
    surplus = [pod.name for pod in statefulset.pods if pod.ordinal not in statefulset.ordinals(statefulset.replicas)]
    if surplus:
        return Reason.SCALING, f"{naming_some(surplus)} still exist"
    if any(outdated(statefulset, pod) for pod in statefulset.pods):
        how = "" if statefulset.rolls else ", once they are deleted (its updateStrategy is OnDelete)"
        text = f"pods are being replaced by ones of revision {statefulset.update_revision}{how}"
        return Reason.ROLLING_OUT, text
    terminating = [pod.name for pod in statefulset.pods if pod.terminating]
    if terminating:
        return Reason.POD_TERMINATING, f"{naming_some(terminating)} are being stopped"
    waiting = [pod.name for pod in statefulset.pods if not pod.ready]
    waiting += [naming.pod_name(statefulset.name, ordinal) for ordinal in missing(statefulset)]
    return (Reason.WAITING_FOR_POD, f"{naming_some(waiting)} not Ready") if waiting else None


def _of_counted(world: GroupWorld, found: ReferencedView) -> Lack | None:
    if found.observed_generation < found.generation or found.replicas != world.wanted:
        return Reason.WORKLOAD_NOT_OBSERVED, f"the controller of {found.title} has not seen its last change yet"
    staying = [pod for pod in found.pods if not pod.terminating]
    if found.updated_replicas < found.replicas:
        text = f"{found.updated_replicas} of {found.replicas} pods are of the newest template"
        return Reason.ROLLING_OUT, text
    if len(staying) > found.replicas:
        return Reason.SCALING, f"{len(staying)} pods exist, {found.replicas} are wanted"
    terminating = [pod.name for pod in found.pods if pod.terminating]
    if terminating:
        return Reason.POD_TERMINATING, f"{naming_some(terminating)} are being stopped"
    waiting = [pod.name for pod in staying if not pod.ready]
    absent = found.replicas - len(staying)
    if absent:
        waiting.append(f"{absent} that do not exist yet")
    return (Reason.WAITING_FOR_POD, f"{naming_some(waiting)} not Ready") if waiting else None
