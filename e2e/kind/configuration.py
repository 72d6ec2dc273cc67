"""What kind, kubeadm and CNI are told, as values.

Nodes find their part of the sandbox's disk at the same path as the sandbox does, so that a volume's folder has one name
for everybody; each node sees only its own. The API server's flags are those of the single node
(e2e.node.control_plane), as far as kubeadm does not set them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CLUSTER = "muster"
CONTROL_PLANE = f"{CLUSTER}-control-plane"
NODES = (CONTROL_PLANE, f"{CLUSTER}-worker", f"{CLUSTER}-worker2")  # kind's names
POD_RANGE = "10.244.0.0/16"
SERVICE_RANGE = "10.96.0.0/16"
RESOLVER = "/etc/muster-resolv.conf"
AUDIT = "/var/log/muster-audit"
AUDIT_POLICY = "/etc/muster-audit-policy.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node that has joined: its address on the nodes' network and the range of its pods."""

    name: str
    address: str
    pods: str


def cluster(image: str, state: Path, *, published: bool, cgroup_version: int) -> str:
    """kind's configuration (JSON is YAML): a control plane and two workers."""
    patches = [_cluster_patch(), _kubelet_patch(published=published, cgroup_version=cgroup_version)]
    return json.dumps(
        {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "name": CLUSTER,
            "networking": {"disableDefaultCNI": True, "podSubnet": POD_RANGE, "serviceSubnet": SERVICE_RANGE},
            "kubeadmConfigPatches": [json.dumps(patch) for patch in patches],
            "nodes": [
                {
                    "role": "control-plane" if name == CONTROL_PLANE else "worker",
                    "image": image,
                    "extraMounts": _mounts(name, state),
                }
                for name in NODES
            ],
        }
    )


def volumes_of(node: str, state: Path) -> Path:
    """The folder of a node's volumes, in the sandbox and in the node."""
    return state / "pv" / node


def _mounts(node: str, state: Path) -> list[dict[str, object]]:
    volumes = str(volumes_of(node, state))
    found: list[dict[str, object]] = [
        {"hostPath": volumes, "containerPath": volumes},
        {"hostPath": str(state / "nodes-resolv.conf"), "containerPath": RESOLVER, "readOnly": True},
    ]
    if node == CONTROL_PLANE:
        found += [
            {"hostPath": str(state / "logs"), "containerPath": AUDIT},
            {"hostPath": str(state / "audit-policy.json"), "containerPath": AUDIT_POLICY, "readOnly": True},
        ]
    return found


def _cluster_patch() -> dict[str, object]:
    flags = {
        "enable-admission-plugins": "NodeRestriction,OwnerReferencesPermissionEnforcement",
        "audit-policy-file": AUDIT_POLICY,
        "audit-log-path": f"{AUDIT}/audit.log",
    }
    mounted = [
        {"name": "audit-log", "hostPath": AUDIT, "mountPath": AUDIT, "pathType": "Directory"},
        {"name": "audit-policy", "hostPath": AUDIT_POLICY, "mountPath": AUDIT_POLICY, "readOnly": True},
    ]
    return {
        "kind": "ClusterConfiguration",
        "apiServer": {"extraArgs": _arguments(flags), "extraVolumes": mounted},
        "etcd": {"local": {"extraArgs": _arguments({"unsafe-no-fsync": "true"})}},
    }


def _kubelet_patch(*, published: bool, cgroup_version: int) -> dict[str, object]:
    patch: dict[str, object] = {
        "kind": "KubeletConfiguration",
        "resolvConf": RESOLVER,
        "imageGCLowThresholdPercent": 99,
    }
    if not published:
        # systemd as the kubelet's cgroup driver fails by a race on version 1.
        patch |= {"cgroupDriver": "cgroupfs", "cgroupRoot": "/", "failCgroupV1": cgroup_version != 1}
    return patch


def _arguments(flags: Mapping[str, str]) -> list[dict[str, str]]:
    """As kubeadm's v1beta4 has them."""
    return [{"name": name, "value": value} for name, value in flags.items()]


def pod_network(pods: str) -> str:
    """CNI configuration of one node, whose pods have the range `pods`: a cable each to the node, which routes.

    No masquerading: every node and the sandbox have a route to every pod.
    """
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni",
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "muster", "plugins": plugins})


def routes(members: Sequence[Member], *, at: str | None) -> str:
    """Commands for `ip -batch` that lead to the pods of every node but `at`."""
    others = [member for member in members if member.name != at]
    return "".join(f"route replace {member.pods} via {member.address}\n" for member in others)


def members(nodes: Sequence[Mapping[str, object]]) -> list[Member] | None:
    """From the API's Node objects; None while one has no address or no range yet."""
    found = []
    for node in nodes:
        member = _member(node)
        if member is None:
            return None
        found.append(member)
    return sorted(found, key=lambda member: NODES.index(member.name)) if len(found) == len(NODES) else None


def _member(node: Mapping[str, object]) -> Member | None:
    metadata, spec, status = node["metadata"], node["spec"], node["status"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    assert isinstance(status, dict)
    addresses = [one["address"] for one in status.get("addresses", ()) if one["type"] == "InternalIP"]
    if not addresses or "podCIDR" not in spec:
        return None
    return Member(name=metadata["name"], address=addresses[0], pods=spec["podCIDR"])
