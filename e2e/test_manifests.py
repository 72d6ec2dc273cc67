"""What the operator applies, on a real API server: accepted, stored as meant, and free of charge the second time.

No controllers run: nothing becomes a pod here.
"""

import copy
import json
import uuid
from typing import Any

import pytest
import yaml
from muster_operator.api.cluster import parse_cluster
from muster_operator.api.group import parse_group
from muster_operator.drift import drifted, with_hash
from muster_operator.resources import cluster, group
from muster_operator.world.views import OwnerView

from e2e.node.client import Client, Refused
from tests.operator.api.generate import ROOT

SAMPLES = sorted((ROOT / "crds" / "samples").glob("co*full.yaml"))
"""Of the kinds with children: topics and users have none that is applied from a manifest."""
MINIMAL = {"kind": "CoordinatorCluster", "metadata": {"name": "minimal"}, "spec": {}}
OPERATOR = {"app.kubernetes.io/name": "muster"}
NOT_OF_KUBERNETES = frozenset({"Certificate"})
"""Kinds of cert-manager, which no API server here has; the golden files have them."""
RESTRICTED = "pod-security.kubernetes.io/warn=restricted"


def manifests(owner_document: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    """The children, with their hashes as they are sent."""
    owner = OwnerView(
        name=owner_document["metadata"]["name"],
        namespace=namespace,
        uid=str(uuid.uuid4()),
        generation=1,
        resource_version="1",
        deleting=False,
        paused=False,
        restarted_at=None,
        status={},
    )
    if owner_document["kind"] == "ConsumerGroup":
        found = group.children(owner, parse_group(owner_document), bootstrap="main-bootstrap.shop.svc:9092")
    else:
        spec = parse_cluster(owner_document)
        found = cluster.children(
            owner, spec, image="muster:1", operator_namespace="muster-system", operator_labels=OPERATOR
        )
    return [with_hash(manifest) for manifest in found if manifest["kind"] not in NOT_OF_KUBERNETES]


def applied(client: Client, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Server-side apply as the operator does it; a warning of the API server is an error."""
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    words = ("apply", "--server-side", "--force-conflicts", "--field-manager=muster-operator", "--warnings-as-errors")
    said = client.kubectl(*words, "--output=json", "--filename=-", given=given)
    found: list[dict[str, Any]] = json.loads(said)["items"]
    return found


@pytest.fixture
def restricted(api: Client) -> Client:
    """A namespace of the test's own, in which the API server warns of pods that are not restricted."""
    name = f"manifests-{uuid.uuid4().hex[:8]}"
    api.kubectl("create", "namespace", name)
    api.kubectl("label", "namespace", name, RESTRICTED)
    return api.within(name)


@pytest.mark.parametrize(
    "document",
    [MINIMAL, *(yaml.safe_load(path.read_text()) for path in SAMPLES)],
    ids=["cc-minimal", "cg-full", "cc-full"],
)
def test_the_children_are_stored_as_they_were_meant(restricted: Client, document: dict[str, Any]) -> None:
    """Accepted without a warning (so the pods are restricted ones), without drift by our own comparison, and a second
    apply changes nothing: a converged object costs no write."""
    wanted = manifests(document, restricted.namespace)
    stored = applied(restricted, wanted)
    assert [drifted(live, manifest) for live, manifest in zip(stored, wanted, strict=True)] == [None] * len(wanted)
    again = applied(restricted, wanted)
    versions = [[item["metadata"]["resourceVersion"] for item in items] for items in (stored, again)]
    assert versions[0] == versions[1]


def test_a_pod_that_is_not_restricted_would_be_noticed(restricted: Client) -> None:
    """The warning that the test above relies on."""
    wanted = manifests(MINIMAL, restricted.namespace)
    loose = copy.deepcopy(wanted[-1])
    loose["spec"]["template"]["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Refused, match="allowPrivilegeEscalation"):
        applied(restricted, [loose])
