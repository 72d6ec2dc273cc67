"""The NetworkPolicy of the coordinators: who may connect to which port. It needs a network plug-in that enforces
policies.

Client ports: the clients of `spec.networkPolicy.clients`, or all. The internal client port is also open to the
operator, the coordinators (for `muster group ...` run in one, as `kubectl muster` does) and the consumers of this
namespace's ConsumerGroups, which get its address. (They are selected by labels that all their pods have; a label for
the cluster would restart each of them once.) Peer port: the coordinators among themselves. Admin port: the coordinators
and the operator. Probe port: all, since metrics are read-only and scrapers differ; the kubelet's probes are always
allowed. Egress is not restricted.
"""

from collections.abc import Mapping

from muster_operator.api.cluster import ClusterSpec
from muster_operator.naming import (
    ADMIN_PORT,
    CONSUMER,
    COORDINATOR,
    INSTANCE_LABEL,
    PEER_PORT,
    PROBE_PORT,
    selector,
)
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""Set by the API server on every namespace."""


def _ports(*numbers: int) -> list[Manifest]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]


def coordinators(
    owner: OwnerView,
    spec: ClusterSpec,
    *,
    operator_namespace: str,
    operator_labels: Mapping[str, str],
) -> Manifest:
    own = {"podSelector": {"matchLabels": selector(component=COORDINATOR, instance=owner.name)}}
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME_LABEL: operator_namespace}},
        "podSelector": {"matchLabels": dict(operator_labels)} if operator_labels else {},
    }
    of_all_groups = {k: v for k, v in selector(component=CONSUMER, instance="").items() if k != INSTANCE_LABEL}
    consumers = {"podSelector": {"matchLabels": of_all_groups}}
    client_ports = [listener.port for listener in spec.listeners]
    internal_ports = [listener.port for listener in spec.internal_listeners]
    ingress: list[Manifest] = [{"ports": _ports(*client_ports)}]
    if spec.network_policy.clients:
        ingress[0]["from"] = [dict(peer) for peer in spec.network_policy.clients]
        ingress.append({"ports": _ports(*internal_ports), "from": [operator, consumers, own]})
    ingress.append({"ports": _ports(PEER_PORT), "from": [own]})
    ingress.append({"ports": _ports(ADMIN_PORT), "from": [own, operator]})
    ingress.append({"ports": _ports(PROBE_PORT)})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(owner, kind="CoordinatorCluster", component=COORDINATOR, name=owner.name),
        "spec": {
            "podSelector": own["podSelector"],
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }
