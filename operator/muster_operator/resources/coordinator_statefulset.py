"""The StatefulSet of the coordinators: it provides names and volumes; the operator decides when a pod restarts.

Parallel, because a quorum cannot become Ready one pod at a time, and because only then does a revert heal a bad
template. OnDelete, because only the operator knows whether every Raft group keeps a caught-up majority; without the
operator nothing rolls. Volume claim templates are immutable, so the size in them stays as created; larger volumes are
requested on the claims.
"""

from typing import Final

from muster_operator.api.cluster import ClusterSpec
from muster_operator.naming import COORDINATOR, MADE_FOR_ANNOTATION, peers_service, pod_name, selector
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView

DATA_CLAIM: Final = "data"
MIN_READY_SECONDS: Final = 10
REVISION_HISTORY: Final = 5


def statefulset(
    owner: OwnerView, spec: ClusterSpec, *, template: Manifest, replicas: int, storage_size: str, made_for: str = ""
) -> Manifest:
    """`replicas`, `storage_size`: the values that the StatefulSet was created with (the spec's at its creation).
    `made_for`: the release that `template` is for; "": not known."""
    claim: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage_size}},
    }
    if spec.storage.storage_class_name is not None:
        claim["storageClassName"] = spec.storage.storage_class_name
    pods = selector(component=COORDINATOR, instance=owner.name)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(
            owner,
            kind="CoordinatorCluster",
            component=COORDINATOR,
            name=owner.name,
            annotations={MADE_FOR_ANNOTATION: made_for} if made_for else None,
        ),
        "spec": {
            "replicas": replicas,
            "serviceName": peers_service(owner.name),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "minReadySeconds": MIN_READY_SECONDS,
            "revisionHistoryLimit": REVISION_HISTORY,
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": spec.storage.reclaim_policy,
                "whenScaled": "Retain",
            },
            "selector": {"matchLabels": pods},
            "template": template,
            "volumeClaimTemplates": [
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": DATA_CLAIM, "labels": pods},
                    "spec": claim,
                }
            ],
        },
    }


def claim_name(owner: OwnerView, ordinal: int) -> str:
    return f"{DATA_CLAIM}-{pod_name(owner.name, ordinal)}"
