"""The StatefulSet of a ConsumerGroup's consumers: static membership needs its stable pod names.

Parallel: consumers do not wait for each other. RollingUpdate: replacing a static member within its session timeout
costs no rebalance, so Kubernetes' own controller may do it. `maxUnavailable` above one is written only if requested,
because API servers without that feature drop the field, and a dropped field would look like drift for ever.
"""

from muster_operator.api.consumer_template import ConsumerTemplate
from muster_operator.api.group import GroupSpec
from muster_operator.api.volumes import ClaimTemplate
from muster_operator.naming import CONSUMER, members_service, selector
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView

REVISION_HISTORY = 5


def statefulset(owner: OwnerView, spec: GroupSpec, *, template: Manifest) -> Manifest:
    rolling: Manifest = {"type": "RollingUpdate"}
    if spec.rollout.max_unavailable > 1:
        rolling["rollingUpdate"] = {"maxUnavailable": spec.rollout.max_unavailable}
    # The API server leaves a zero out of the stored object, so we leave it out of the intent.
    ready = {"minReadySeconds": spec.rollout.min_ready_seconds} if spec.rollout.min_ready_seconds else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(owner, kind="ConsumerGroup", component=CONSUMER, name=owner.name),
        "spec": {
            "replicas": spec.made_replicas,
            "serviceName": members_service(owner.name),
            "podManagementPolicy": "Parallel",
            "updateStrategy": rolling,
            **ready,
            "revisionHistoryLimit": REVISION_HISTORY,
            "selector": {"matchLabels": selector(component=CONSUMER, instance=owner.name)},
            "template": template,
            **_claims(spec.template),
        },
    }


def _claims(asked: ConsumerTemplate | None) -> Manifest:
    """Only if there are any: a StatefulSet's claim templates are immutable."""
    if asked is None or not asked.volume_claim_templates:
        return {}
    retention = asked.volume_claim_retention or "Retain"
    return {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": retention, "whenScaled": retention},
        "volumeClaimTemplates": [_claim(one) for one in asked.volume_claim_templates],
    }


def _claim(asked: ClaimTemplate) -> Manifest:
    spec: Manifest = {
        "accessModes": [asked.access_mode],
        "resources": {"requests": {"storage": asked.size}},
    }
    if asked.storage_class_name is not None:
        spec["storageClassName"] = asked.storage_class_name
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": asked.name}, "spec": spec}
