"""Storage of the nodes: the default StorageClass `local` and a stock of local PersistentVolumes.

Local volumes rather than host-path provisioning: only they apply a pod's fsGroup, and a non-root pod must be able to
write. Nobody in the cluster cleans a released local volume; `recycle` does, and puts it back into the stock.
"""

import fcntl
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.node.client import Client

STORAGE_CLASS = "local"
VOLUMES = 60
CAPACITY = "10Gi"


def manifests(folders: Mapping[str, Path], count: int = VOLUMES) -> str:
    """Make `count` folders below each node's (node → folder); returns the objects as one JSON List."""
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
    for node, folder in folders.items():
        for index in range(count):
            path = folder / str(index)
            path.mkdir(parents=True, exist_ok=True)
            items.append(_volume(f"local-{node}-{index:03}", path, node))
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def recycle(client: Client, lock: Path) -> int:
    """Empty the volumes whose claims are gone and offer them again; how many. `lock`: test runs may be parallel."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        released = [each for each in client.read("persistentvolumes")["items"] if _is_released(each)]
        for volume in released:
            client.kubectl("delete", "persistentvolume", volume["metadata"]["name"])
            offer(client, volume)
    return len(released)


def offer(client: Client, volume: Mapping[str, Any]) -> None:
    """Put a volume whose object was deleted back into the stock, empty."""
    path = Path(volume["spec"]["local"]["path"])
    shutil.rmtree(path)
    path.mkdir()
    spec = {key: value for key, value in volume["spec"].items() if key != "claimRef"}
    metadata = {"name": volume["metadata"]["name"]}
    fresh = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    client.kubectl("create", "--filename=-", given=json.dumps(fresh))


def _is_released(volume: dict[str, Any]) -> bool:
    ours = volume["spec"].get("storageClassName") == STORAGE_CLASS and "local" in volume["spec"]
    return ours and volume["status"].get("phase") == "Released"


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
