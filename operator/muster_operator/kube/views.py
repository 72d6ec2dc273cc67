"""Stored Kubernetes objects as the views that planning reads (`world.views`). Pure; absent fields are allowed.

A pod belongs to a StatefulSet by its controller reference (uid), never by its name alone: a pod of an older StatefulSet
of the same name must not be taken for one of the new StatefulSet.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from muster_operator import naming
from muster_operator.drift import MANIFEST_HASH_ANNOTATION
from muster_operator.world.views import OwnerView, PodView, StatefulSetView
from muster_operator.world.volumes import ClaimView, NodeView

Object = Mapping[str, Any]
HOST_NAME_LABEL: Final = "kubernetes.io/hostname"
_DIGITS_MAX = 10


def owner_view(live: Object) -> OwnerView:
    metadata = live["metadata"]
    annotations = metadata.get("annotations") or {}
    return OwnerView(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=int(metadata.get("generation") or 0),
        resource_version=str(metadata.get("resourceVersion") or ""),
        deleting=metadata.get("deletionTimestamp") is not None,
        paused=annotations.get(naming.PAUSED_ANNOTATION) == "true",
        restarted_at=annotations.get(naming.RESTART_ANNOTATION),
        status=live.get("status") or {},
        replace_folder=annotations.get(naming.REPLACE_ANNOTATION),
        finalizers=tuple(metadata.get("finalizers") or ()),
        adopts=annotations.get(naming.ADOPT_ANNOTATION) == "true",
        rotate_peers=annotations.get(naming.ROTATE_PEERS_ANNOTATION),
        rotate_ca=annotations.get(naming.ROTATE_CA_ANNOTATION),
    )


def statefulset_view(live: Object, pods: Iterable[Object]) -> StatefulSetView:
    """`pods`: any pods of the namespace; those that the StatefulSet does not control are left out."""
    metadata, spec, status = live["metadata"], live.get("spec") or {}, live.get("status") or {}
    owned = [pod_view(pod) for pod in pods if controller_uid(pod) == metadata["uid"]]
    annotations = metadata.get("annotations") or {}
    strategy = spec.get("updateStrategy") or {}
    return StatefulSetView(
        name=metadata["name"],
        uid=metadata["uid"],
        generation=int(metadata.get("generation") or 0),
        observed_generation=int(status.get("observedGeneration") or 0),
        replicas=int(spec.get("replicas", 1)),
        ready_replicas=int(status.get("readyReplicas") or 0),
        current_revision=str(status.get("currentRevision") or ""),
        update_revision=str(status.get("updateRevision") or ""),
        template_hash=str(annotations.get(MANIFEST_HASH_ANNOTATION) or ""),
        pods=tuple(sorted(owned, key=lambda pod: (pod.ordinal, pod.name))),
        first_ordinal=int((spec.get("ordinals") or {}).get("start") or 0),
        rolls=strategy.get("type") != "OnDelete",
        partition=int((strategy.get("rollingUpdate") or {}).get("partition") or 0),
        partition_before=_number(annotations.get(naming.HELD_ANNOTATION)),
    )


def _number(text: object) -> int | None:
    """The number in an annotation; None for other text, since any client may write annotations."""
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < _DIGITS_MAX else None


def pod_view(live: Object) -> PodView:
    metadata, status = live["metadata"], live.get("status") or {}
    labels = metadata.get("labels") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    ready = conditions.get("Ready", {})
    is_ready = ready.get("status") == "True"
    scheduled = conditions.get("PodScheduled", {})
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        ordinal=naming.ordinal_of(metadata["name"]),
        revision=str(labels.get(naming.REVISION_LABEL) or ""),
        phase=str(status.get("phase") or "Unknown"),
        ready=is_ready,
        ready_since_ms=epoch_ms(ready.get("lastTransitionTime")) if is_ready else None,
        terminating=metadata.get("deletionTimestamp") is not None,
        node=(live.get("spec") or {}).get("nodeName"),
        waiting_reason=next(
            (reason for one in containers if (reason := ((one.get("state") or {}).get("waiting") or {}).get("reason"))),
            None,
        ),
        unschedulable=scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable",
        restarts=sum(int(one.get("restartCount") or 0) for one in containers),
        pod_ip=status.get("podIP") or None,
        pod_ips=tuple(str(one["ip"]) for one in status.get("podIPs") or () if one.get("ip")),
        image=_image(live),
        annotations=metadata.get("annotations") or {},
        created_ms=epoch_ms(metadata.get("creationTimestamp")),
        unready_since_ms=epoch_ms(ready.get("lastTransitionTime")) if ready and not is_ready else None,
    )


def _image(pod: Object) -> str:
    """Image of the first container; "" if there is none."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    return str(containers[0].get("image") or "") if containers else ""


def node_addresses(pods: Iterable[Object]) -> dict[str, str]:
    """Node name → address, from the pods on the node (`status.hostIP`): this needs no right to read Nodes."""
    found = {}
    for pod in pods:
        node, address = (pod.get("spec") or {}).get("nodeName"), (pod.get("status") or {}).get("hostIP")
        if node and address:
            found[str(node)] = str(address)
    return found


def claim_view(live: Object, *, labels: Mapping[str, str], statefulset_uid: str) -> ClaimView:
    """`labels`: those of the StatefulSet's claim template."""
    metadata, spec, status = live["metadata"], live.get("spec") or {}, live.get("status") or {}
    ours = labels.items() <= (metadata.get("labels") or {}).items()
    return ClaimView(
        name=metadata["name"],
        uid=metadata["uid"],
        ours=ours and controller_uid(live) in (None, statefulset_uid),
        terminating=metadata.get("deletionTimestamp") is not None,
        phase=str(status.get("phase") or "Pending"),
        volume=spec.get("volumeName") or None,
    )


def host_names(volume: Object) -> tuple[str, ...] | None:
    """The values of `kubernetes.io/hostname` that a PersistentVolume's node affinity names; None if it may be used on
    other nodes too. Zones and the like name no node: that none of them has a node now does not mean that it is lost."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    found: list[str] = []
    for term in required.get("nodeSelectorTerms") or ():
        named = [
            one.get("values") or ()
            for one in term.get("matchExpressions") or ()
            if one.get("key") == HOST_NAME_LABEL and one.get("operator") == "In"
        ]
        if not named:
            return None
        found += named[0]
    return tuple(found) or None


def node_view(live: Object) -> NodeView:
    conditions = (live.get("status") or {}).get("conditions") or ()
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return NodeView(name=live["metadata"]["name"], ready=ready)


def controller_uid(live: Object) -> str | None:
    """The uid of the object's controller; None if it has none."""
    references = (live.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(one["uid"]) for one in references if one.get("controller")), None)


def epoch_ms(timestamp: object) -> int | None:
    """RFC 3339 as ms since 1970; None for anything else."""
    if not isinstance(timestamp, str):
        return None
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1_000)
    except ValueError:
        return None
