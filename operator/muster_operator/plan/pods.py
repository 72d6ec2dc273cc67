"""Judges one pod's state: is it in its place, can it start at all, has it had its chance to become Ready.

Three questions that must be kept apart. *Unsettled*: the roll-out has to wait for the pod. *Broken*: the container does
not run or the pod has no node, so deleting the pod loses nothing. *Stuck*: evidence against its revision, so no further
pod gets that revision. A pod that runs and is not Ready is unsettled and, for a long while, neither broken nor stuck:
it may still be reading its log.
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
"""The kubelet's `state.waiting.reason`s of a container that cannot run as specified."""
CRASHES_STUCK: Final = 3
"""After this many restarts without being Ready, a crash loop counts also in the moments in which the container runs."""


def broken(pod: PodView) -> str | None:
    """Why the pod cannot serve now, or None."""
    if pod.ready:
        return None
    if pod.waiting_reason in CANNOT_START:
        return str(pod.waiting_reason)
    if pod.unschedulable:
        return "Unschedulable"
    return "Failed" if pod.phase == "Failed" else None


SCHEDULED_WITHIN_MS: Final = 10_000
"""A scheduler that does not know the claim of a new pod yet calls it unschedulable, and tries again."""


def degraded(pod: PodView, *, now_ms: int) -> str | None:
    """As `broken`, but for a pod without a node that was made just now."""
    is_new = pod.created_ms is not None and now_ms - pod.created_ms < SCHEDULED_WITHIN_MS
    if pod.unschedulable and is_new and pod.waiting_reason not in CANNOT_START:
        return None
    return broken(pod)


def stuck(pod: PodView, *, until_ms: int, settings: PlanSettings) -> str | None:
    """Why the pod counts against its revision, or None. `until_ms`: up to then it could have become Ready."""
    reason = broken(pod)
    if reason is not None or pod.ready or pod.terminating:
        return reason
    if pod.restarts >= CRASHES_STUCK:
        return f"{pod.restarts} restarts"
    if pod.unready_since_ms is not None and until_ms - pod.unready_since_ms > settings.unready_patience_ms:
        return f"not Ready for more than {settings.unready_patience_ms // 1_000} s"
    return None


def unsettled(pod: PodView, *, now_ms: int, settings: PlanSettings) -> str | None:
    """Why the roll-out has to wait for the pod, or None: it has been Ready for long enough."""
    if pod.terminating:
        return "is terminating"
    if not pod.ready:
        return f"is not Ready ({broken(pod) or pod.phase})"
    if pod.ready_since_ms is None or now_ms - pod.ready_since_ms < settings.min_ready_ms:
        return f"has been Ready for less than {settings.min_ready_ms // 1_000} s"
    return None


def missing(statefulset: StatefulSetView) -> tuple[int, ...]:
    """Wanted ordinals without a pod object."""
    there = {pod.ordinal for pod in statefulset.pods}
    return tuple(ordinal for ordinal in statefulset.ordinals(statefulset.replicas) if ordinal not in there)


def outdated(statefulset: StatefulSetView, pod: PodView) -> bool:
    """It has not the wanted revision. A pod without a revision label is unknown, so it does not count as outdated."""
    return pod.revision not in ("", statefulset.update_revision)


def observed(statefulset: StatefulSetView) -> bool:
    """The controller has observed the spec that we see, so `update_revision` and the pods belong to it."""
    return statefulset.observed_generation >= statefulset.generation and statefulset.update_revision != ""
