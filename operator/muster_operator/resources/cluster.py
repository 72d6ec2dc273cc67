"""All objects of one CoordinatorCluster, in the order in which they are applied. The entry point for planning.

The StatefulSet is last: its pods need everything before it. The token Secret is separate (`token_secret.admin_token`),
because the executor draws its value.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from muster_operator.api.cluster import ClusterSpec, Listener
from muster_operator.api.releases import JOINS_SINCE, TAINTS_SINCE, Release, knows
from muster_operator.naming import bootstrap_service, service_host
from muster_operator.resources import (
    config_map,
    coordinator_pod,
    coordinator_statefulset,
    disruption_budget,
    identity,
    network_policy,
    server_properties,
    service_account,
    services,
)
from muster_operator.resources.issued_certificate import issued
from muster_operator.resources.owned import Manifest
from muster_operator.resources.peer_mode import BY_SECRET, OPEN, PeerMode
from muster_operator.world.views import OwnerView

_NODE_IP: Final = "$(NODE_IP)"


def children(
    owner: OwnerView,
    spec: ClusterSpec,
    *,
    image: str,
    operator_namespace: str,
    operator_labels: Mapping[str, str],
    replicas: int | None = None,
    founders: int | None = None,
    cluster_id: str | None = None,
    joins: bool = False,
    has_joined: bool = False,
    storage_size: str | None = None,
    pull_policy: str | None = None,
    platform_sets_user: bool = False,
    release: Release | None = None,
    release_is_said: bool = True,
    operator_release: str = "",
    lost: int = 0,
    peers: PeerMode = BY_SECRET,
    node_addresses: Iterable[str] = (),
) -> tuple[Manifest, ...]:
    """`image`, `pull_policy`: the operator's own, used if the spec sets none.

    `release`: of the wanted image; what it does not know is left out. None: it is taken for `operator_release`, the
    operator's own. Unless it `is_said` by the object or the image, nothing is begun because of it.

    `lost`: coordinators whose volumes are lost. `peers`: how the pods know each other, if their release can.

    `replicas`: of the StatefulSet now, of which `founders` have formed the cluster `cluster_id` or are to form it.
    `joins`: more than these joined it once, so the pods have what that needs. `has_joined`: some of them belong to it
    now.
    `storage_size`: as in the live StatefulSet, whose value stays. None: the spec's.
    """
    made_founders = spec.founders if founders is None else founders
    made_replicas = made_founders if replicas is None else replicas
    if release is not None and release_is_said:
        joins = release >= JOINS_SINCE
    else:
        joins = (joins or made_replicas > made_founders) and (release is None or release >= JOINS_SINCE)
    peers = peers if knows(release, "muster.peer.security") else OPEN
    config = config_map.config(owner, spec, founders=made_founders, joins=joins, release=release, peers=peers)
    template = coordinator_pod.template(
        owner,
        spec,
        image=image,
        pull_policy=pull_policy,
        platform_sets_user=platform_sets_user,
        config_map_name=config["metadata"]["name"],
        config_hash=config_map.hash_of(config),
        parts=_parts(release, joins=joins),
        peers=peers,
    )
    found = [*_services(owner, spec, made_replicas), config, *_issued(owner, spec, tuple(node_addresses))]
    found += [identity.identity(owner, cluster_id, has_joined=has_joined)] if joins else []
    if spec.pod_template.service_account_name is None:
        found.append(service_account.coordinators(owner))
    if spec.network_policy.enabled:
        found.append(
            network_policy.coordinators(
                owner, spec, operator_namespace=operator_namespace, operator_labels=operator_labels
            )
        )
    found.append(disruption_budget.coordinators(owner, replicas=made_founders, lost=lost))
    statefulset = coordinator_statefulset.statefulset(
        owner, spec, template=template, replicas=made_replicas, storage_size=storage_size or spec.storage.size,
        made_for=operator_release if release is None else str(release),
    )  # fmt: skip
    return (*found, statefulset)


def _parts(release: Release | None, *, joins: bool) -> coordinator_pod.Parts:
    return coordinator_pod.Parts(
        joins=joins,
        formed=knows(release, server_properties.FORMED_KEY),
        racks=knows(release, "broker.rack"),
        counts_tainted=release is not None and release < TAINTS_SINCE,
    )


def _issued(owner: OwnerView, spec: ClusterSpec, node_addresses: tuple[str, ...]) -> list[Manifest]:
    asked = (issued(owner, spec, listener, node_addresses) for listener in spec.listeners)
    return [one for one in asked if one is not None]


def _services(owner: OwnerView, spec: ClusterSpec, replicas: int) -> list[Manifest]:
    found = [services.peers(owner, spec), services.bootstrap(owner, spec)]
    for listener in spec.external_listeners:
        found += [services.node_port(owner, listener, ordinal) for ordinal in range(replicas)]
    return found


def internal_bootstrap(owner: OwnerView, spec: ClusterSpec, listener: Listener) -> str:
    """`host:port` where clients inside the Kubernetes cluster begin: a Service with the port of each such listener."""
    host = service_host(service=bootstrap_service(owner.name), namespace=owner.namespace, domain=spec.cluster_domain)
    return f"{host}:{listener.port}"


def external_bootstrap(owner: OwnerView, listener: Listener, hosts: Mapping[int, str], replicas: int) -> str | None:
    """`host:port,...` of an external listener, pod by pod. `hosts`: address of each pod's node, by ordinal; a pod
    without one is left out if its address needs it. None: no address is known yet."""
    template = listener.advertised_host or _NODE_IP
    found = []
    for ordinal in range(replicas):
        if _NODE_IP in template and ordinal not in hosts:
            continue
        host = (
            template.replace(_NODE_IP, hosts.get(ordinal, ""))
            .replace("$(POD_NAME)", f"{owner.name}-{ordinal}")
            .replace("$(ORDINAL)", str(ordinal))
        )
        found.append(f"{host}:{listener.node_port + ordinal}")
    return ",".join(found) or None
