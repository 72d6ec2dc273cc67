"""Services of a CoordinatorCluster and of a ConsumerGroup.

Clients only bootstrap through a Service with a cluster address; afterwards they connect to the pods by the names that
the coordinators advertise. Therefore the headless Service publishes pods that are not Ready: peers must find each other
before any of them can be Ready, and a connected client must not lose the name during a restart.
"""

from muster_operator.api.cluster import ClusterSpec, Listener
from muster_operator.naming import (
    ADMIN_PORT,
    CONSUMER,
    COORDINATOR,
    PEER_PORT,
    POD_INDEX_LABEL,
    PROBE_PORT,
    bootstrap_service,
    external_service,
    members_service,
    peers_service,
    selector,
)
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView

CLUSTER = "CoordinatorCluster"
GROUP = "ConsumerGroup"


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}


def peers(owner: OwnerView, spec: ClusterSpec) -> Manifest:
    """Headless: gives each coordinator the DNS name by which peers, clients and the operator connect to it."""
    ports = [_port(listener.name, listener.port) for listener in spec.listeners]
    ports += [_port("peer", PEER_PORT), _port("probe", PROBE_PORT), _port("admin", ADMIN_PORT)]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, kind=CLUSTER, component=COORDINATOR, name=peers_service(owner.name)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(component=COORDINATOR, instance=owner.name),
            "ports": ports,
        },
    }


def bootstrap(owner: OwnerView, spec: ClusterSpec) -> Manifest:
    """Where clients inside the cluster bootstrap: any Ready coordinator."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, kind=CLUSTER, component=COORDINATOR, name=bootstrap_service(owner.name)),
        "spec": {
            "type": "ClusterIP",
            "selector": selector(component=COORDINATOR, instance=owner.name),
            "ports": [_port(one.name, one.port) for one in spec.internal_listeners],
        },
    }


def node_port(owner: OwnerView, listener: Listener, ordinal: int) -> Manifest:
    """One pod of one external listener, at the same port of every node. The pod is selected by its index label."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(
            owner, kind=CLUSTER, component=COORDINATOR, name=external_service(owner.name, listener.name, ordinal)
        ),
        "spec": {
            "type": "NodePort",
            "publishNotReadyAddresses": True,
            "selector": {
                **selector(component=COORDINATOR, instance=owner.name),
                POD_INDEX_LABEL: str(ordinal),
            },
            "ports": [_port(listener.name, listener.port) | {"nodePort": listener.node_port + ordinal}],
        },
    }


def members(owner: OwnerView) -> Manifest:
    """The headless Service that a StatefulSet needs to give its pods stable names."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, kind=GROUP, component=CONSUMER, name=members_service(owner.name)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(component=CONSUMER, instance=owner.name),
        },
    }
