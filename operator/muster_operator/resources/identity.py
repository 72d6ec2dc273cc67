"""The ConfigMap that tells every coordinator which cluster it belongs to, once that has formed.

Problem: a coordinator that joins must be told the cluster's id (ADR 41), which nobody knows before the founders have
drawn it; and all pods have one template, so an id in the template or in the settings file would restart all of them
the first time that one is added. Mechanism: an environment variable from this ConfigMap, which the settings file names.
It is empty while the founders form their cluster, which is what a coordinator takes for "no id", and read at each start
of a container. Nothing restarts when it is written.

A second variable says whether coordinators have joined the founders. Then a founder that comes back with an empty
volume must not form a cluster of its own beside them, and only this tells it (ADR 103).
"""

from collections.abc import Mapping
from typing import Any, Final

from muster_operator.naming import COORDINATOR
from muster_operator.naming import identity as name_of
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView

KEY: Final = "cluster-id"
FORMED_KEY: Final = "formed"


def identity(owner: OwnerView, cluster_id: str | None, *, has_joined: bool) -> Manifest:
    """`has_joined`: coordinators beside the founders belong to the cluster."""
    formed = cluster_id is not None and has_joined
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, kind="CoordinatorCluster", component=COORDINATOR, name=name_of(owner.name)),
        "data": {KEY: cluster_id or "", FORMED_KEY: "true" if formed else "false"},
    }


def says_formed(live: Mapping[str, Any] | None) -> bool:
    """The ConfigMap, as it is, says that coordinators have joined."""
    return ((live or {}).get("data") or {}).get(FORMED_KEY) == "true"
