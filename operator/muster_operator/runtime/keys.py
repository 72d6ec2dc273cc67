"""Which of our objects another object belongs to: from its labels and references to the key in the queue. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from muster_operator import naming
from muster_operator.kube.kinds import CLUSTER, GROUP, OWNERS, POD, Kind

Object = Mapping[str, Any]
_KINDS = {one.kind: one for one in OWNERS}
_BY_COMPONENT = {naming.COORDINATOR: CLUSTER.kind, naming.CONSUMER: GROUP.kind}


class OwnerKey(NamedTuple):
    """One CoordinatorCluster or ConsumerGroup: an entry of the queue."""

    kind: str
    namespace: str
    name: str


class ObjectKey(NamedTuple):
    kind: str
    namespace: str
    name: str


def object_key(kind: Kind, live: Object) -> ObjectKey:
    metadata = live["metadata"]
    return ObjectKey(kind.kind, metadata.get("namespace", ""), metadata["name"])


def owner_key(kind: Kind, live: Object) -> OwnerKey | None:
    """The object whose pass depends on `live`; None if it belongs to none of our objects."""
    metadata = live["metadata"]
    namespace = metadata.get("namespace", "")
    if kind in OWNERS:
        return OwnerKey(kind.kind, namespace, metadata["name"])
    if kind is POD:
        labels = metadata.get("labels") or {}
        owner_kind = _BY_COMPONENT.get(str(labels.get(naming.COMPONENT_LABEL)))
        instance = labels.get(naming.INSTANCE_LABEL)
        return OwnerKey(owner_kind, namespace, instance) if owner_kind and instance else None
    for reference in metadata.get("ownerReferences") or ():
        ours = reference.get("kind") in _KINDS and str(reference.get("apiVersion", "")).startswith(f"{naming.GROUP}/")
        if reference.get("controller") and ours:
            return OwnerKey(reference["kind"], namespace, reference["name"])
    return None


def api_version_of(key: OwnerKey) -> str:
    return _KINDS[key.kind].api_version
