"""The NetworkPolicy of the coordinators: who may connect to which port. It needs a network plug-in that enforces
policies.

Client ports: the clients of `spec.networkPolicy.clients`, or all. The internal client port is also open to the
operator, the coordinators (for `muster group ...` run in one, as `kubectl muster` does) and the consumers of this
namespace's ConsumerGroups, which get its address. (They are selected by labels that all their pods have; a label for
the cluster would restart each of them once.) Peer port: the coordinators among themselves. Admin port: the coordinators
and the operator. Probe port: all, since metrics are read-only and scrapers differ; the kubelet's probes are always
allowed. Egress is not restricted.

Who reaches a client port reaches the listener's ports for the brokers of an existing Kafka, too (`upstream_kafka`).
"""

from collections.abc import Mapping

from muster_operator.api.cluster import ClusterSpec, Listener
from muster_operator.naming import (
    ADMIN_PORT,
    CONSUMER,
    COORDINATOR,
    INSTANCE_LABEL,
    PEER_PORT,
    PROBE_PORT,
    selector,
)
from muster_operator.resources import upstream_kafka
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""Set by the API server on every namespace."""


def _ports(*numbers: int) -> list[Manifest]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]


def _of(spec: ClusterSpec, listeners: tuple[Listener, ...]) -> list[Manifest]:
    return _ports(*(listener.port for listener in listeners)) + upstream_kafka.policy_ports(spec, listeners)


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
    ingress: list[Manifest] = [{"ports": _of(spec, spec.listeners)}]
    if spec.network_policy.clients:
        ingress[0]["from"] = [dict(peer) for peer in spec.network_policy.clients]
        ingress.append({"ports": _of(spec, spec.internal_listeners), "from": [operator, consumers, own]})
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
