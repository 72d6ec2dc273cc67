"""Conditions: transition times move with `status` only, and children of somebody else are left alone."""

from typing import Any

from muster_operator.api.conditions import Reason
from muster_operator.drift import with_hash
from muster_operator.limits import MESSAGE_CHARS_MAX
from muster_operator.plan.actions import Apply, DeleteChild, EnsureSecret
from muster_operator.plan.children import plan_children
from muster_operator.plan.conditions import condition, finding, merged, timestamp
from muster_operator.world.views import OwnerView, Unknown

from tests.operator.plan.making import NOW_MS

OWNER = OwnerView(
    name="g", namespace="ns", uid="o", generation=1, resource_version="1", deleting=False, paused=False,
    restarted_at=None, status={},
)  # fmt: skip


def test_the_transition_time_moves_with_the_status_alone() -> None:
    first = {"conditions": merged({}, [finding("Ready", False, Reason.SCALING, "a")], generation=1, now_ms=NOW_MS)}
    later = merged(first, [finding("Ready", False, Reason.CONVERGED, "b")], generation=2, now_ms=NOW_MS + 60_000)
    assert later[0]["lastTransitionTime"] == timestamp(NOW_MS)
    assert (later[0]["reason"], later[0]["observedGeneration"]) == ("Converged", 2)
    turned = merged(first, [finding("Ready", True, Reason.CONVERGED, "b")], generation=2, now_ms=NOW_MS + 60_000)
    assert turned[0]["lastTransitionTime"] == timestamp(NOW_MS + 60_000)
    unknown = merged(first, [finding("Ready", None, Reason.NOT_OBSERVED, "c")], generation=2, now_ms=NOW_MS)
    assert unknown[0]["status"] == "Unknown"


def test_messages_have_a_bound() -> None:
    made = merged({}, [finding("Ready", True, Reason.CONVERGED, "x" * 5_000)], generation=1, now_ms=NOW_MS)
    assert len(made[0]["message"]) == MESSAGE_CHARS_MAX


def test_a_condition_that_is_not_stored_is_empty() -> None:
    assert condition({"conditions": None}, "Ready") == {}


def test_a_timestamp_is_as_kubernetes_writes_it() -> None:
    assert timestamp(1_700_000_000_999) == "2023-11-14T22:13:20Z"


def manifest(kind: str, name: str, owner: str | None = "o") -> dict[str, Any]:
    references = [{"uid": owner, "controller": True}] if owner else []
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "uid": "u1", "ownerReferences": references}}


def live(*objects: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): with_hash(one) for one in objects}


SECRET = EnsureSecret(name="g-token", namespace="ns", key="token", labels={}, owner_reference={"uid": "o"})


def test_what_is_as_it_should_be_costs_nothing() -> None:
    wanted = manifest("Service", "g")
    made = plan_children(OWNER, live(wanted, manifest("Secret", "g-token")), [wanted], secrets=(SECRET,))
    assert (made.actions, made.held) == ((), False)


def test_missing_children_are_made_the_secret_first() -> None:
    wanted = [manifest("Service", "g"), manifest("StatefulSet", "g")]
    made = plan_children(OWNER, {}, wanted, secrets=(SECRET,))
    assert made.actions == (SECRET, Apply(manifest=wanted[0]), Apply(manifest=wanted[1]))
    assert made.held, "a StatefulSet that is not as it should be holds restarts back"


def test_a_drifted_service_does_not_hold_restarts_back() -> None:
    wanted = manifest("Service", "g")
    changed = live(wanted)
    changed["Service", "g"]["metadata"]["annotations"] = {"muster.dev/manifest-hash": "old"}
    made = plan_children(OWNER, changed, [wanted])
    assert (len(made.actions), made.held) == (1, False)


def test_an_object_of_somebody_else_stops_everything_also_the_secret() -> None:
    wanted = [manifest("Service", "g"), manifest("StatefulSet", "g")]
    for theirs in (
        manifest("StatefulSet", "g", "other"),
        manifest("Service", "g", None),
        manifest("Secret", "g-token", "x"),
    ):
        made = plan_children(OWNER, live(theirs), wanted, secrets=(SECRET,))
        assert (made.actions, made.held) == ((), True)
        assert f"{theirs['kind']} {theirs['metadata']['name']}" in made.taken


def test_children_that_could_not_be_seen_are_neither_made_nor_deleted() -> None:
    made = plan_children(
        OWNER, Unknown(reason="ApiError", message="503"), [manifest("Service", "g")], secrets=(SECRET,)
    )
    assert (made.actions, made.unknown) == ((), "503")


def test_surplus_goes_by_its_uid_and_only_once() -> None:
    doomed = manifest("Service", "old")
    made = plan_children(OWNER, live(doomed), [], surplus=[doomed])
    assert made.actions == (DeleteChild(api_version="v1", kind="Service", name="old", uid="u1"),)
    doomed["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z"
    assert plan_children(OWNER, live(doomed), [], surplus=[doomed]).actions == ()
