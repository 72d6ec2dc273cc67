"""The settings file of all coordinators of one cluster: Kafka's setting names, the same text for every pod.

What differs between pods is written as `${env:NAME}` (KIP-887), which the coordinator replaces from its environment:
its ordinal, its name, its node's address and zone. So the file, and with it the revision of the pods, does not depend
on where a pod runs. A node port is the digits of its base with the ordinal as the last digit; bases are divisible by
10.
"""

from typing import Final

from muster_operator.api.cluster import NODE_PORT_STRIDE, ClusterSpec, Listener
from muster_operator.api.releases import Release, knows
from muster_operator.naming import ADMIN_PORT, PEER_PORT, PROBE_PORT, peers_service, pod_host, pod_name
from muster_operator.resources import oauth, secured, topic_store, upstream_kafka
from muster_operator.resources.peer_mode import OPEN, PeerMode
from muster_operator.world.views import OwnerView

DATA_DIR: Final = "/data"
CONFIG_DIR: Final = "/etc/muster"
FILE_NAME: Final = "server.properties"
TOKEN_DIR: Final = "/etc/muster-admin"
SHUTDOWN_GRACE_SECONDS: Final = 60
"""The pod's grace period and `shutdown.grace.ms`: the coordinator stops draining 10 s before its end."""

POD_INDEX: Final = "POD_INDEX"
POD_NAME: Final = "POD_NAME"
CLUSTER_ID: Final = "CLUSTER_ID"
CLUSTER_FORMED: Final = "CLUSTER_FORMED"
FORMED_KEY: Final = "muster.cluster.formed"
NODE_IP: Final = "NODE_IP"
RACK: Final = "RACK"
_PLACEHOLDERS: Final = {"$(NODE_IP)": NODE_IP, "$(POD_NAME)": POD_NAME, "$(ORDINAL)": POD_INDEX}


def _environment(name: str) -> str:
    return f"${{env:{name}}}"


def _advertised(owner: OwnerView, spec: ClusterSpec, listener: Listener) -> str:
    if listener.type == "internal":
        return f"{_own_host(owner, spec)}:{listener.port}"
    host = listener.advertised_host or "$(NODE_IP)"
    for placeholder, name in _PLACEHOLDERS.items():
        host = host.replace(placeholder, _environment(name))
    return f"{host}:{listener.node_port // NODE_PORT_STRIDE}{_environment(POD_INDEX)}"


def _own_host(owner: OwnerView, spec: ClusterSpec) -> str:
    return pod_host(
        pod=_environment(POD_NAME),
        service=peers_service(owner.name),
        namespace=owner.namespace,
        domain=spec.cluster_domain,
    )


def _voters(owner: OwnerView, spec: ClusterSpec, replicas: int) -> str:
    hosts = (
        pod_host(
            pod=pod_name(owner.name, ordinal),
            service=peers_service(owner.name),
            namespace=owner.namespace,
            domain=spec.cluster_domain,
        )
        for ordinal in range(replicas)
    )
    return ",".join(f"{ordinal}@{host}:{PEER_PORT}" for ordinal, host in enumerate(hosts))


def settings(
    owner: OwnerView,
    spec: ClusterSpec,
    *,
    replicas: int,
    joins: bool = False,
    release: Release | None = None,
    peers: PeerMode = OPEN,
) -> dict[str, str]:
    """Key → value, the operator's keys first. `replicas`: the number that formed the cluster. `joins`: pods beyond
    these may read the file too.

    `release` of the coordinators: keys of the operator that it does not know are left out, because an unknown key stops
    its start. The user's keys are always written: leaving one out would silently ignore it.
    """
    own = _own_settings(owner, spec, replicas)
    if joins:
        own |= {
            "muster.cluster.id": _environment(CLUSTER_ID),
            FORMED_KEY: _environment(CLUSTER_FORMED),
            "muster.peer.advertised": f"{_own_host(owner, spec)}:{PEER_PORT}",
        }
    if peers != OPEN:
        own |= secured.settings_of_peers(peers)
    written = {key: value for key, value in own.items() if knows(release, key)} | secured.settings(spec, peers)
    written |= oauth.settings(spec) | topic_store.settings(spec)
    written |= upstream_kafka.settings(spec, host=_own_host(owner, spec))
    return written | {key: str(value) for key, value in sorted(spec.config.items())}


def _own_settings(owner: OwnerView, spec: ClusterSpec, replicas: int) -> dict[str, str]:
    names = {listener.name: listener.name.upper() for listener in spec.listeners}
    return {
        "node.id": _environment(POD_INDEX),
        "log.dirs": DATA_DIR,
        "broker.rack": _environment(RACK),
        "controller.quorum.voters": _voters(owner, spec, replicas),
        "listeners": ",".join(f"{names[item.name]}://0.0.0.0:{item.port}" for item in spec.listeners),
        "advertised.listeners": ",".join(
            f"{names[item.name]}://{_advertised(owner, spec, item)}" for item in spec.listeners
        ),
        "listener.security.protocol.map": ",".join(f"{names[item.name]}:{item.protocol}" for item in spec.listeners),
        "muster.peer.listener": f"0.0.0.0:{PEER_PORT}",
        "muster.probe.listener": f"0.0.0.0:{PROBE_PORT}",
        "muster.admin.listener": f"0.0.0.0:{ADMIN_PORT}",
        "muster.admin.advertised": f"{_own_host(owner, spec)}:{ADMIN_PORT}",
        "muster.admin.token.file": f"{TOKEN_DIR}/token",
        "shutdown.grace.ms": str(SHUTDOWN_GRACE_SECONDS * 1000),
        "offsets.topic.num.partitions": str(spec.offsets_partitions),
        "offsets.topic.replication.factor": str(replicas),
    }


def _escaped(value: str) -> str:
    """Java's `.properties` syntax; CEL and parser exclude line ends."""
    doubled = value.replace("\\", "\\\\")
    return f"\\{doubled}" if doubled[:1].isspace() else doubled


def text(
    owner: OwnerView,
    spec: ClusterSpec,
    *,
    replicas: int,
    joins: bool = False,
    release: Release | None = None,
    peers: PeerMode = OPEN,
) -> str:
    found = settings(owner, spec, replicas=replicas, joins=joins, release=release, peers=peers)
    lines = [f"{key}={_escaped(value)}" for key, value in found.items()]
    return "\n".join(["# Written by the operator from the CoordinatorCluster; changes here are undone.", *lines]) + "\n"
