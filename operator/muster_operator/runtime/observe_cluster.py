"""Observes one CoordinatorCluster: Kubernetes objects from the cache, its replicas through the admin API.

The admin token is read from its Secret in each pass (RBAC allows no watch on Secrets, and a rotated token takes effect
at once). It stays in `ClusterObservation` and is never part of the world that planning, logs and conditions see.
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_operator import naming
from muster_operator.api.cluster import ClusterSpec, parse_cluster
from muster_operator.drift import quantity
from muster_operator.kube.kinds import CLAIM, SECRET, STATEFULSET
from muster_operator.kube.views import controller_uid, node_addresses, owner_view, statefulset_view
from muster_operator.plan.quorum import controller_leader
from muster_operator.ports import Admin, Clock, Kube
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.keys import OwnerKey
from muster_operator.runtime.observe_certificates import observe_certificates
from muster_operator.runtime.observe_issued import observe_issued
from muster_operator.runtime.observe_volumes import observe_volumes
from muster_operator.world.admin_at import AdminAt, SecuredAdmin
from muster_operator.world.cluster import ClusterWorld, MovesView, ReplicationView, ReplicaView
from muster_operator.world.views import OwnerView, PodView, StatefulSetView, Unknown

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach the admin APIs of one cluster. The token must not be printed."""

    token: str | None = field(repr=False)
    hosts: Mapping[str, AdminAt]
    """By pod name, for the pods that have an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObservation:
    world: ClusterWorld
    access: Access


async def observe_cluster(
    key: OwnerKey, live: Object, *, cache: Cache, kube: Kube, admin: Admin, clock: Clock
) -> ClusterObservation:
    """Raises InvalidObject (the spec), Transient or Refused (the Secret could not be read)."""
    owner = owner_view(live)
    spec = parse_cluster(live)
    pods = cache.pods(key)
    children = dict(cache.children(key, owner.uid))
    statefulset = owned_statefulset(key, owner.uid, cache, pods)
    secret = await kube.get(
        api_version=SECRET.api_version, kind=SECRET.kind, namespace=key.namespace, name=naming.token_secret(key.name)
    )
    others = [naming.peer_secret(key.name)] + ([naming.operator_user(key.name)] if spec.has_operator_user else [])
    read = [
        await kube.get(api_version=SECRET.api_version, kind=SECRET.kind, namespace=key.namespace, name=name)
        for name in others
    ]
    for found_secret in (secret, *read):
        if found_secret is not None and controller_uid(found_secret) in (None, owner.uid):
            children[SECRET.kind, found_secret["metadata"]["name"]] = {
                one: found_secret[one] for one in ("apiVersion", "kind", "metadata") if one in found_secret
            }
    asked_for, issued = await observe_issued(key, spec, kube=kube)
    children |= asked_for
    children |= await _claims(
        key, live=cache.get(STATEFULSET, key.namespace, key.name), size=spec.storage.size, kube=kube
    )
    trust = await _trust(key, kube) if speaks_tls(statefulset) else ""
    access = Access(token=_text(secret, naming.TOKEN_KEY), hosts=hosts_of(key, statefulset, trust))
    found = statefulset.pods if isinstance(statefulset, StatefulSetView) else ()
    views = await asyncio.gather(*(_replica(pod, access, admin) for pod in found))
    replicas = dict(zip((pod.name for pod in found), views, strict=True))
    moves = await _moves(replicas, access, admin)
    replication = await _replication(owner, spec, replicas, access, admin)
    storage = await observe_volumes(owner, statefulset, replicas, kube=kube, now_ms=clock.wall_ms())
    addresses = node_addresses(pods) if spec.external_listeners else {}
    certificates = await observe_certificates(owner, spec, kube=kube, node_addresses=addresses.values(), issued=issued)
    world = ClusterWorld(
        owner=owner,
        spec=spec,
        statefulset=statefulset,
        children=children,
        replicas=replicas,
        storage=storage,
        moves=moves,
        replication=replication,
        node_addresses=addresses,
        certificates=certificates,
        now_ms=clock.wall_ms(),
    )
    return ClusterObservation(world=world, access=access)


def owned_statefulset(key: OwnerKey, uid: str, cache: Cache, pods: list[Object]) -> StatefulSetView | None:
    """The StatefulSet of the same name, if the owner of `uid` controls it; None for one of another owner."""
    live = cache.get(STATEFULSET, key.namespace, key.name)
    if live is None or controller_uid(live) != uid:
        return None
    return statefulset_view(live, pods)


def speaks_tls(statefulset: StatefulSetView | Unknown | None) -> bool:
    """Some pod's admin API is https. Pods tell one by one: a change reaches them with a roll-out."""
    return isinstance(statefulset, StatefulSetView) and any(_by_tls(pod) for pod in statefulset.pods)


