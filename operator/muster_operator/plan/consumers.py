"""What is missing for the consumer pods, whoever created them: their number, readiness, the wanted revision.

A StatefulSet's pods are compared by ordinal and revision. For a Deployment or Rollout only numbers are compared: the
controller's count of pods of the newest template shows the progress of a roll-out, and it is used only once the
controller has observed the newest spec.

A Rollout may stand still on purpose, half replaced: Argo's phase says so, and that its owner has to act. A restart of a
Rollout changes no template: it is under way until Argo has written its time into the status.
"""

from muster_operator import naming
from muster_operator.api.conditions import Reason
from muster_operator.api.workload import ROLLOUT
from muster_operator.plan.conditions import timestamp
from muster_operator.plan.pods import missing, observed, outdated
from muster_operator.plan.referenced import restart_time
from muster_operator.plan.scaling import naming_some
from muster_operator.world.group import GroupWorld
from muster_operator.world.views import PodView, ReferencedView, StatefulSetView, Unknown, Unusable

Lack = tuple[Reason, str]
STANDSTILLS = {"Paused": Reason.WORKLOAD_PAUSED, "Degraded": Reason.WORKLOAD_DEGRADED}
"""By Argo's phase."""


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


def degraded_by_argo(world: GroupWorld) -> Lack | None:
    """A Rollout's phase Degraded, once Argo has observed the newest spec."""
    found = world.referenced
    if not isinstance(found, ReferencedView) or found.observed_generation < found.generation:
        return None
    is_degraded = STANDSTILLS.get(found.phase) == Reason.WORKLOAD_DEGRADED
    return (Reason.WORKLOAD_DEGRADED, f"{found.title} is {found.phase}: {found.phase_message}") if is_degraded else None


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
        return _standstill(found, text) or (Reason.ROLLING_OUT, text)
    if _restarts(found, world.now_ms):
        return Reason.ROLLING_OUT, f"Argo Rollouts replaces the pods made before {found.restarted_at}"
    if len(staying) > found.replicas:
        text = f"{len(staying)} pods exist, {found.replicas} are wanted"
        return _standstill(found, text) or (Reason.SCALING, text)
    terminating = [pod.name for pod in found.pods if pod.terminating]
    if terminating:
        return Reason.POD_TERMINATING, f"{naming_some(terminating)} are being stopped"
    waiting = [pod.name for pod in staying if not pod.ready]
    absent = found.replicas - len(staying)
    if absent:
        waiting.append(f"{absent} that do not exist yet")
    return (Reason.WAITING_FOR_POD, f"{naming_some(waiting)} not Ready") if waiting else None


def _standstill(found: ReferencedView, text: str) -> Lack | None:
    """Why Argo goes no further with a Rollout, with `text` about its pods; None: it goes on."""
    reason = STANDSTILLS.get(found.phase)
    return None if reason is None else (reason, f"{found.title} is {found.phase} ({found.phase_message}): {text}")


def _restarts(found: ReferencedView, now_ms: int) -> bool:
    """Argo has not finished a restart of this Rollout whose time has come."""
    asked = restart_time(found.restarted_at or "") if found.kind == ROLLOUT else None
    return asked is not None and asked <= timestamp(now_ms) and asked != restart_time(found.restart_done or "")
