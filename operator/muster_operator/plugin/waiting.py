"""Judges from an object alone whether a restart, a pause or a scaling is complete. Pure.

Each function returns (done | running | halted, why). An old status that happens to look right does not count: the
operator's status must refer to this change.
"""

from collections.abc import Mapping
from typing import Any

from muster_operator.plugin.views import condition

NOT_TAKEN_UP = "the operator has not taken it up yet"


def restart_progress(obj: Mapping[str, Any], *, restarted_at: str) -> tuple[str, str]:
    """Done: the operator has confirmed this restart (`status.restartedAt`), and nothing is progressing."""
    status = obj.get("status", {})
    spec = obj.get("spec", {})
    if obj.get("kind") == "ConsumerGroup" and not spec.get("template") and not spec.get("workloadRef"):
        return "halted", "it has no `template`: the operator runs no pods of it"
    if condition(obj, "Paused").get("status") == "True":
        return "running", "it is paused"
    if status.get("restartedAt") != restarted_at:
        return "running", NOT_TAKEN_UP
    degraded = condition(obj, "Degraded")
    if degraded.get("status") == "True":
        return "halted", f"{degraded.get('reason', '')}: {degraded.get('message', '')}"
    progressing = condition(obj, "Progressing")
    if progressing.get("status") == "False" and condition(obj, "Ready").get("status") == "True":
        return "done", "every pod runs the new revision"
    return "running", progressing.get("message") or "in progress"


def pause_progress(obj: Mapping[str, Any], *, paused: bool) -> tuple[str, str]:
    """Done: condition Paused has the requested value."""
    if condition(obj, "Paused").get("status") == str(paused):
        return "done", "it is paused: only its status is written" if paused else "it is not paused any more"
    return "running", NOT_TAKEN_UP


def scale_progress(obj: Mapping[str, Any], *, replicas: int, generation: int) -> tuple[str, str]:
    """Done: a status of this generation or a later one has the requested number of pods, all Ready, and nothing is
    progressing."""
    status = obj.get("status", {})
    if obj.get("spec", {}).get("replicas") != replicas:
        return "halted", f"another client requested {obj.get('spec', {}).get('replicas')} meanwhile"
    if condition(obj, "Paused").get("status") == "True":
        return "running", "it is paused"
    if int(status.get("observedGeneration") or 0) < generation:
        return "running", NOT_TAKEN_UP
    progressing = condition(obj, "Progressing")
    there = (status.get("replicas"), status.get("readyReplicas") or 0)
    if progressing.get("status") == "False" and there == (replicas, replicas):
        return "done", f"{replicas} consumers are Ready"
    return "running", progressing.get("message") or f"{there[1]} of {replicas} are Ready"
