"""`workloadRef` on a real API server: which fields are written, by which manager, and what is said where none may be.

No controllers run, so nothing acts on the numbers; the group's Kafka cluster does not answer, which stops no scaling.
Argo's kind is defined here as far as it matters: a Rollout with a scale subresource.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.fleet import condition
from e2e.node.client import Client
from e2e.operator_process import OperatorProcess, install_crds, observing, operator_process, wait_for
from e2e.theirs import owned_leaves

pytestmark = pytest.mark.timeout(300)

OPERATOR = "muster-operator"
AT = "2026-03-01T12:00:00Z"
ANNOTATION = "spec.template.metadata.annotations.muster.dev/restarted-at"
RESTARTS = {"Deployment": ANNOTATION, "StatefulSet": ANNOTATION, "Rollout": "spec.restartAt"}
ROLLOUTS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rollouts.argoproj.io"},
    "spec": {
        "group": "argoproj.io",
        "scope": "Namespaced",
        "names": {"kind": "Rollout", "plural": "rollouts"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def place(api: Client) -> Client:
    install_crds(api)
    api.apply(ROLLOUTS)
    api.kubectl("wait", "--for=condition=Established", "crd/rollouts.argoproj.io", "--timeout=30s")
    api.kubectl("create", "namespace", "workloads")
    return api.within("workloads")


@pytest.fixture(scope="module")
def process(place: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    flags = (f"--namespace={place.namespace}", f"--own-namespace={place.namespace}")
    log: Path = tmp_path_factory.mktemp("operator") / "operator.log"
    with operator_process(place, log, *flags) as one:
        wait_for("ready", lambda: one.probe("/readyz")[0] == 200, 90, one)
        yield one


def workload(kind: str, name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "theirs:1"}
    return {
        "apiVersion": "argoproj.io/v1alpha1" if kind == "Rollout" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"team": "theirs"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **({"serviceName": name} if kind == "StatefulSet" else {}),
        },
    }


def referring(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    found = observing(name)
    ref = {"apiVersion": workload(kind, name)["apiVersion"], "kind": kind, "name": name}
    return {**found, "spec": {**found["spec"], "workloadRef": ref, **spec}}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Rollout"])
def test_two_fields_and_no_more(place: Client, process: OperatorProcess, kind: str) -> None:
    name = f"two-fields-{kind.lower()}"
    place.apply(workload(kind, name))

    def live() -> dict[str, Any]:
        found: dict[str, Any] = place.read(kind.lower(), name, "--show-managed-fields")
        return found

    before = live()
    place.apply(referring(kind, name, replicas=5))
    wait_for("the number", lambda: live()["spec"]["replicas"] == 5, 60, process)
    assert owned_leaves(live(), OPERATOR) == {"spec.replicas"}
    place.kubectl("annotate", "cg", name, f"muster.dev/restarted-at={AT}")
    wait_for("the restart", lambda: place.read("cg", name)["status"].get("restartedAt") == AT, 60, process)
    after = live()
    assert owned_leaves(after, OPERATOR) == {"spec.replicas", RESTARTS[kind]}
    if kind == "Rollout":
        assert after["spec"].pop("restartAt") == AT
    else:
        assert after["spec"]["template"]["metadata"].pop("annotations") == {"muster.dev/restarted-at": AT}
    assert {**after["spec"], "replicas": 2} == before["spec"]
    assert {key: after["metadata"].get(key) for key in ("labels", "ownerReferences", "finalizers")} == {
        "labels": {"team": "theirs"}, "ownerReferences": None, "finalizers": None,
    }  # fmt: skip
    place.kubectl("delete", "cg", name)
    assert live()["spec"]["replicas"] == 5


def test_what_is_missing_or_the_operators_own_is_said(place: Client, process: OperatorProcess) -> None:
    made = observing("made")
    place.apply({**made, "spec": {**made["spec"], "template": {"image": "consumer:1"}, "replicas": 3}})
    wait_for("a StatefulSet", lambda: "made" in place.kubectl("get", "statefulsets"), 60, process)
    place.apply(referring("Deployment", "missing", replicas=1))
    taken = referring("StatefulSet", "taken", replicas=0)
    taken["spec"]["workloadRef"]["name"] = "made"
    place.apply(taken)

    def says(name: str, reason: str) -> bool:
        return condition(place.read("cg", name), "Degraded").get("reason") == reason

    wait_for("word of what is missing", lambda: says("missing", "WorkloadNotFound"), 60, process)
    wait_for("word of whose it is", lambda: says("taken", "WorkloadTaken"), 60, process)
    assert place.read("statefulset", "made")["spec"]["replicas"] == 3
    place.apply(workload("Deployment", "missing"))
    wait_for("the number", lambda: place.read("deployment", "missing")["spec"]["replicas"] == 1, 60, process)
