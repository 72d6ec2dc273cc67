"""The ConfigMap with the coordinators' settings file: immutable, named after its content.

With one name for all contents, a pod of an older revision would read the new settings at its container's next restart,
so a bad setting could reach every pod although the roll-out has halted at the first. This way settings belong to the
pod's revision. The pods carry the hash too (`naming.CONFIG_HASH_ANNOTATION`); ConfigMaps that no pod uses are
`surplus`.
"""

import hashlib

from muster_operator.api.cluster import ClusterSpec
from muster_operator.api.releases import Release
from muster_operator.naming import CONFIG_HASH_ANNOTATION, COORDINATOR, config_map
from muster_operator.resources import server_properties
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.resources.peer_mode import OPEN, PeerMode
from muster_operator.world.views import OwnerView

HASH_DIGITS = 10


def config(
    owner: OwnerView,
    spec: ClusterSpec,
    *,
    founders: int,
    joins: bool = False,
    release: Release | None = None,
    peers: PeerMode = OPEN,
) -> Manifest:
    text = server_properties.text(owner, spec, replicas=founders, joins=joins, release=release, peers=peers)
    digest = hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            owner,
            kind="CoordinatorCluster",
            component=COORDINATOR,
            name=config_map(owner.name, digest),
            annotations={CONFIG_HASH_ANNOTATION: digest},
        ),
        "immutable": True,
        "data": {server_properties.FILE_NAME: text},
    }


def hash_of(manifest: Manifest) -> str:
    """The hash of a ConfigMap made here; "" for others."""
    found: str = manifest["metadata"].get("annotations", {}).get(CONFIG_HASH_ANNOTATION, "")
    return found
