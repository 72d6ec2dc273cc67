"""Conditions by the API conventions, and times in Kubernetes' format.

The findings of a pass are merged with the stored conditions: `lastTransitionTime` changes only when `status` does,
otherwise each pass would be a write. Every condition of a kind is given each time; server-side apply removes a type
that is left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from muster_operator.api.conditions import Reason
from muster_operator.api.status import NEVER, RESTARTED_AT
from muster_operator.limits import MESSAGE_CHARS_MAX
from muster_operator.world.views import OwnerView

RESTARTED_AT_CHARS_MAX = RESTARTED_AT.max_length

Tristate = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    type: str
    status: Tristate
    reason: str
    message: str


def merged(
    stored: Mapping[str, Any], findings: Iterable[Finding], *, generation: int, now_ms: int
) -> list[dict[str, Any]]:
    """`findings` as `status.conditions`. `stored` is the current status, `generation` that of the judged spec."""
    return [
        {
            "type": str(found.type),
            "status": found.status,
            "reason": str(found.reason),
            "message": found.message[:MESSAGE_CHARS_MAX],
            "observedGeneration": generation,
            "lastTransitionTime": _transition(condition(stored, found.type), found.status, now_ms),
        }
        for found in findings
    ]


def condition(stored: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """The stored condition of this type; {} if there is none."""
    return next((one for one in stored.get("conditions") or () if one.get("type") == type_), {})


def restart_told(owner: OwnerView, *, paused: bool) -> dict[str, str]:
    """`restartedAt`: the requested restart that the status is about. A paused object has not taken up a newer one."""
    told = owner.status.get("restartedAt") if paused else owner.restarted_at
    return {} if told is None else {"restartedAt": str(told)[:RESTARTED_AT_CHARS_MAX]}


def timestamp(ms: int) -> str:
    """RFC 3339 in whole seconds, as in `metav1.Time`."""
    return datetime.fromtimestamp(ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def finding(type_: str, holds: bool | None, reason: Reason, message: str) -> Finding:
    """`holds` None: unknown."""
    status: Tristate = "Unknown" if holds is None else "True" if holds else "False"
    return Finding(type=type_, status=status, reason=reason, message=message)


def _transition(old: Mapping[str, Any], status: str, now_ms: int) -> str:
    kept = old.get("lastTransitionTime")
    return str(kept) if old.get("status") == status and kept not in (None, NEVER) else timestamp(now_ms)
