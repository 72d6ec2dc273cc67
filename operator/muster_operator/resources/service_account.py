"""The ServiceAccount of the coordinators. It has no rights, and no token is mounted: coordinators never call the
Kubernetes API."""

from muster_operator.naming import COORDINATOR
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView


def account_name(owner: OwnerView) -> str:
    return f"{owner.name}-coordinator"


def coordinators(owner: OwnerView) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(owner, kind="CoordinatorCluster", component=COORDINATOR, name=account_name(owner)),
        "automountServiceAccountToken": False,
    }
