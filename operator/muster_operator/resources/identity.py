"""The ConfigMap that tells every coordinator which cluster it belongs to, once that has formed.

Problem: a coordinator that joins must be told the cluster's id (ADR 41), which nobody knows before the founders have
drawn it; and all pods have one template, so an id in the template or in the settings file would restart all of them
the first time that one is added. Mechanism: an environment variable from this ConfigMap, which the settings file names.
It is empty while the founders form their cluster, which is what a coordinator takes for "no id", and read at each start
of a container. Nothing restarts when it is written.
"""

from typing import Final

from muster_operator.naming import COORDINATOR
from muster_operator.naming import identity as name_of
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView

KEY: Final = "cluster-id"


def identity(owner: OwnerView, cluster_id: str | None) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, kind="CoordinatorCluster", component=COORDINATOR, name=name_of(owner.name)),
        "data": {KEY: cluster_id or ""},
    }