def hosts_of(key: OwnerKey, statefulset: StatefulSetView | Unknown | None, trust: str) -> dict[str, AdminAt]:
    """Pod name → its admin API. By pod address, because DNS names may be cached or not published yet."""
    if not isinstance(statefulset, StatefulSetView):
        return {}
    found: dict[str, AdminAt] = {}
    for pod in statefulset.pods:
        if pod.pod_ip is None:
            continue
        host = f"[{pod.pod_ip}]" if ":" in pod.pod_ip else pod.pod_ip
        address = f"{host}:{naming.ADMIN_PORT}"
        name = naming.pod_host(pod=pod.name, service=naming.peers_service(key.name), namespace=key.namespace)
        found[pod.name] = SecuredAdmin(address, name, trust) if _by_tls(pod) else address
    return found


def _by_tls(pod: PodView) -> bool:
    return pod.annotations.get(naming.ADMIN_TLS_ANNOTATION) == "true"


async def _trust(key: OwnerKey, kube: Kube) -> str:
    """ "": not there yet."""
    name = naming.ca_certificates(naming.cluster_ca(key.name))
    found = await kube.get(api_version=SECRET.api_version, kind=SECRET.kind, namespace=key.namespace, name=name)
    return _text(found, naming.CA_KEY) or ""


async def _claims(key: OwnerKey, *, live: Object | None, size: str, kube: Kube) -> dict[tuple[str, str], Object]:
    """The volume claims; requested only if the spec wants more storage than the StatefulSet was made with."""
    spec = (live or {}).get("spec") or {}
    templates: list[Any] = spec.get("volumeClaimTemplates") or []
    requests = [(one["spec"].get("resources") or {}).get("requests") or {} for one in templates]
    made, wanted = (quantity(requests[0].get("storage")) if requests else None), quantity(size)
    if live is None or made is None or wanted is None or wanted <= made:
        return {}
    names = [f"{templates[0]['metadata']['name']}-{naming.pod_name(key.name, n)}" for n in range(spec["replicas"])]
    found = await asyncio.gather(
        *(
            kube.get(api_version=CLAIM.api_version, kind=CLAIM.kind, namespace=key.namespace, name=name)
            for name in names
        )
    )
    return {(CLAIM.kind, name): one for name, one in zip(names, found, strict=True) if one is not None}


async def _replica(pod: PodView, access: Access, admin: Admin) -> ReplicaView | Unknown:
    host = access.hosts.get(pod.name)
    if access.token is None:
        return Unknown(reason="NoToken", message="the admin token's Secret is not there yet")
    if host is None:
        return Unknown(reason="NoAddress", message=f"{pod.name} has no address yet")
    return await admin.replica(host=host, pod=pod.name, token=access.token)


async def _moves(
    replicas: Mapping[str, ReplicaView | Unknown], access: Access, admin: Admin
) -> MovesView | Unknown | None:
    """Asked for only while somebody is to leave."""
    view = _leader(replicas)
    if view is None or access.token is None or not any(seat.departing for seat in view.seats.values()):
        return None
    return await admin.moves(host=access.hosts[view.pod], token=access.token)


async def _replication(
    owner: OwnerView,
    spec: ClusterSpec,
    replicas: Mapping[str, ReplicaView | Unknown],
    access: Access,
    admin: Admin,
) -> ReplicationView | Unknown | None:
    """Asked for only while the spec wants more replicas than are recorded."""
    view, founders = _leader(replicas), owner.status.get("founders")
    stored = owner.status.get("replicationFactor") or founders
    asked = spec.replication_factor
    if view is None or access.token is None or asked is None or stored is None or asked <= stored:
        return None
    return await admin.replication(host=access.hosts[view.pod], token=access.token)


def _leader(replicas: Mapping[str, ReplicaView | Unknown]) -> ReplicaView | None:
    """Of the controller's group, if it answers."""
    views = [view for view in replicas.values() if isinstance(view, ReplicaView)]
    leader = controller_leader(views)
    return next((one for one in views if one.broker_id == leader), None)


def _text(secret: Object | None, key: str) -> str | None:
    encoded = ((secret or {}).get("data") or {}).get(key)
    if encoded is None:
        return None
    try:
        return base64.b64decode(encoded, validate=True).decode().strip() or None
    except (binascii.Error, UnicodeDecodeError):
        return None
