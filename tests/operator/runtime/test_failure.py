"""When a failed pass is a Warning event: at once where a change is needed, and for a 403 only when it lasts."""

from typing import Any

import pytest
from muster_operator.api.errors import InvalidObject
from muster_operator.errors import FORBIDDEN, Refused, Transient
from muster_operator.limits import FORBIDDEN_QUIET_MS
from muster_operator.plan.conditions import timestamp
from muster_operator.runtime.failure import failure_event, with_failure

NOW_MS = 1_800_000_000_000
FORBADE = Refused(FORBIDDEN, "create Secret shop/main-admin-token: HTTP 403")


def degraded(status: str, reason: str, since_ms: int, message: str = FORBADE.message) -> dict[str, Any]:
    told = {"type": "Degraded", "status": status, "reason": reason, "message": message}
    return {"conditions": [{**told, "lastTransitionTime": timestamp(since_ms), "observedGeneration": 1}]}


def warned(stored: dict[str, Any], error: Refused | Transient | InvalidObject = FORBADE, now_ms: int = NOW_MS) -> bool:
    return failure_event(error, stored, now_ms=now_ms).warning


@pytest.mark.parametrize("stored", [{}, {"conditions": []}, degraded("False", "AsExpected", 0)])
def test_a_first_403_is_no_warning(stored: dict[str, Any]) -> None:
    assert not warned(stored)


@pytest.mark.parametrize(("lasted_ms", "so"), [(1_000, False), (FORBIDDEN_QUIET_MS - 1_000, False), (10_000, True)])
def test_a_403_is_a_warning_when_it_has_lasted(lasted_ms: int, so: bool) -> None:
    assert warned(degraded("True", "ApiError", NOW_MS - lasted_ms)) == so


def test_it_lasts_over_passes_whose_messages_differ() -> None:
    """Every pass asks for what it lacks, and the API server names the first thing that it refuses."""
    stored: dict[str, Any] = {}
    warnings = []
    for nth, name in enumerate(["Secret", "ConfigMap", "Secret", "Service"]):
        now_ms = NOW_MS + nth * 4_000
        error = Refused(FORBIDDEN, f"create {name}: HTTP 403")
        warnings.append(warned(stored, error, now_ms))
        stored = with_failure(stored, None, error, generation=1, now_ms=now_ms)
    assert warnings == [False, False, False, True]


def test_what_else_was_degraded_long_ago_does_not_count() -> None:
    long_ago_ms = NOW_MS - 3_600_000
    assert not warned(degraded("Unknown", "ApiError", long_ago_ms))
    assert not warned(degraded("True", "StorageRefused", long_ago_ms))


def test_other_refusals_and_an_invalid_spec_are_warnings_at_once_and_what_may_pass_is_none() -> None:
    assert warned({}, Refused("Invalid", "spec.x is immutable"))
    assert warned({}, InvalidObject("spec.replicas", "is even"))
    assert not warned(degraded("True", "ApiError", 0), Transient("Unavailable", "HTTP 503"))
