"""The samples parse, fit the schema without unknown fields, and the full ones leave no field out."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_operator.api.cluster import parse_cluster
from muster_operator.api.crd import root_schema
from muster_operator.api.group import parse_group
from muster_operator.api.kinds import KINDS
from muster_operator.api.topic import parse_topic
from muster_operator.api.user import parse_user

from tests.operator.api.generate import ROOT
from tests.operator.api.openapi import problems

FOLDER = ROOT / "crds" / "samples"
SAMPLES = sorted(FOLDER.glob("*.yaml"))
PARSERS = {"CoordinatorCluster": parse_cluster, "ConsumerGroup": parse_group, "Topic": parse_topic, "User": parse_user}


def loaded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def test_each_kind_has_a_minimal_and_a_full_sample() -> None:
    sizes = {f"{k.kind.lower()}-{size}" for k in KINDS for size in ("minimal", "full")}
    others = {
        "consumergroup-flights", "consumergroup-workload",
        "coordinatorcluster-beside-kafka", "coordinatorcluster-oauth",
    }  # fmt: skip
    assert {path.stem for path in SAMPLES} == {*sizes, *others}, "the first of the others is the README's"


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_parses_and_fits_the_schema(path: Path) -> None:
    manifest = loaded(path)
    assert problems(manifest) == []
    PARSERS[manifest["kind"]](manifest)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
def test_a_full_sample_has_every_field_of_ours(kind: Any) -> None:
    """Down to where Kubernetes' own structures begin, except what excludes another field."""
    excluded = {"bootstrapServers", "workloadRef"}
    path = FOLDER / f"{kind.kind.lower()}-full.yaml"
    spec = loaded(path)["spec"]
    properties = root_schema(kind)["properties"]["spec"]["properties"]
    assert set(properties) - set(spec) - excluded == set(), f"crds/samples/{path.name} lacks them"
    for name in (
        "storage",
        "podTemplate",
        "networkPolicy",
        "template",
        "session",
        "rollout",
        "authentication",
        "quotas",
    ):
        if name in properties:
            assert set(properties[name]["properties"]) - set(spec[name]) == set(), (
                f"{name} in crds/samples/{path.name} lacks them"
            )


def test_a_typing_mistake_is_found() -> None:
    manifest = loaded(FOLDER / "coordinatorcluster-minimal.yaml")
    assert problems({**manifest, "spec": {"replicass": 3}})
    assert problems({**manifest, "spec": {"storage": {"sise": "1Gi"}}})
