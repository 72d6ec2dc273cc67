"""What comes after the operator, and what goes while it runs: definitions, a namespace, its role. On a real API server,
the operator under the shipped rules as Roles of its namespaces.

No controllers run here: a namespace is finalized by the test.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.node import paths, session
from e2e.node.client import Client
from e2e.node.errors import Unavailable
from e2e.operator_process import (
    DEFINITIONS,
    OperatorProcess,
    install_crds,
    observing,
    operator_process,
    wait_for,
)
from tests.machine_parts import give_up as missing

pytestmark = pytest.mark.timeout(400)
RULES = paths.ROOT / "charts" / "muster" / "files" / "rules.yaml"
OPERATOR = "muster-operator"
BEFORE_DEFINITIONS_S = 60.0
NOTICED_S = 45.0
"""Longest back-off of a list (30 s), a pass, and a busy machine."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An API server of this module's own. Which definitions it has, each test says."""
    try:
        made = session.api_only(tmp_path_factory.mktemp("scopes"))
    except Unavailable as reason:
        missing("api", str(reason))
    try:
        yield Client(tools=made.tools, kubeconfig=made.kubeconfig)
    finally:
        made.stop()


@pytest.fixture(scope="module")
def account(plane: Client, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A service account with its Lease in namespace `ops`, and nothing else."""
    plane.kubectl("create", "namespace", "ops")
    ops = plane.within("ops")
    ops.kubectl("create", "serviceaccount", OPERATOR)
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}
    events = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}
    ops.apply(*bound("ops", "lease", [lease, events]))
    token = ops.kubectl("create", "token", OPERATOR, "--duration=2h").strip()
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"] = [{"name": "operator", "user": {"token": token}}]
    for one in config["contexts"]:
        one["context"]["user"] = "operator"
    path = tmp_path_factory.mktemp("account") / "kubeconfig"
    path.write_text(json.dumps(config))
    return Client(tools=plane.tools, kubeconfig=path, namespace="ops")


def bound(namespace: str, name: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A Role and its binding to the operator's account."""
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": name, "namespace": namespace},
         "rules": rules},
        {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
         "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
         "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": "ops"}]},
    ]  # fmt: skip


def shipped() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())
    return found


def served(plane: Client, namespace: str) -> Client:
    """A namespace with the shipped role in it."""
    plane.kubectl("create", "namespace", namespace)
    place = plane.within(namespace)
    place.apply(*bound(namespace, OPERATOR, shipped()))
    return place


def cluster(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "muster.dev/v1alpha1", "kind": "CoordinatorCluster", "metadata": {"name": name},
        "spec": {"replicas": 3},
    }  # fmt: skip


def has_children(place: Client, name: str) -> bool:
    selector = f"--selector=app.kubernetes.io/instance={name}"
    return "statefulset" in place.kubectl("get", "statefulsets", selector, "--output=name", "--ignore-not-found")


def said(place: Client, kind: str, name: str, condition: str) -> dict[str, Any]:
    conditions = place.read(kind, name).get("status", {}).get("conditions", ())
    found: dict[str, Any] = next((one for one in conditions if one["type"] == condition), {})
    return found


def leads(one: OperatorProcess) -> bool:
    return one.metric("muster_operator_is_leader ") == 1


def remains_live(one: OperatorProcess) -> None:
    assert one.process.poll() is None, one.log.read_text()[-3_000:]
    assert one.probe("/livez")[0] == 200, one.probe("/livez")


def test_definitions_that_come_after_the_operator_and_go_while_it_runs(
    plane: Client, account: Client, tmp_path: Path
) -> None:
    plane.kubectl("delete", "crd", *(f"{each}.muster.dev" for each in DEFINITIONS), "--ignore-not-found", "--wait=true")
    shop = served(plane, "shop")
    flags = ("--namespace=shop", "--own-namespace=ops", "--identity=one")
    with operator_process(account, tmp_path / "operator.log", *flags) as one:
        wait_for("an operator without definitions that leads", lambda: leads(one), 60, one)
        wait_for("the other watches", lambda: unready(one) == {"CoordinatorCluster", "ConsumerGroup"}, 30, one)
        with pytest.raises(AssertionError, match="not within"):
            wait_for("ready without definitions", lambda: one.probe("/readyz")[0] == 200, BEFORE_DEFINITIONS_S)
        remains_live(one)

        install_crds(plane)
        shop.apply(cluster("at-once"), observing("g"))
        took = wait_for("the first cluster's StatefulSet", lambda: has_children(shop, "at-once"), NOTICED_S, one)
        print(f"definitions were noticed and acted upon after {took:.1f} s")
        wait_for("ready", lambda: one.probe("/readyz")[0] == 200, NOTICED_S, one)
        shop.apply(cluster("watched"))
        wait_for("what the watch tells", lambda: has_children(shop, "watched"), 10, one)

        plane.kubectl("delete", "crd", *(f"{each}.muster.dev" for each in DEFINITIONS), "--wait=true")
        wait_for("unready again", lambda: unready(one) == {"CoordinatorCluster", "ConsumerGroup"}, NOTICED_S, one)
        remains_live(one)
        install_crds(plane)
        shop.apply(cluster("back"))
        wait_for("work after the definitions are back", lambda: has_children(shop, "back"), NOTICED_S, one)
        wait_for("ready again", lambda: one.probe("/readyz")[0] == 200, NOTICED_S, one)
        assert leads(one)
        remains_live(one)
        plane.kubectl("delete", "crd", f"{DEFINITIONS[1]}.muster.dev", "--wait=true")
        wait_for("one kind unready", lambda: unready(one) == {"ConsumerGroup"}, NOTICED_S, one)
        shop.apply(cluster("alone"))
        wait_for("work for the kind that is left", lambda: has_children(shop, "alone"), NOTICED_S, one)
        install_crds(plane)
        wait_for("ready at last", lambda: one.probe("/readyz")[0] == 200, NOTICED_S, one)
    assert one.process.returncode == 0, one.log.read_text()[-3_000:]


