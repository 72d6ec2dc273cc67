"""What one pod's state says: is it in its place, can it start at all, has its revision had its chance.

Three questions that must not be mixed up. *Unsettled*: somebody has to be waited for. *Broken*: the container does not
run or the pod has no place, so taking it away costs nothing. *Stuck*: a reason to give no further pod to its revision.
A pod that runs and is not Ready is unsettled and, for a long while, neither broken nor stuck: it may still be reading
its log.
"""

from typing import Final

from muster_operator.plan.settings import PlanSettings
from muster_operator.world.views import PodView, StatefulSetView

CANNOT_START: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Kubelet's `state.waiting.reason`s of a container that will not run as it is told to."""
CRASHES_STUCK: Final = 3
"""So many restarts without being Ready, and a crash loop is one also in the moments in which the container runs."""


def broken(pod: PodView) -> str | None:
    """Why the pod does no work at all now, or None."""
    if pod.ready:
        return None
    if pod.waiting_reason in CANNOT_START:
        return str(pod.waiting_reason)
    if pod.unschedulable:
        return "Unschedulable"
    return "Failed" if pod.phase == "Failed" else None


def stuck(pod: PodView, *, until_ms: int, settings: PlanSettings) -> str | None:
    """Why the pod speaks against its revision, or None. `until_ms`: up to then it could have become Ready."""
    reason = broken(pod)
    if reason is not None or pod.ready or pod.terminating:
        return reason
    if pod.restarts >= CRASHES_STUCK:
        return f"{pod.restarts} restarts"
    if pod.unready_since_ms is not None and until_ms - pod.unready_since_ms > settings.unready_patience_ms:
        return f"not Ready for more than {settings.unready_patience_ms // 1_000} s"
    return None


def unsettled(pod: PodView, *, now_ms: int, settings: PlanSettings) -> str | None:
    """Why the pod has to be waited for, or None: it is Ready, and has been for long enough."""
    if pod.terminating:
        return "is terminating"
    if not pod.ready:
        return f"is not Ready ({broken(pod) or pod.phase})"
    if pod.ready_since_ms is None or now_ms - pod.ready_since_ms < settings.min_ready_ms:
        return f"has been Ready for less than {settings.min_ready_ms // 1_000} s"
    return None


def missing(statefulset: StatefulSetView) -> tuple[int, ...]:
    """Ordinals that are wanted and have no pod object at all."""
    there = {pod.ordinal for pod in statefulset.pods}
    return tuple(ordinal for ordinal in statefulset.ordinals(statefulset.replicas) if ordinal not in there)


def outdated(statefulset: StatefulSetView, pod: PodView) -> bool:
    """Not of the wanted revision. A pod without a revision label is told nothing of, so it is not called outdated."""
    return pod.revision not in ("", statefulset.update_revision)


def observed(statefulset: StatefulSetView) -> bool:
    """Its controller has seen the spec that we see, so `update_revision` and the pods belong to it."""
    return statefulset.observed_generation >= statefulset.generation and statefulset.update_revision != ""
