"""Owners and specs that the tests of the builders share."""

from typing import Any

from muster_operator.api.cluster import ClusterSpec, parse_cluster
from muster_operator.api.group import GroupSpec, parse_group
from muster_operator.api.releases import release_of
from muster_operator.resources import cluster, group
from muster_operator.world.views import OwnerView

UID = "3f1c9a52-0c52-4d0e-9a63-5e1c2b7d8f10"
OPERATOR = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "operator"}
IMAGE = "registry.example.com/muster:0.1.0"
EXTERNAL = {"name": "external", "type": "nodePort", "port": 9094, "nodePortBase": 31090}
INTERNAL = {"name": "internal", "type": "internal", "port": 9092}


def owner(name: str = "main", *, restarted_at: str | None = None) -> OwnerView:
    return OwnerView(
        name=name,
        namespace="shop",
        uid=UID,
        generation=1,
        resource_version="1",
        deleting=False,
        paused=False,
        restarted_at=restarted_at,
        status={},
    )


def cluster_spec(**spec: Any) -> ClusterSpec:
    return parse_cluster({"metadata": {"name": "main"}, "spec": spec})


def group_spec(**spec: Any) -> GroupSpec:
    given = {"groupId": "billing", "topics": ["orders", "returns"], "clusterRef": {"name": "main"}, **spec}
    return parse_group({"metadata": {"name": "main"}, "spec": given})


def cluster_children(spec: ClusterSpec, **arguments: Any) -> tuple[dict[str, Any], ...]:
    given = {"image": IMAGE, "operator_namespace": "muster-system", "operator_labels": OPERATOR, **arguments}
    release = release_of(spec.image or given["image"], told=spec.version, operator_image=IMAGE, operator_release="")
    return cluster.children(owner(), spec, **{"release": release, **given})


def group_children(spec: GroupSpec, *, name: str = "billing") -> tuple[dict[str, Any], ...]:
    return group.children(owner(name), spec, bootstrap="main-bootstrap.shop.svc:9092")


def one(manifests: tuple[dict[str, Any], ...], kind: str, name: str = "") -> dict[str, Any]:
    found = [item for item in manifests if item["kind"] == kind and (not name or item["metadata"]["name"] == name)]
    assert len(found) == 1, [item["metadata"]["name"] for item in found]
    return found[0]


def secret_files(pod: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Path in the pod's first container -> (Secret, its key)."""
    folders = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    return {
        f"{folders[volume['name']]}/{item['path']}": (volume["secret"]["secretName"], item["key"])
        for volume in pod["volumes"]
        if "secret" in volume and volume["name"] in folders
        for item in volume["secret"]["items"]
    }