def unready(one: OperatorProcess) -> set[str]:
    """Kinds that /readyz calls not defined; {"?"} when it says anything else."""
    status, text = one.probe("/readyz")
    lines = text.strip().splitlines()
    if status != 503 or not all(line.endswith(" is not defined") for line in lines):
        return {"?"}
    return {line.split()[0] for line in lines}


def test_a_namespace_without_its_role_or_deleted_costs_only_itself(
    plane: Client, account: Client, tmp_path: Path
) -> None:
    install_crds(plane)
    good, bad = served(plane, "good"), served(plane, "bad")
    flags = ("--namespace=good,bad", "--own-namespace=ops")
    with operator_process(account, tmp_path / "first.log", *flags, "--identity=first") as one:
        wait_for("ready", lambda: one.probe("/readyz")[0] == 200, 60, one)
        bad.apply(cluster("old"))
        wait_for("children", lambda: has_children(bad, "old"), 30, one)

    blind = [rule for rule in shipped() if "pods" not in rule["resources"]]
    bad.apply(*bound("bad", OPERATOR, blind))  # pods cannot be listed, the rest can
    with operator_process(account, tmp_path / "second.log", *flags, "--identity=second") as one:
        wait_for("a leader in spite of a bad namespace", lambda: leads(one), 60, one)
        good.apply(cluster("c"))
        wait_for("children in the good namespace", lambda: has_children(good, "c"), 30, one)
        wait_for("ready: the others are served", lambda: one.probe("/readyz")[0] == 200, 30, one)
        wait_for(
            "the condition", lambda: said(bad, "cc", "old", "Degraded").get("reason") == "NamespaceNotServed", 30, one
        )
        assert "list Pod" in said(bad, "cc", "old", "Degraded")["message"]
        assert said(bad, "cc", "old", "Ready")["status"] == "Unknown"
        reasons = {event["reason"] for event in bad.read("events.events.k8s.io")["items"]}
        assert "NamespaceNotServed" in reasons
        wait_for("the metric", lambda: not is_served(one, "bad") and is_served(one, "good"), 30, one)

        bad.apply(*bound("bad", OPERATOR, shipped()))
        wait_for("the namespace served again", lambda: is_served(one, "bad"), NOTICED_S, one)
        wait_for("the condition gone", lambda: said(bad, "cc", "old", "Degraded").get("status") == "False", 30, one)

        plane.kubectl("delete", "rolebinding", OPERATOR, "--namespace=bad")
        plane.kubectl("delete", "namespace", "bad", "--wait=false")
        plane.kubectl("replace", "--raw=/api/v1/namespaces/bad/finalize", "--filename=-", given=json.dumps(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bad"}, "spec": {"finalizers": []}}
        ))  # fmt: skip
    with operator_process(account, tmp_path / "third.log", *flags, "--identity=third") as one:
        wait_for("a leader in spite of a namespace that is gone", lambda: leads(one), 60, one)
        good.apply(cluster("d"))
        wait_for("children in the namespace that is left", lambda: has_children(good, "d"), 30, one)
        wait_for("the metric", lambda: not is_served(one, "bad") and is_served(one, "good"), 30, one)
        remains_live(one)
        assert one.probe("/readyz")[0] == 200
        events = plane.within("ops").read("events.events.k8s.io")["items"]
        assert any("namespace bad is not served" in event["note"] for event in events), "said where the operator runs"
        again = served(plane, "bad")
        again.apply(cluster("new"))
        wait_for("work in the namespace that was made again", lambda: has_children(again, "new"), NOTICED_S, one)
    assert one.process.returncode == 0, one.log.read_text()[-3_000:]


def is_served(one: OperatorProcess, namespace: str) -> bool:
    return one.metric(f'muster_operator_namespace_served\\{{namespace="{namespace}"\\}}') == 1
