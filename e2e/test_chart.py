"""The chart: what it renders, what it refuses and in which words, and a release's whole life on a real API server.

`MUSTER_REWRITE=1 pytest e2e/test_chart.py` writes the golden files anew; commit only differences that you can explain.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_operator.api.kinds import KINDS

from e2e.conftest import missing
from e2e.fleet import OPERATOR_NAMESPACE, Cluster
from e2e.node import promtool, session
from e2e.node.client import Client, Refused
from e2e.node.errors import Unavailable
from e2e.node.session import Description
from e2e.operator_process import established
from tests.operator.api.generate import ROOT

pytestmark = pytest.mark.timeout(300)

CHART = ROOT / "charts" / "muster"
GOLDEN = Path(__file__).with_name("golden")
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
PROMETHEUS = "--api-versions=monitoring.coreos.com/v1"
IMAGE = ("--set", "image.repository=registry.example.com/muster")
WIDE = "--set=clusterWide=true"
OLD_VERSION = "0.0.9"


def rendered(client: Client, *words: str) -> list[dict[str, Any]]:
    """The objects, in Helm's order."""
    text = client.helm("template", "muster", str(CHART), "--namespace=muster", PROMETHEUS, *words)
    return [one for one in yaml.safe_load_all(text) if one]


def shortened(objects: list[dict[str, Any]]) -> str:
    """Definitions by metadata alone: their content is tested where they are generated."""
    for one in objects:
        if one["kind"] == "CustomResourceDefinition":
            one["spec"] = "see crds/"
    return yaml.safe_dump_all(objects, sort_keys=False, width=140)


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem.removesuffix("-values"))
def test_templates(api: Client, values: Path) -> None:
    """Lint finds nothing, and each file of values renders what is checked in."""
    said = api.helm("lint", str(CHART), f"--values={values}", "--strict")
    assert "0 chart(s) failed" in said
    text = shortened(rendered(api, f"--values={values}"))
    golden = GOLDEN / f"{values.stem.removesuffix('-values')}.yaml"
    if os.environ.get("MUSTER_REWRITE"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert golden.read_text() == text, "MUSTER_REWRITE=1 writes it anew"


@pytest.mark.parametrize(("setting", "asked"), [("auto", False), ("true", False), ("false", True)])
def test_a_platform_that_sets_users_is_seen_by_its_api(api: Client, setting: str, asked: bool) -> None:
    """OpenShift refuses the ids of others; whoever sets the value by hand is obeyed."""
    openshift = "--api-versions=security.openshift.io/v1"
    objects = rendered(api, *IMAGE, openshift, "--set", f"platformSetsUser={setting}")
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert ("runAsUser" in pod["securityContext"]) is asked
    names = {one["name"] for one in pod["containers"][0]["env"]}
    assert ("MUSTER_OPERATOR_PLATFORM_SETS_USER" in names) is not asked


def test_every_golden_file_has_its_values() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == {path.stem.removesuffix("-values") for path in VALUES}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("replicaCount=2", "additional properties 'replicaCount' not allowed"),
        ("metrics.podMonitr.enabled=true", "additional properties 'podMonitr' not allowed"),
        ("replicas=4", "at '/replicas': maximum: got 4, want 3"),
        ("image.digest=abc", "at '/image/digest': 'abc' does not match pattern"),
        ("image.pullPolicy=Sometimes", "at '/image/pullPolicy': value must be one of"),
        ("watchNamespaces={Bad_Name}", "at '/watchNamespaces/0'"),
        ("clusterWide=perhaps", "at '/clusterWide': value must be one of"),
        ("clusterWide=true,watchNamespaces={shop}", "clusterWide=true and watchNamespaces exclude each other"),
        ("logLevel=loud", "value must be one of 'debug', 'info', 'warning', 'error'"),
        (
            "image.repository=",
            "image.repository must be set to where you pushed the image",
        ),
        ("serviceAccount.create=false", "serviceAccount.name must be set when serviceAccount.create is false"),
    ],
)
def test_refusals(api: Client, setting: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        rendered(api, *IMAGE, f"--set={setting}")


def test_the_alerts_fire_when_they_should() -> None:
    """promtool: the rules are well formed, and every alert's test holds."""
    try:
        tool = promtool.promtool()
    except Unavailable as reason:
        missing("promtool", str(reason))
    for words in (["check", "rules", "muster.yaml"], ["test", "rules", "muster_test.yaml"]):
        done = subprocess.run(
            [tool, *words], cwd=CHART / "rules", capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    rules = yaml.safe_load((CHART / "rules" / "muster.yaml").read_text())
    names = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    tests = yaml.safe_load((CHART / "rules" / "muster_test.yaml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    quiet = {case["alertname"] for test in tests for case in test["alert_rule_test"] if not case["exp_alerts"]}
    assert (names - fired, names - quiet) == (set(), set()), "each alert is seen to fire, and to stay silent"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Client]:
    """An API server of the test's own: definitions are cluster-wide."""
    plane = session.api_only(tmp_path / "api")
    try:
        client = Client(tools=plane.tools, kubeconfig=plane.kubeconfig, namespace="muster")
        client.kubectl("create", "namespace", "shop")
        yield client
    finally:
        plane.stop()


def older(folder: Path) -> Path:
    """The chart as an older release might have been: another version, a definition that lacks a field."""
    chart = folder / "muster"
    shutil.copytree(CHART, chart)
    path = chart / "Chart.yaml"
    path.write_text(re.sub(r"(?m)^version: .*", f"version: {OLD_VERSION}", path.read_text()))
    path = chart / "files" / "crds" / "consumergroups.yaml"
    definition = yaml.safe_load(path.read_text())
    del schema(definition)["spec"]["properties"]["assignor"]
    path.write_text(yaml.safe_dump(definition))
    return chart


def schema(definition: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return found


def knows_assignor(client: Client) -> bool:
    return "assignor" in schema(client.read("crd", "consumergroups.muster.dev"))["spec"]["properties"]


def test_a_releases_life(cluster: Client, tmp_path: Path) -> None:
    """Install, upgrade, rollback, uninstall, install again: definitions follow, objects and workloads stay."""
    shop = cluster.within("shop")
    cluster.helm("install", "muster", str(older(tmp_path)), "--create-namespace", *IMAGE)
    established(cluster)
    assert not knows_assignor(cluster)
    shop.kubectl("apply", f"--filename={ROOT / 'crds/samples/coordinatorcluster-minimal.yaml'}")
    shop.kubectl("apply", f"--filename={ROOT / 'crds/samples/consumergroup-minimal.yaml'}")
    group = shop.read("cg", "billing")["metadata"]
    owner = {"apiVersion": "muster.dev/v1alpha1", "kind": "ConsumerGroup", "name": group["name"], "uid": group["uid"]}
    workload = {"name": "workload", "ownerReferences": [{**owner, "controller": True}]}
    shop.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": workload})

    def kept() -> set[str]:
        names = shop.kubectl("get", "cc,cg,configmaps", "--output=name")
        assert shop.read("cg", "billing")["metadata"]["uid"] == group["uid"], "another object"
        return set(names.split())

    everything = kept()
    assert len(everything) == 3
    cluster.helm("upgrade", "muster", str(CHART), *IMAGE, "--set=replicas=2")
    assert knows_assignor(cluster), "an upgrade of the chart upgrades its definitions"
    assert cluster.read("deployment", "muster-operator")["spec"]["replicas"] == 2
    assert cluster.read("pdb", "muster-operator")["spec"]["maxUnavailable"] == 1
    cluster.helm("rollback", "muster", "1")
    assert cluster.read("deployment", "muster-operator")["spec"]["replicas"] == 1
    assert kept() == everything
    said = cluster.helm("uninstall", "muster")
    assert "crd" in said.lower() or "CustomResourceDefinition" in said, "it says what it leaves behind"
    with pytest.raises(Refused, match="not found"):
        cluster.read("deployment", "muster-operator")
    left = cluster.kubectl("get", "deployments,roles,rolebindings,serviceaccounts,services,pdb", "--output=name")
    assert left.split() == []
    assert "muster" not in cluster.kubectl("get", "clusterroles,clusterrolebindings", "--output=name")
    assert kept() == everything
    cluster.helm("install", "muster", str(CHART), *IMAGE)
    assert knows_assignor(cluster), "the definitions that stayed are taken over"
    assert kept() == everything


def binding_as_before(folder: Path) -> Path:
    """The chart with the cluster-wide binding named after the release, as it once was."""
    chart = older(folder)
    path = chart / "templates" / "rbac.yaml"
    text = path.read_text().replace('{{ include "muster.clusterWideBinding" . }}', "{{ $name }}")
    path.write_text(text.replace('{{- include "muster.onlyClusterWide" . }}', ""))
    assert text != (CHART / "templates" / "rbac.yaml").read_text()
    return chart


def cluster_wide(client: Client) -> set[str]:
    """Names of bindings that give an operator every namespace."""
    found = client.read("clusterrolebindings", "--selector=app.kubernetes.io/name=muster-operator")["items"]
    return {one["metadata"]["name"] for one in found}


def test_a_second_cluster_wide_release_is_refused_in_words(cluster: Client, tmp_path: Path) -> None:
    """Also beside a release of before; and what was cluster-wide stays so through upgrade and rollback."""
    chart = str(binding_as_before(tmp_path))
    cluster.helm("install", "first", chart, "--create-namespace", *IMAGE, WIDE)
    assert cluster_wide(cluster) == {"first-muster-operator"}
    cluster.helm("upgrade", "first", str(CHART), *IMAGE)
    assert cluster_wide(cluster) == {"muster-operator"}
    words = "release first in namespace muster serves all namespaces already"
    for place in (cluster, cluster.within("shop")):
        with pytest.raises(Refused, match=words):
            place.helm("install", "second", str(CHART), *IMAGE, WIDE, "--set=crds.install=false")
        with pytest.raises(Refused, match="belong to release first|" + words):
            place.helm("install", "second", str(CHART), *IMAGE, WIDE)
    cluster.helm("rollback", "first", "1")
    assert cluster_wide(cluster) == {"first-muster-operator"}
    cluster.helm("upgrade", "first", str(CHART), *IMAGE)
    cluster.helm("upgrade", "first", str(CHART), *IMAGE, "--set=logLevel=debug")
    assert cluster_wide(cluster) == {"muster-operator"}


def served_by(cluster: Client, release: str) -> str:
    """What its operator watches; "" is everything."""
    (container,) = cluster.read("deployment", f"{release}-muster-operator")["spec"]["template"]["spec"]["containers"]
    said = {one["name"]: one.get("value", "") for one in container["env"]}
    return str(said["MUSTER_OPERATOR_NAMESPACES"])


def test_a_new_release_serves_its_own_namespace_and_one_that_is_there_what_it_did(cluster: Client) -> None:
    """New: a Role where it is installed, and nothing cluster-wide. Upgraded without a word: as before, both ways."""
    cluster.helm("install", "small", str(CHART), "--create-namespace", *IMAGE)
    assert (served_by(cluster, "small"), cluster_wide(cluster)) == ("muster", set())
    assert cluster.read("role", "small-muster-operator")["metadata"]["namespace"] == "muster"
    cluster.helm("upgrade", "small", str(CHART), *IMAGE, "--set=logLevel=debug")
    assert (served_by(cluster, "small"), cluster_wide(cluster)) == ("muster", set())
    cluster.helm("upgrade", "small", str(CHART), *IMAGE, WIDE)
    assert (served_by(cluster, "small"), cluster_wide(cluster)) == ("", {"muster-operator"})
    cluster.helm("upgrade", "small", str(CHART), *IMAGE)
    assert (served_by(cluster, "small"), cluster_wide(cluster)) == ("", {"muster-operator"})
    cluster.helm("upgrade", "small", str(CHART), *IMAGE, "--set=clusterWide=false")
    assert (served_by(cluster, "small"), cluster_wide(cluster)) == ("muster", set())


def test_two_releases_in_one_namespace(cluster: Client) -> None:
    """Each serves its own namespaces under a Lease of its own; definitions belong to one of them."""
    cluster.kubectl("create", "namespace", "bank")
    cluster.helm("install", "a", str(CHART), "--create-namespace", *IMAGE, "--set=watchNamespaces={shop}")
    with pytest.raises(Refused, match=r"belong to release a in namespace muster; set crds\.install=false"):
        cluster.helm("install", "b", str(CHART), *IMAGE, "--set=watchNamespaces={bank}")
    cluster.helm("install", "b", str(CHART), *IMAGE, "--set=watchNamespaces={bank}", "--set=crds.install=false")
    assert cluster_wide(cluster) == set()
    for release, served, other in (("a", "shop", "bank"), ("b", "bank", "shop")):
        name = f"{release}-muster-operator"
        (container,) = cluster.read("deployment", name)["spec"]["template"]["spec"]["containers"]
        said = {one["name"]: one.get("value") for one in container["env"]}
        assert (said["MUSTER_OPERATOR_LEASE_NAME"], said["MUSTER_OPERATOR_NAMESPACES"]) == (name, served)
        account = f"--as=system:serviceaccount:muster:{name}"

        def may(*words: str, account: str = account) -> bool:
            try:
                return cluster.kubectl("auth", "can-i", *words, account).strip() == "yes"
            except Refused:
                return False

        assert may("update", f"leases/{name}")
        assert may("update", "leases/muster-operator-namespace", f"--namespace={served}")
        assert may("patch", "statefulsets.apps", f"--namespace={served}")
        assert not may("patch", "statefulsets.apps", f"--namespace={other}")
        assert may("get", "secrets", f"--namespace={served}")
        assert not may("get", "secrets", f"--namespace={other}"), "what is not its own it cannot read"
        assert not may("get", "secrets"), "nor beside itself"
        assert not may("list", "secrets", f"--namespace={served}")


def test_definitions_can_be_left_to_somebody_else(cluster: Client) -> None:
    """GitOps: `crds.install=false`, and `kubectl apply --server-side -f crds/` as NOTES says."""
    said = cluster.helm("install", "muster", str(CHART), "--create-namespace", *IMAGE, "--set=crds.install=false")
    assert "kubectl apply --server-side -f crds/" in said
    assert cluster.kubectl("get", "crd", "--output=name") == ""
    cluster.kubectl("apply", "--server-side", f"--filename={ROOT / 'crds'}")
    cluster.helm("upgrade", "muster", str(CHART), *IMAGE, "--set=crds.install=false")
    cluster.helm("uninstall", "muster")
    assert len(cluster.kubectl("get", "crd", "--output=name").split()) == len(KINDS)


def test_pods_pass_the_restricted_level(operator: Client, shared: Cluster) -> None:
    """The API server itself judges every pod that runs: operator, coordinators, and consumers where a group is left."""
    assert operator.read("pods")["items"]
    assert shared.pods()
    for namespace in (OPERATOR_NAMESPACE, shared.client.namespace):
        operator.kubectl(
            "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted", "--dry-run=server",
            "--overwrite", "--warnings-as-errors",
        )  # fmt: skip


def test_a_restricted_namespace_takes_cluster_and_group(operator: Client, namespace: Client, node: Description) -> None:
    """Enforced at creation, with the image's own consumer as README's sample has it."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    operator.kubectl("label", "namespace", namespace.namespace, label)
    cluster = Cluster.create(namespace, replicas=1).ready()
    cluster.create_topic("flights", 2)
    sample = yaml.safe_load((ROOT / "crds" / "samples" / "consumergroup-flights.yaml").read_text())
    sample["spec"]["template"] |= {"image": node.muster_image, "imagePullPolicy": "Never"}
    namespace.apply(sample)
    namespace.kubectl("wait", "--for=condition=Ready", "cg/flights", "--timeout=120s", timeout_s=130)
    namespace.kubectl("delete", "cg", "flights")
