"""Coordinators that lose their volumes while real clients commit: the operator gives their places to new ones.

What is lost is lost for real: a claim is deleted, or a PersistentVolume's object under a claim that stays. That nobody
noticed is shown by what the clients were answered, and by what is stored at the end.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from e2e.commit_load import committing
from e2e.fleet import Cluster, condition, until
from e2e.node import volumes
from e2e.node.client import Client
from e2e.test_coordinators import by_config, taken_in, told_lost

pytestmark = pytest.mark.timeout(420)

REPLACED_S = 180.0
REPLICAS = 3


def folder_of(cluster: Cluster, broker: int) -> str | None:
    """The data folder that is bound to a broker's id, as any coordinator that answers tells it."""
    for ordinal in range(REPLICAS):
        status, body = cluster.admin(ordinal, "/v1/status")
        found = [one["replica_uuid"] for one in body.get("brokers", ()) if one["broker"] == broker]
        if status == 200 and found:
            return str(found[0]) if found[0] is not None else None
    return None


def recorded(cluster: Cluster, pod: str) -> Mapping[str, Any]:
    rows = cluster.read().get("status", {}).get("volumes", ())
    return next((one for one in rows if one["name"] == pod), {})


def whole_again(cluster: Cluster, pod: str, lost: Mapping[str, Any]) -> None:
    """Another folder on another claim has the place, every group has taken it in, and the operator says so."""
    until(
        f"another folder of {pod} is recorded",
        lambda: recorded(cluster, pod).get("folder", lost["folder"]) != lost["folder"],
        REPLACED_S,
    )
    until("all groups have taken it in", lambda: taken_in(cluster), 60)
    until("VolumeLost is over", lambda: condition(cluster.read(), "VolumeLost").get("status") == "False", 60)
    now = recorded(cluster, pod)
    assert now["claimUid"] != lost["claimUid"]
    assert now["claimUid"] == cluster.client.read("persistentvolumeclaim", f"data-{pod}")["metadata"]["uid"]
    assert now["binding"] == 1
    assert now["folder"] == folder_of(cluster, int(pod.rpartition("-")[2]))


def test_a_lost_claim_is_replaced_by_itself(operator: Client, namespace: Client) -> None:
    """Claim and pod of one of three are deleted under load. Nobody does anything, and no commit fails; the new one
    holds what it has to when another one goes away."""
    cluster = Cluster.create(namespace, offsetsPartitions=3).ready()
    lost = recorded(cluster, "main-2")
    assert lost["folder"] == folder_of(cluster, 2)
    assert lost["claimUid"] == namespace.read("persistentvolumeclaim", "data-main-2")["metadata"]["uid"]
    with committing(cluster, "load-claim") as load:
        namespace.kubectl("delete", "pvc", "data-main-2", "--wait=false")
        namespace.kubectl("delete", "pod", "main-2", "--wait=false")
        print("what it says:", until("it is told", lambda: told_lost(cluster), 60)["message"])
        whole_again(cluster, "main-2", lost)
        cluster.ready()
        namespace.kubectl("delete", "pod", "main-0", "--wait=false")
        until("main-0 goes", lambda: condition(cluster.read(), "Ready").get("status") != "True", 60)
        cluster.ready()
        load.check()
    events = namespace.read("events.events.k8s.io")["items"]
    reasons = {one["reason"] for one in events if one["regarding"]["kind"] == "CoordinatorCluster"}
    assert "ReplicaReplaced" in reasons


def test_a_rollout_goes_on_past_a_lost_volume(operator: Client, namespace: Client) -> None:
    """The PersistentVolume of one of three is gone, its claim is not, and the settings change at the same moment: the
    claim makes room, the place is given to a new one, and all three get the settings. No commit fails."""
    cluster = Cluster.create(namespace, offsetsPartitions=3).ready()
    lost = recorded(cluster, "main-1")
    volume = namespace.read("persistentvolume", lost["volume"])
    with committing(cluster, "load-volume") as load:
        namespace.kubectl("delete", "persistentvolume", lost["volume"], "--wait=false")
        free = json.dumps({"metadata": {"finalizers": None}})
        namespace.kubectl("patch", "persistentvolume", lost["volume"], "--type=merge", f"--patch={free}")
        by_config(cluster)
        namespace.kubectl("delete", "pod", "main-1", "--wait=false")
        print("what it says:", until("it is told", lambda: told_lost(cluster), 90)["message"])
        whole_again(cluster, "main-1", lost)
        cluster.ready(REPLACED_S)
        revisions = {pod["metadata"]["labels"]["controller-revision-hash"] for pod in cluster.pods().values()}
        assert revisions == {cluster.read()["status"]["updateRevision"]}
        load.check()
    volumes.offer(namespace, volume)
