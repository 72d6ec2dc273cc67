"""What the chart's monitors, policies and Services point at exists: labels and ports of the pods that they mean.

A PodMonitor that names a port no pod has scrapes nothing, and nobody is told. The golden files are what Helm renders
(`e2e/test_chart.py` holds them to it); the operator's pods are in the same file, the coordinators' are made by the
operator's own code.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_operator.runtime.metrics import Metrics

from tests.operator.resources.owners import cluster_children, cluster_spec, one

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "e2e" / "golden"
FILES = sorted(GOLDEN.glob("*.yaml"))
Pod = Mapping[str, Any]


def coordinator_pod() -> Pod:
    found: Pod = one(cluster_children(cluster_spec()), "StatefulSet")["spec"]["template"]
    return found


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [found for found in objects if found["kind"] == kind]


def selected(pods: list[Pod], labels: Mapping[str, str]) -> list[Pod]:
    return [pod for pod in pods if labels.items() <= pod["metadata"]["labels"].items()]


def ports(pod: Pod) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for one in pod["spec"]["containers"] for port in one["ports"]}


def dangling(objects: list[dict[str, Any]]) -> Iterator[str]:
    """What points at no pod, or at a port that its pods do not have."""
    pods: list[Pod] = [found["spec"]["template"] for found in of_kind(objects, "Deployment")] + [coordinator_pod()]
    meant = [
        (f"PodMonitor {found['metadata']['name']}", found["spec"]["selector"]["matchLabels"], one["port"])
        for found in of_kind(objects, "PodMonitor")
        for one in found["spec"]["podMetricsEndpoints"]
    ]
    meant += [
        (f"Service {found['metadata']['name']}", found["spec"]["selector"], port["targetPort"])
        for found in of_kind(objects, "Service")
        for port in found["spec"]["ports"]
    ]
    meant += [
        (f"NetworkPolicy {found['metadata']['name']}", found["spec"]["podSelector"]["matchLabels"], port["port"])
        for found in of_kind(objects, "NetworkPolicy")
        for rule in found["spec"]["ingress"]
        for port in rule["ports"]
    ]
    meant += [
        (f"egress of {found['metadata']['name']}", peer["podSelector"]["matchLabels"], port["port"])
        for found in of_kind(objects, "NetworkPolicy")
        for rule in found["spec"]["egress"]
        for peer in rule.get("to", ())
        for port in rule["ports"]
    ]
    for who, labels, port in meant:
        chosen = selected(pods, labels)
        if not chosen:
            yield f"{who} selects no pod"
        for pod in chosen:
            known = ports(pod)
            if port not in known and port not in known.values():
                yield f"{who} means port {port}; its pods have {sorted(known)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_whatever_points_at_pods_finds_them_and_their_port(path: Path) -> None:
    objects = [found for found in yaml.safe_load_all(path.read_text()) if found]
    assert list(dangling(objects)) == []


def test_both_kinds_of_pods_are_scraped() -> None:
    """The operator and the coordinators, each by a monitor that selects these pods and no others of ours."""
    objects = [found for found in yaml.safe_load_all((GOLDEN / "everything.yaml").read_text()) if found]
    operator = [found["spec"]["template"] for found in of_kind(objects, "Deployment")]
    pods: list[Pod] = [*operator, coordinator_pod()]
    scraped = [selected(pods, monitor["spec"]["selector"]["matchLabels"]) for monitor in of_kind(objects, "PodMonitor")]
    assert scraped == [operator, [coordinator_pod()]]


def monitor_of(component: str) -> dict[str, Any]:
    objects = [found for found in yaml.safe_load_all((GOLDEN / "everything.yaml").read_text()) if found]
    (monitor,) = [
        one["spec"]
        for one in of_kind(objects, "PodMonitor")
        if one["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] == component
    ]
    return dict(monitor)


def test_labels_that_alerts_want_of_up_are_brought_by_the_monitor_from_the_pods() -> None:
    """`up` has the labels of its target alone; a pod's label is among them only if the PodMonitor names it."""
    rules = yaml.safe_load((ROOT / "charts" / "muster" / "rules" / "muster.yaml").read_text())
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    wanted = {found for one in expressions for found in re.findall(r'up\{(app_kubernetes_io_\w+)="(\w+)"\}', one)}
    wanted_names = {found for one in expressions for found in re.findall(r"app_kubernetes_io_\w+", one)}
    brought = {
        re.sub(r"\W", "_", label): coordinator_pod()["metadata"]["labels"][label]
        for label in monitor_of("coordinator")["podTargetLabels"]
    }
    assert wanted
    assert wanted <= brought.items()
    assert wanted_names <= brought.keys()


def test_labels_that_the_operator_writes_are_not_replaced_by_those_of_its_pod() -> None:
    """`namespace` of a cluster's condition would be `exported_namespace`, and every alert name the operator's."""
    metrics = Metrics()
    metrics.cluster("shop", "main", {"conditions": [{"type": "Ready", "status": "True"}]}, "Converged")
    assert (
        b'muster_cluster_condition{name="main",namespace="shop",status="True",type="Ready"} 1.0' in metrics.exposition()
    )
    assert [one.get("honorLabels") for one in monitor_of("operator")["podMetricsEndpoints"]] == [True]


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("PodMonitor", lambda spec: spec["podMetricsEndpoints"][0].update(port="metrics"), "means port metrics"),
        ("PodMonitor", lambda spec: spec["selector"]["matchLabels"].update(extra="1"), "selects no pod"),
        ("Service", lambda spec: spec["ports"][0].update(targetPort="http"), "means port http"),
        ("NetworkPolicy", lambda spec: spec["ingress"][0]["ports"][0].update(port="http"), "means port http"),
        ("NetworkPolicy", lambda spec: spec["egress"][-1]["ports"][0].update(port=9999), "means port 9999"),
    ],
)
def test_a_planted_fault_is_found(kind: str, change: Any, words: str) -> None:
    objects = [found for found in yaml.safe_load_all((GOLDEN / "everything.yaml").read_text()) if found]
    change(of_kind(objects, kind)[0]["spec"])
    assert any(words in said for said in dangling(objects))
