"""The status and the Event after a failed pass, made from the plan's or the stored status. Pure.

Conditions that could be judged stay. `Degraded` reports the failure: `Unknown` if something could not be observed,
`True` if a request was refused, because then a change is needed. `Progressing` becomes False.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.api.errors import InvalidObject
from muster_operator.errors import FORBIDDEN, OperatorError, Refused, Transient
from muster_operator.kube.answers import clip
from muster_operator.kube.kinds import CERTIFICATE
from muster_operator.limits import FORBIDDEN_QUIET_MS
from muster_operator.plan.actions import Event
from muster_operator.plan.conditions import Finding, condition, finding, merged

_TOLD = (
    Reason.NAME_TAKEN, Reason.STORAGE_REFUSED, Reason.NAMESPACE_NOT_SERVED, Reason.CLUSTER_REFUSES,
    Reason.AUTHORIZATION_FAILED, Reason.SECRET_UNUSABLE,
)  # fmt: skip
_REASONS = {str(one): one for one in _TOLD}
_NO_KIND = ("NotFound", "Http404")
"""The second is of an API server that knows nothing of the whole group: it answers without a document."""
_NO_RIGHT = " cannot "
"""In Kubernetes' words for a right that is missing, and not in those of a quota or of a webhook."""


def with_failure(
    stored: Mapping[str, Any],
    planned: Mapping[str, Any] | None,
    error: OperatorError | InvalidObject,
    *,
    generation: int,
    now_ms: int,
) -> dict[str, Any]:
    """`planned` (or `stored`, if nothing could be planned) with the failure in its conditions."""
    base = dict(planned if planned is not None else stored)
    found = _finding(error)
    conditions = {str(one["type"]): dict(one) for one in base.get("conditions") or ()}
    for one in merged(stored, [found], generation=generation, now_ms=now_ms):
        conditions[str(one["type"])] = one
    if isinstance(error, InvalidObject) or planned is None:
        ready = Finding(
            type=ClusterCondition.READY,
            status="False" if isinstance(error, InvalidObject) else "Unknown",
            reason=found.reason,
            message=found.message,
        )
        for one in merged(stored, [ready], generation=generation, now_ms=now_ms):
            conditions[str(one["type"])] = one
    base["conditions"] = list(conditions.values())
    if isinstance(error, InvalidObject) or planned is not None:
        base["observedGeneration"] = generation
    return base


def not_issued(name: str, error: OperatorError) -> OperatorError:
    """Why cert-manager could not be asked for a Certificate, with what helps where it is known. Of the same family."""
    hint = ""
    if isinstance(error, Refused) and error.reason in _NO_KIND:
        hint = f"; the API server has no {CERTIFICATE.plural} of {CERTIFICATE.api_version}: is cert-manager installed?"
    elif error.reason == FORBIDDEN and _NO_RIGHT in error.message:
        hint = "; the chart grants it with rbac.certManager=true"
    message = clip(f"Certificate {name} cannot be asked for: {error.message}{hint}")
    if isinstance(error, Transient):
        return Transient(error.reason, message, retry_after_ms=error.retry_after_ms)
    return Refused(error.reason, message)


def failure_event(error: OperatorError | InvalidObject, stored: Mapping[str, Any], *, now_ms: int) -> Event:
    """A warning if a change is needed. A 403 is one once the object has been refused something for FORBIDDEN_QUIET_MS,
    by the stored `Degraded`: before, the API server may not have heard of a new role or of a kind that was just
    defined."""
    if isinstance(error, InvalidObject):
        return Event(reason="InvalidSpec", message=str(error), warning=True)
    warning = isinstance(error, Refused)
    if error.reason == FORBIDDEN:
        warning = now_ms - _refused_since_ms(stored, now_ms) >= FORBIDDEN_QUIET_MS
    return Event(reason=error.reason, message=error.message, warning=warning)


def _refused_since_ms(stored: Mapping[str, Any], now_ms: int) -> int:
    """Since when `Degraded` tells of a request that the Kubernetes API refused; `now_ms` if it does not."""
    told = condition(stored, ClusterCondition.DEGRADED)
    if told.get("status") != "True" or told.get("reason") != Reason.API_ERROR:
        return now_ms
    return int(datetime.fromisoformat(str(told["lastTransitionTime"])).timestamp() * 1_000)


def with_refused_replacement(
    stored: Mapping[str, Any], planned: Mapping[str, Any], error: OperatorError, *, generation: int, now_ms: int
) -> dict[str, Any]:
    """`planned` with the reason why a lost replica was not replaced in its condition VolumeLost. Nothing else suffers
    from it, so no other condition changes."""
    before = condition(planned, ClusterCondition.VOLUME_LOST)
    message = f"{before.get('message', '')}; refused for now: {error.message}"
    refused = finding(ClusterCondition.VOLUME_LOST, True, Reason.REPLACEMENT_REFUSED, message)
    return _with(stored, planned, refused, generation=generation, now_ms=now_ms)


def with_refused_leave(
    stored: Mapping[str, Any], planned: Mapping[str, Any], error: OperatorError, *, generation: int, now_ms: int
) -> dict[str, Any]:
    """`planned` with the reason why a coordinator may not leave, or stay, or why there may not be more replicas, in its
    condition ScalingRefused."""
    before = condition(planned, ClusterCondition.SCALING_REFUSED)
    message = f"{before.get('message', '')}; refused for now: {error.message}"
    raising = before.get("reason") == Reason.RAISING_REPLICATION
    reason = Reason.REPLICATION_REFUSED if raising else Reason.DECOMMISSION_REFUSED
    return _with(
        stored, planned, finding(ClusterCondition.SCALING_REFUSED, True, reason, message),
        generation=generation, now_ms=now_ms,
    )  # fmt: skip


def _with(
    stored: Mapping[str, Any], planned: Mapping[str, Any], found: Finding, *, generation: int, now_ms: int
) -> dict[str, Any]:
    """`planned` with one of its conditions changed."""
    told = merged(stored, [found], generation=generation, now_ms=now_ms)
    kept = [told[0] if one["type"] == told[0]["type"] else one for one in planned["conditions"]]
    return {**planned, "conditions": kept}


def _finding(error: OperatorError | InvalidObject) -> Finding:
    if isinstance(error, InvalidObject):
        return Finding(type=ClusterCondition.DEGRADED, status="True", reason=Reason.INVALID_SPEC, message=str(error))
    refused = isinstance(error, Refused)
    return Finding(
        type=ClusterCondition.DEGRADED,
        status="True" if refused else "Unknown",
        reason=_REASONS.get(error.reason, Reason.API_ERROR),
        message=error.message,
    )
