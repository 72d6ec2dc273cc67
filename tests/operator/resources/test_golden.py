"""Every object of both kinds, whole, as it is applied: tests/operator/golden/*.yaml.

`MUSTER_REWRITE=1 pytest tests/operator/resources` writes them anew; commit only differences that you can explain.
Each is also held against Kubernetes' own schema, strictly, so a misspelt field cannot become golden.
"""

import os
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.operator.api.generate import ROOT, yaml_text
from tests.operator.resources.owners import cluster_children, cluster_spec, group_children, group_spec

FOLDER = ROOT / "tests" / "operator" / "golden"
OLDEST_KUBERNETES = "1.29"


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "crds" / "samples" / f"{name}.yaml").read_text())["spec"]
    return found


CASES = {
    "cluster-minimal": cluster_children(cluster_spec()),
    "cluster-full": cluster_children(cluster_spec(**sample("coordinatorcluster-full"))),
    "cluster-beside-kafka": cluster_children(cluster_spec(**sample("coordinatorcluster-beside-kafka"))),
    "cluster-single": cluster_children(cluster_spec(replicas=1, networkPolicy={"enabled": False})),
    "cluster-kept": cluster_children(
        cluster_spec(replicas=5, storage={"size": "20Gi"}),
        replicas=3,
        founders=3,
        storage_size="10Gi",
        pull_policy="IfNotPresent",
    ),
    "cluster-openshift": cluster_children(cluster_spec(replicas=1), platform_sets_user=True),
    "group-minimal": group_children(group_spec(template={"image": "consumer:1"})),
    "group-full": group_children(group_spec(**sample("consumergroup-full"))),
    "group-dynamic": group_children(group_spec(template={"image": "consumer:1"}, staticMembership=False)),
}
cases = pytest.mark.parametrize("name", CASES)


@cases
def test_the_objects_are_the_golden_ones(name: str) -> None:
    path = FOLDER / f"{name}.yaml"
    text = "---\n".join(yaml_text(manifest) for manifest in CASES[name])
    if os.environ.get("MUSTER_REWRITE"):
        path.write_text(text)
    assert path.read_text() == text, "MUSTER_REWRITE=1 writes it anew"


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(CASES)


@cases
@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
def test_kubernetes_own_schema_accepts_them(name: str, version: str) -> None:
    for manifest in CASES[name]:
        if manifest["kind"] == "Certificate":
            continue  # cert-manager's: test_issued_certificate.py
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_misspelt_field_is_refused() -> None:
    manifest = next(item for item in CASES["cluster-minimal"] if item["kind"] == "StatefulSet")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**manifest, "spec": {**manifest["spec"], "serviceNam": "x"}}, "1.29", strict=True)
