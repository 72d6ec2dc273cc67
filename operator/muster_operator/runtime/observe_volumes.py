"""Reads the storage of those coordinators that have to be recorded or judged (`plan.volume_records.looks`): claim, pod,
volume, nodes, in this order, after the replicas were asked.

Every failure is `Unknown` and ends nothing: a role that allows no cluster-wide reading (a release with
`watchNamespaces`) is a supported way to run, and then lost PersistentVolumes and nodes are not noticed.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from muster_operator import naming
from muster_operator.errors import OperatorError
from muster_operator.kube.kinds import CLAIM, NODE, POD, VOLUME
from muster_operator.kube.views import HOST_NAME_LABEL, claim_view, host_names, node_view
from muster_operator.plan.volume_records import Look, looks
from muster_operator.ports import Kube
from muster_operator.resources.coordinator_statefulset import claim_name
from muster_operator.world.cluster import ReplicaView
from muster_operator.world.views import OwnerView, StatefulSetView, Unknown
from muster_operator.world.volumes import NodeView, StorageView, VolumeView

Object = Mapping[str, Any]


async def observe_volumes(
    owner: OwnerView,
    statefulset: StatefulSetView | Unknown | None,
    replicas: Mapping[str, ReplicaView | Unknown],
    *,
    kube: Kube,
    now_ms: int,
) -> dict[str, StorageView]:
    """By pod name. Raises nothing."""
    wanted = looks(statefulset, replicas, owner.status, now_ms)
    if not isinstance(statefulset, StatefulSetView) or not wanted:
        return {}
    found = await asyncio.gather(*(_storage(owner, statefulset, pod, look, kube) for pod, look in wanted.items()))
    return dict(zip(wanted, found, strict=True))


async def _storage(owner: OwnerView, statefulset: StatefulSetView, pod: str, look: Look, kube: Kube) -> StorageView:
    name = claim_name(owner, naming.ordinal_of(pod))
    live = await _read(kube, CLAIM.api_version, CLAIM.kind, owner.namespace, name)
    if live is None or isinstance(live, Unknown):
        return StorageView(claim=live, volume=None)
    labels = naming.selector(component=naming.COORDINATOR, instance=owner.name)
    claim = claim_view(live, labels=labels, statefulset_uid=statefulset.uid)
    if look is Look.CLAIM:
        return StorageView(claim=claim, volume=None, pod_uid=await _pod_uid(kube, owner.namespace, pod))
    if claim.volume is None:
        return StorageView(claim=claim, volume=None)
    return StorageView(claim=claim, volume=await _volume(kube, claim.volume), volume_read=True)


async def _pod_uid(kube: Kube, namespace: str, name: str) -> str | None:
    pod = await _read(kube, POD.api_version, POD.kind, namespace, name)
    if pod is None or isinstance(pod, Unknown) or pod["metadata"].get("deletionTimestamp") is not None:
        return None
    return str(pod["metadata"]["uid"])


async def _volume(kube: Kube, name: str) -> VolumeView | Unknown | None:
    live = await _read(kube, VOLUME.api_version, VOLUME.kind, "", name)
    if live is None or isinstance(live, Unknown):
        return live
    hosts, claim = host_names(live), (live.get("spec") or {}).get("claimRef") or {}
    nodes = None if hosts is None else await _nodes(kube, hosts)
    return VolumeView(name=name, claim_uid=claim.get("uid"), nodes=nodes)


async def _nodes(kube: Kube, hosts: tuple[str, ...]) -> tuple[NodeView, ...] | Unknown:
    """By label, not by name: a node's host name need not be its name."""
    selector = f"{HOST_NAME_LABEL} in ({','.join(hosts)})"
    try:
        found = await kube.list(api_version=NODE.api_version, kind=NODE.kind, namespace="", selector=selector)
    except OperatorError as error:
        return Unknown(reason=error.reason, message=error.message)
    return tuple(node_view(one) for one in found)


async def _read(kube: Kube, api_version: str, kind: str, namespace: str, name: str) -> Object | Unknown | None:
    try:
        return await kube.get(api_version=api_version, kind=kind, namespace=namespace, name=name)
    except OperatorError as error:
        return Unknown(reason=error.reason, message=error.message)
