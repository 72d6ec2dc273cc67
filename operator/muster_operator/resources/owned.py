"""Metadata of the objects that we create: names, labels, and the owner reference, by which Kubernetes deletes them with
it.

The owner reference carries the uid, so that an object of a deleted owner is garbage-collected and never adopted by a
new owner of the same name. Volumes are not owned: data outlives a mistaken deletion.
"""

from collections.abc import Mapping
from typing import Any

from muster_operator.naming import API_VERSION, labels
from muster_operator.world.views import OwnerView

Manifest = dict[str, Any]


def owner_reference(owner: OwnerView, kind: str) -> Manifest:
    """`kind`: the owner's, CoordinatorCluster or ConsumerGroup."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def metadata(
    owner: OwnerView,
    *,
    kind: str,
    component: str,
    name: str,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """`metadata` of a child. `annotations` is left out if empty."""
    found: Manifest = {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels(component=component, instance=owner.name),
        "ownerReferences": [owner_reference(owner, kind)],
    }
    if annotations:
        found["annotations"] = dict(annotations)
    return found


def is_owned_by(live: Mapping[str, Any], owner: OwnerView) -> bool:
    """True if `owner` controls `live`, by uid.

    To be checked before an apply: server-side apply with force would take over an object of another owner, such as the
    StatefulSet of a ConsumerGroup that has the same name as a CoordinatorCluster.
    """
    references = live.get("metadata", {}).get("ownerReferences") or ()
    return any(item.get("controller") and item.get("uid") == owner.uid for item in references)
