"""Deployments, StatefulSets and Rollouts as they are stored: which pods are theirs, and what they say of themselves."""

from typing import Any

import pytest
from muster_operator.kube.workloads import made_by, pods_of, referenced_view, selector_of, view_of_statefulset
from muster_operator.naming import RESTART_ANNOTATION

from tests.operator.fakes.fake_kube import selects


def workload(kind: str = "Deployment", *, name: str = "orders", **parts: Any) -> dict[str, Any]:
    version = "argoproj.io/v1alpha1" if kind == "Rollout" else "apps/v1"
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": 4, **parts.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def pod(name: str, *, controller: dict[str, Any] | None, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels or {}}
    if controller is not None:
        metadata["ownerReferences"] = [{"controller": True, "uid": "?", **controller}]
    return {"metadata": metadata}


def replica_set(name: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name}


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            {
                "matchLabels": {"app": "x"},
                "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["b", "a"]},
                    {"key": "tier", "operator": "NotIn", "values": ["c"]},
                    {"key": "app", "operator": "Exists"},
                    {"key": "gone", "operator": "DoesNotExist"},
                ],
            },
            "app=x,tier in (a,b),tier notin (c),app,!gone",
        ),
        ({"matchExpressions": [{"key": "a", "operator": "Later"}]}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_selector_as_text(selector: dict[str, Any] | None, text: str | None) -> None:
    assert selector_of(workload(spec={"selector": selector})) == text
    if text:
        assert selects(text, {"app": "x", "tier": "a", "a": "1", "b": "2"})
        assert not selects(text, {"gone": "1"})


def test_a_rollout_that_takes_its_pods_from_a_deployment_tells_its_selector_in_its_status() -> None:
    live = workload("Rollout", spec={"workloadRef": {"name": "x"}}, status={"selector": "app=x"})
    assert selector_of(live) == "app=x"
    assert selector_of({**live, "kind": "Deployment"}) is None


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("app=x,rollouts-pod-template-hash=5d9f", "app=x"),
        ("rollouts-pod-template-hash=5d9f,tier in (a,b)", "tier in (a,b)"),
        ("app=x,rollouts-pod-template-hash=5d9f,tier=a", "app=x,tier=a"),
        ("rollouts-pod-template-hash=5d9f", None),
        ("", None),
    ],
)
def test_with_blue_and_green_that_selector_is_of_one_template_and_its_pods_are_of_both(
    told: str, text: str | None
) -> None:
    live = workload("Rollout", spec={"workloadRef": {"name": "x"}}, status={"selector": told})
    assert selector_of(live) == text


def test_pods_of_a_deployment_are_those_of_its_replica_sets() -> None:
    """A selector may overlap with another workload's, by mistake or by design."""
    found = [
        pod("a", controller=replica_set("orders-5d9f"), labels={"pod-template-hash": "5d9f"}),
        pod("b", controller=replica_set("orders-77aa"), labels={"pod-template-hash": "77aa"}),
        pod("other", controller=replica_set("orders-eu-5d9f"), labels={"pod-template-hash": "5d9f"}),
        pod("lying", controller=replica_set("orders-5d9f"), labels={"pod-template-hash": "other"}),
        pod("by hand", controller=None, labels={"pod-template-hash": "5d9f"}),
        pod("a job's", controller={"kind": "Job", "name": "orders-5d9f"}, labels={"pod-template-hash": "5d9f"}),
    ]
    assert [one.name for one in pods_of(workload(), found)] == ["a", "b"]


def test_a_rollout_and_a_deployment_of_one_name_keep_their_pods_apart() -> None:
    """A Rollout that takes its template from a Deployment may have its name, and has its labels."""
    found = [
        pod("kubernetes", controller=replica_set("orders-5d9f"), labels={"pod-template-hash": "5d9f"}),
        pod("argo", controller=replica_set("orders-77aa"), labels={"rollouts-pod-template-hash": "77aa"}),
    ]
    assert [one.name for one in pods_of(workload(), found)] == ["kubernetes"]
    assert [one.name for one in pods_of(workload("Rollout"), found)] == ["argo"]


def test_pods_of_a_statefulset_are_those_of_its_uid() -> None:
    found = [
        pod("orders-1", controller={"kind": "StatefulSet", "name": "orders", "uid": "uid-orders"}),
        pod("orders-10", controller={"kind": "StatefulSet", "name": "orders", "uid": "uid-orders"}),
        pod("orders-2", controller={"kind": "StatefulSet", "name": "orders", "uid": "uid-orders"}),
        pod("orders-0", controller={"kind": "StatefulSet", "name": "orders", "uid": "of its predecessor"}),
    ]
    assert [one.name for one in pods_of(workload("StatefulSet"), found)] == ["orders-1", "orders-2", "orders-10"]


def test_a_thousand_pods_with_the_longest_names() -> None:
    name = "o" * 240
    owner = replica_set(f"{name}-5d9f")
    found = [pod(f"{name}-5d9f-{n:05}", controller=owner, labels={"pod-template-hash": "5d9f"}) for n in range(1_000)]
    assert len(pods_of(workload(name=name), found)) == 1_000


def test_who_made_it() -> None:
    def owned(**reference: Any) -> dict[str, Any]:
        base = {"apiVersion": "muster.dev/v1alpha1", "kind": "ConsumerGroup", "name": "g", "uid": "u"}
        return workload(metadata={"ownerReferences": [{**base, "controller": True, **reference}]})

    assert made_by(owned()) == ("ConsumerGroup", "g", "u")
    assert made_by(owned(controller=False)) is None
    assert made_by(owned(apiVersion="example.com/v1")) is None
    assert made_by(workload()) is None


def test_what_it_says_of_itself() -> None:
    template = {"metadata": {"annotations": {RESTART_ANNOTATION: "now"}}}
    live = workload(spec={"replicas": 7, "template": template}, status={"observedGeneration": 4, "updatedReplicas": 5})
    view = referenced_view(live, (), selector="a=b")
    assert (view.replicas, view.updated_replicas, view.observed_generation, view.restarted_at) == (7, 5, 4, "now")
    bare = referenced_view(workload(), (), selector="a=b")
    assert (bare.replicas, bare.updated_replicas, bare.observed_generation, bare.restarted_at) == (1, 0, 0, None)
    rollout = referenced_view(
        workload("Rollout", spec={"restartAt": "2026-01-01T00:00:00Z"}, status={"observedGeneration": "4"}), (),
        selector="a=b",
    )  # fmt: skip
    assert (rollout.observed_generation, rollout.restarted_at) == (4, "2026-01-01T00:00:00Z")
    assert (rollout.phase, rollout.phase_message, rollout.restart_done) == ("", "", None)
    status = {"phase": "Paused", "message": "CanaryPauseStep", "restartedAt": "2026-01-01T00:00:00Z"}
    rollout = referenced_view(workload("Rollout", status=status), (), selector="a=b")
    assert (rollout.phase, rollout.phase_message) == ("Paused", "CanaryPauseStep")
    assert rollout.restart_done == "2026-01-01T00:00:00Z"
    assert referenced_view(workload(status=status), (), selector="a=b").phase == "", "Argo's words are of its own kind"


def test_a_statefulset_that_counts_from_five_and_waits_for_deletions() -> None:
    live = workload(
        "StatefulSet", spec={"replicas": 2, "ordinals": {"start": 5}, "updateStrategy": {"type": "OnDelete"}}
    )
    view = view_of_statefulset(live, ())
    assert (view.ordinals(2), view.rolls) == (range(5, 7), False)
    assert view_of_statefulset(workload("StatefulSet"), ()).rolls
