"""Stored Deployments, StatefulSets and Rollouts as the views that planning reads. Pure; absent fields are allowed.

A pod belongs to a StatefulSet by its controller's uid. It belongs to a Deployment or Rollout through a ReplicaSet,
which is not read: the controllers name the ReplicaSet `<workload>-<hash>` and label its pods with that hash, so a pod
of another workload with an overlapping selector is recognised by its name and hash. Kubernetes and Argo use labels of
different names, which tells a Rollout's pods from those of a Deployment of the same name.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from muster_operator import naming
from muster_operator.api.workload import DEPLOYMENT, ROLLOUT, STATEFULSET
from muster_operator.kube.views import controller_uid, pod_view, statefulset_view
from muster_operator.world.views import PodView, ReferencedView, StatefulSetView

Object = Mapping[str, Any]
_HASH_LABELS = {DEPLOYMENT: "pod-template-hash", ROLLOUT: "rollouts-pod-template-hash"}
_OF_ONE_TEMPLATE = re.compile(rf"(^|,){_HASH_LABELS[ROLLOUT]}=[^,]*")
_OPERATORS = {
    "In": "{key} in ({values})",
    "NotIn": "{key} notin ({values})",
    "Exists": "{key}",
    "DoesNotExist": "!{key}",
}


def selector_of(live: Object) -> str | None:
    """Its label selector in the form of the API's `labelSelector`; None: it has none, or one that selects everything. A
    Rollout that takes its pods from a Deployment shows its selector in the status only: with blueGreen that of the pods
    which its Service leads to, so that the template's hash is left out here."""
    selector = (live.get("spec") or {}).get("selector") or {}
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        form = _OPERATORS.get(str(one.get("operator")))
        if form is None:
            return None
        parts.append(form.format(key=one.get("key"), values=",".join(sorted(map(str, one.get("values") or ())))))
    told = (live.get("status") or {}).get("selector") if live.get("kind") == ROLLOUT else None
    return ",".join(parts) or _OF_ONE_TEMPLATE.sub("", str(told or "")).removeprefix(",") or None


def made_by(live: Object) -> tuple[str, str, str] | None:
    """(kind, name, uid) of the CoordinatorCluster or ConsumerGroup for which the operator made it; None if the operator
    did not make it."""
    for one in live["metadata"].get("ownerReferences") or ():
        if one.get("controller") and str(one.get("apiVersion", "")).startswith(f"{naming.GROUP}/"):
            return str(one["kind"]), str(one["name"]), str(one["uid"])
    return None


def pods_of(live: Object, found: Iterable[Object]) -> tuple[PodView, ...]:
    """Those of the pods found by its selector that belong to it."""
    owned = [pod_view(pod) for pod in found if _owns(live, pod)]
    return tuple(sorted(owned, key=lambda pod: (pod.ordinal, pod.name)))


def referenced_view(live: Object, pods: tuple[PodView, ...], *, selector: str) -> ReferencedView:
    metadata, status = live["metadata"], live.get("status") or {}
    of_argo = status if live["kind"] == ROLLOUT else {}
    return ReferencedView(
        api_version=live["apiVersion"],
        kind=live["kind"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=_number(metadata.get("generation")),
        observed_generation=_number(status.get("observedGeneration")),
        replicas=replicas_of(live),
        updated_replicas=_number(status.get("updatedReplicas")),
        selector=selector,
        restarted_at=_restarted_at(live),
        pods=pods,
        phase=str(of_argo.get("phase") or ""),
        phase_message=str(of_argo.get("message") or ""),
        restart_done=of_argo.get("restartedAt"),
    )


def view_of_statefulset(live: Object, pods: tuple[PodView, ...]) -> StatefulSetView:
    return dataclasses.replace(statefulset_view(live, ()), pods=pods)


def replicas_of(live: Object) -> int:
    """`spec.replicas`; 1 if absent."""
    return _number((live.get("spec") or {}).get("replicas", 1))


def _owns(live: Object, pod: Object) -> bool:
    metadata = live["metadata"]
    if live["kind"] == STATEFULSET:
        return controller_uid(pod) == str(metadata["uid"])
    found = (pod["metadata"].get("labels") or {}).get(_HASH_LABELS[live["kind"]])
    controllers: list[Object] = [one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
    name = f"{metadata['name']}-{found}"
    return found is not None and any(one.get("kind") == "ReplicaSet" and one.get("name") == name for one in controllers)


def _restarted_at(live: Object) -> str | None:
    spec = live.get("spec") or {}
    if live["kind"] == ROLLOUT:
        found = spec.get("restartAt")
    else:
        metadata = (spec.get("template") or {}).get("metadata") or {}
        found = (metadata.get("annotations") or {}).get(naming.RESTART_ANNOTATION)
    return None if found is None else str(found)


def _number(value: object) -> int:
    """Rollouts write their observed generation as text."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else 0
