"""A cluster that stays at an earlier release is not restarted by an upgrade of the operator: its coordinators' template
and settings are, byte by byte, what that release's own operator made."""

import json
import subprocess
import sys
from typing import Any

import pytest
from muster_operator.api.cluster import parse_cluster
from muster_operator.api.releases import parse_release
from muster_operator.kube.views import owner_view
from muster_operator.resources.cluster import children

from tests.releases.release import KEPT, Release

SPECS: dict[str, dict[str, Any]] = {
    "as little as can be": {"replicas": 3},
    "one": {"replicas": 1, "offsetsPartitions": 5},
    "with a port for others": {
        "replicas": 3,
        "listeners": [
            {"name": "internal", "type": "internal", "port": 9092},
            {"name": "external", "type": "nodePort", "port": 9094, "nodePortBase": 31090},
        ],
        "config": {"group.max.session.timeout.ms": "600000"},
        "networkPolicy": {"enabled": True},
    },
}
PROGRAM = """
import inspect, json, sys
from muster_operator.api.cluster import parse_cluster
from muster_operator.kube.views import owner_view
from muster_operator.resources.cluster import children
live, arguments, version, said = json.load(sys.stdin)
known = inspect.signature(children).parameters
if "release" in known:
    from muster_operator.api.releases import parse_release
    arguments |= {"release": parse_release(version), "release_is_said": said}
print(json.dumps(children(owner_view(live), parse_cluster(live), **{k: v for k, v in arguments.items() if k in known})))
"""


def stored(spec: dict[str, Any], image: str) -> dict[str, Any]:
    metadata = {
        "name": "main",
        "namespace": "shop",
        "uid": "3f1c9a52-0c52-4d0e-9a63-5e1c2b7d8f10",
        "generation": 1,
        "resourceVersion": "1",
    }
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "CoordinatorCluster",
        "metadata": metadata,
        "spec": {**spec, "image": image},
    }


def pods_of(manifests: list[dict[str, Any]]) -> tuple[Any, list[Any]]:
    """(the pods' template, the settings)."""
    (statefulset,) = (one for one in manifests if one["kind"] == "StatefulSet")
    settings = [
        one["data"] for one in manifests if one["kind"] == "ConfigMap" and "-config-" in one["metadata"]["name"]
    ]
    assert settings
    return statefulset["spec"]["template"], settings


@pytest.mark.parametrize("said", [True, False], ids=["said", "remembered"])
@pytest.mark.parametrize("spec", SPECS)
def test_the_template_is_that_of_its_own_operator(old: Release, spec: str, said: bool) -> None:
    live = stored(SPECS[spec], "registry.example.com/muster:pinned")
    version = KEPT[old.commit].version
    arguments = {"image": "registry.example.com/muster:0", "operator_namespace": "muster-system", "operator_labels": {}}
    asked = json.dumps([live, arguments, version, said])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=asked, env=old.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    of_ours: Any = {**arguments, "release": parse_release(version), "release_is_said": said}
    made = children(owner_view(live), parse_cluster(live), **of_ours)
    assert pods_of(json.loads(json.dumps(made))) == pods_of(json.loads(done.stdout))
