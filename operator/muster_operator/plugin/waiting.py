"""When a restart is over, judged from an object alone. Pure."""

from collections.abc import Mapping
from typing import Any

from muster_operator.plugin.views import condition


def restart_progress(obj: Mapping[str, Any], *, restarted_at: str) -> tuple[str, str]:
    """(done | running | halted, why).

    Done: the operator has said so of this very restart (`status.restartedAt`) and nothing is progressing. An old
    status that happens to be Ready is not taken for the end of a restart that has not begun.
    """
    status = obj.get("status", {})
    if obj.get("kind") == "ConsumerGroup" and not obj.get("spec", {}).get("template"):
        return "halted", "it has no `template`: the operator runs no pods of it"
    if condition(obj, "Paused").get("status") == "True":
        return "running", "it is paused"
    if status.get("restartedAt") != restarted_at:
        return "running", "the operator has not taken it up yet"
    degraded = condition(obj, "Degraded")
    if degraded.get("status") == "True":
        return "halted", f"{degraded.get('reason', '')}: {degraded.get('message', '')}"
    progressing = condition(obj, "Progressing")
    if progressing.get("status") == "False" and condition(obj, "Ready").get("status") == "True":
        return "done", "every pod runs the new revision"
    return "running", progressing.get("message") or "in progress"
