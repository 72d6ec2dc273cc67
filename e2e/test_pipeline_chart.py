"""The pipeline's chart: what it renders, what it refuses and in which words, and what a real API server says of it.

`MUSTER_REWRITE=1 pytest e2e/test_pipeline_chart.py` writes the golden files anew; commit only differences that you can
explain. What the arguments in them mean to the program is in tests/pipeline/cli/test_chart.py.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.node.client import Client, Refused
from tests.operator.api.generate import ROOT

pytestmark = pytest.mark.timeout(300)

CHART = ROOT / "charts" / "muster-pipeline"
GOLDEN = Path(__file__).with_name("golden") / "pipeline"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
GIVEN = (
    "--set=image.repository=registry.example.com/p", "--set=cluster=c", "--set=tables=s3a://lake/t",
    "--set=source.bootstrap=kafka:9092",
)  # fmt: skip
FILES = "source.bootstrap=,stream.enabled=false,batch.enabled=true"


def rendered(client: Client, *words: str) -> list[dict[str, Any]]:
    """The objects, in Helm's order."""
    text = client.helm(
        "template", "lake", str(CHART), "--namespace=muster", "--api-versions=monitoring.coreos.com/v1", *words
    )
    return [one for one in yaml.safe_load_all(text) if one]


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem.removesuffix("-values"))
def test_templates(api: Client, values: Path) -> None:
    """Lint finds nothing, each file of values renders what is checked in, and the API server takes it without a warning
    where pods must be restricted."""
    said = api.helm("lint", str(CHART), f"--values={values}", "--strict")
    assert "0 chart(s) failed" in said
    objects = rendered(api, f"--values={values}")
    text = yaml.safe_dump_all(objects, sort_keys=False, width=140)
    golden = GOLDEN / f"{values.stem.removesuffix('-values')}.yaml"
    if os.environ.get("MUSTER_REWRITE"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert golden.read_text() == text, "MUSTER_REWRITE=1 writes it anew"
    namespace = f"pipeline-{golden.stem}"
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})
    for one in objects:
        if one["kind"] != "PodMonitor":
            one["metadata"]["namespace"] = namespace
            api.within(namespace).kubectl(
                "apply", "--filename=-", "--server-side", "--dry-run=server", "--validate=strict",
                "--warnings-as-errors", given=yaml.safe_dump(one),
            )  # fmt: skip


def test_every_golden_file_has_its_values() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == {path.stem.removesuffix("-values") for path in VALUES}


def test_a_warning_would_be_seen(api: Client) -> None:
    """So that silence above means something."""
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pipeline-warned", "labels": labels}})
    deployment = next(one for one in rendered(api, *GIVEN) if one["kind"] == "Deployment")
    deployment["metadata"]["namespace"] = "pipeline-warned"
    deployment["spec"]["template"]["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Refused, match="would violate PodSecurity"):
        api.within("pipeline-warned").kubectl(
            "apply", "--filename=-", "--server-side", "--dry-run=server", "--warnings-as-errors",
            given=yaml.safe_dump(deployment),
        )  # fmt: skip


def test_nothing_has_rights_or_a_token(api: Client) -> None:
    for values in VALUES:
        objects = rendered(api, f"--values={values}")
        assert not {one["kind"] for one in objects} & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
        for one in objects:
            if one["kind"] == "ServiceAccount":
                assert one["automountServiceAccountToken"] is False
            if one["kind"] in ("Deployment", "CronJob"):
                spec = one["spec"] if one["kind"] == "Deployment" else one["spec"]["jobTemplate"]["spec"]
                assert spec["template"]["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("image.repository=", "image.repository must be set to an image with muster"),
        ("cluster=", "cluster must be set"),
        ("tables=", "tables must be set"),
        ("tables=/elsewhere", "storage.existingClaim names no volume"),
        ("tables=/elsewhere,storage.existingClaim=t", "tables must be below /tables"),
        ("tables=s3:/lake", "at '/tables'"),
        ("batch.enabled=true", "exclude each other: a cluster has one writer"),
        ("source.bootstrap=", "source.bootstrap or source.segments must be set"),
        ("source.bootstrap=kafka", "at '/source/bootstrap'"),
        ("source.segments=s3://x/y", "source.bootstrap and source.segments exclude each other"),
        ("source.bootstrap=,source.segments=s3://x/y", "stream.enabled needs source.bootstrap"),
        (f"{FILES},source.segments=/logs/x", "source.existingClaim names no volume"),
        ("source.client.sasl\\.plain\\.password=x", "invalid propertyName 'sasl.plain.password'"),
        ("stream.everySeconds=0", "at '/stream/everySeconds': minimum"),
        ("batch.schedule=hourly", "at '/batch/schedule'"),
        ("report.names={prometheus}", "at '/report/names/0'"),
        ("stream.replicas=2", "additional properties 'replicas' not allowed"),
        ("serviceAccount.create=false", "serviceAccount.name must be set when serviceAccount.create is false"),
    ],
)
def test_refusals(api: Client, setting: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        rendered(api, *GIVEN, f"--set={setting}")
