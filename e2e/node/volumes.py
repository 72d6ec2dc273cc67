"""Storage of the node: the default StorageClass `local` and a stock of local PersistentVolumes.

Local volumes rather than host-path provisioning: only they apply a pod's fsGroup, and a non-root pod must be able to
write. A released volume stays Released (its data is a test's evidence), so the stock is large.
"""

import json
from pathlib import Path

STORAGE_CLASS = "local"
VOLUMES = 60
CAPACITY = "10Gi"


def manifests(folder: Path, node: str, count: int = VOLUMES) -> str:
    """Make `count` folders below `folder`; returns the objects as one JSON List."""
    storage_class: dict[str, object] = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    items: list[dict[str, object]] = [storage_class]
    for index in range(count):
        path = folder / str(index)
        path.mkdir(parents=True, exist_ok=True)
        items.append(_volume(f"local-{index:03}", path, node))
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _volume(name: str, path: Path, node: str) -> dict[str, object]:
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": CAPACITY},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }
