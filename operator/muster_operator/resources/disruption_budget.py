"""PodDisruptionBudgets: how many pods a node drain may evict at once.

`maxUnavailable`, because it fits every size. A pod that is not Ready may always be evicted (AlwaysAllow): otherwise a
broken one, which serves no client, would block the drain of its node for ever.
"""

from muster_operator.naming import CONSUMER, COORDINATOR, selector
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView


def _budget(owner: OwnerView, kind: str, component: str, max_unavailable: int) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(owner, kind=kind, component=component, name=owner.name),
        "spec": {
            "maxUnavailable": max_unavailable,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector(component=component, instance=owner.name)},
        },
    }


def coordinators(owner: OwnerView, *, replicas: int, lost: int) -> Manifest:
    """One: quorums of three and five survive it, and the operator's own restarts count against it.

    `lost`: coordinators whose volumes are lost. They count as unavailable until they are replaced, so five of them may
    miss another one meanwhile; otherwise no node could be drained and no pod restarted.
    """
    return _budget(owner, "CoordinatorCluster", COORDINATOR, max(1, min(1 + lost, (replicas - 1) // 2)))


def consumers(owner: OwnerView, max_unavailable: int) -> Manifest:
    return _budget(owner, "ConsumerGroup", CONSUMER, max_unavailable)
