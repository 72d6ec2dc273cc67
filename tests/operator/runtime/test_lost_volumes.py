"""A lost volume from its loss to the end, with a whole operator on a fake API server: refusals, rights, the foreign.

What happens when the operator is killed at each request is in `test_crashes`.
"""

from collections.abc import Callable
from typing import Any

import pytest
from muster_operator.errors import Refused, Transient
from muster_operator.limits import BACKOFF_MAX_MS

from tests.operator.fakes.bench import World, cluster, run
from tests.operator.runtime.test_crashes import SETTLE_MS, settled, without_claim, without_volume

Condition = dict[str, Any]


def conditions(world: World) -> dict[str, Condition]:
    return {one["type"]: one for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]}


def volumes(world: World) -> dict[str, dict[str, Any]]:
    rows = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["volumes"]
    return {one["name"]: one for one in rows}


def asked(world: World) -> list[str]:
    return [one for one in world.admin.journal if one.startswith("replace")]


def deleted(world: World) -> list[tuple[str, str]]:
    return [(kind, name) for verb, kind, name in world.fake.calls if verb == "delete"]


def after(prepare: Callable[[], Any], milliseconds: int, change: Callable[[World], None] = lambda world: None) -> World:
    async def scene() -> World:
        world: World = await prepare()
        world.fake.calls.clear()
        change(world)
        world.start()
        await world.begin()
        await world.run(milliseconds)
        return world

    found: World = run(scene())
    return found


def test_a_lost_claim_is_replaced_and_the_new_one_recorded() -> None:
    world = after(without_claim, SETTLE_MS)
    row = volumes(world)["c-2"]
    claim = world.fake.objects["PersistentVolumeClaim", "ns", "data-c-2"]
    assert (row["claimUid"], row["binding"]) == (claim["metadata"]["uid"], 1)
    assert row["folder"] == world.admin.folders[claim["metadata"]["uid"]]
    assert len(set(asked(world))) == 1
    assert deleted(world) == []
    assert conditions(world)["VolumeLost"]["reason"] == "VolumesPresent"
    assert conditions(world)["Ready"]["status"] == "True"


def test_a_lost_volume_is_replaced_and_only_its_own_claim_and_pod_are_deleted() -> None:
    world = after(without_volume, SETTLE_MS)
    assert set(deleted(world)) == {("PersistentVolumeClaim", "data-c-1"), ("Pod", "c-1")}
    assert volumes(world)["c-1"]["binding"] == 1
    assert conditions(world)["VolumeLost"]["reason"] == "VolumesPresent"


def test_a_claim_of_somebody_elses_stays_whatever_becomes_of_it() -> None:
    def foreign(world: World) -> None:
        world.fake.edit("PersistentVolumeClaim", "ns", "data-c-1", lambda one: one["metadata"].update(labels={}))

    world = after(without_volume, 3 * SETTLE_MS, foreign)
    assert ("PersistentVolumeClaim", "data-c-1") not in deleted(world)
    assert "delete claim data-c-1" in conditions(world)["VolumeLost"]["message"]
    assert conditions(world)["Degraded"]["status"] == "True"


@pytest.mark.parametrize("error", [Refused("ReplicaRefuses", "no majority"), Transient("ReplicaNotReady", "no leader")])
def test_what_the_coordinators_refuse_is_told_and_asked_again_ever_more_seldom(error: Exception) -> None:
    def refuse(world: World) -> None:
        world.admin.refusal = error  # type: ignore[assignment]

    world = after(without_claim, BACKOFF_MAX_MS, refuse)
    found = conditions(world)
    assert (found["VolumeLost"]["status"], found["VolumeLost"]["reason"]) == ("True", "ReplacementRefused")
    assert str(error.message) in found["VolumeLost"]["message"]  # type: ignore[attr-defined]
    assert found["Degraded"]["status"] == "False", "nothing else suffers from it"
    assert 7 <= len(asked(world)) <= 10, "after 1, 2, 4, ... s"

    async def healed() -> World:
        world.admin.refusal = None
        await world.run(BACKOFF_MAX_MS)
        return world

    assert conditions(run(healed()))["VolumeLost"]["status"] == "False"


def test_without_the_right_to_delete_claims_it_is_told_and_no_pod_is_deleted() -> None:
    def refuse(world: World) -> None:
        world.fake.refuse["delete", "PersistentVolumeClaim"] = "no right to delete it"

    world = after(without_volume, BACKOFF_MAX_MS, refuse)
    found = conditions(world)["VolumeLost"]
    assert (found["status"], found["reason"]) == ("True", "ReplacementRefused")
    assert "no right to delete it" in found["message"]
    assert ("Pod", "c-1") not in deleted(world)
    assert len([one for one in deleted(world) if one[0] == "PersistentVolumeClaim"]) <= 10


@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "PersistentVolume"])
def test_without_the_right_to_read_it_is_unknown_and_nothing_is_done(kind: str) -> None:
    """Claims: a role of somebody's own. Volumes: a release that serves some namespaces only."""

    def refuse(world: World) -> None:
        world.fake.refuse["get", kind] = f"get {kind}: no right"

    world = after(without_volume, 2 * BACKOFF_MAX_MS, refuse)
    found = conditions(world)["VolumeLost"]
    assert (found["status"], found["reason"]) == ("Unknown", "NotObserved")
    assert f"get {kind}: no right" in found["message"]
    assert asked(world) == deleted(world) == []


def test_without_the_right_to_list_nodes_a_missing_node_is_unknown() -> None:
    def gone(world: World) -> None:
        restore_volume(world)
        world.fake.remove("Node", "", "node-1")
        world.fake.refuse["list", "Node"] = "list Node: no right"

    async def scene() -> World:
        world = await without_volume()
        world.fake.refuse["list", "Node"] = "x"
        gone(world)
        world.controllers._mountable = lambda pod: pod["metadata"]["name"] != "c-1"  # type: ignore[method-assign]
        world.start()
        world.fake.refuse.pop(("list", "Node"))
        await world.begin()
        world.fake.refuse["list", "Node"] = "list Node: no right"
        await world.run(2 * BACKOFF_MAX_MS)
        return world

    world = run(scene())
    assert conditions(world)["VolumeLost"]["status"] == "Unknown"
    assert "no right" in conditions(world)["VolumeLost"]["message"]
    assert asked(world) == deleted(world) == []


def restore_volume(world: World) -> None:
    claim = world.fake.objects["PersistentVolumeClaim", "ns", "data-c-1"]
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"]}]}]}}  # fmt: skip
    metadata = {"name": claim["spec"]["volumeName"], "namespace": ""}
    world.fake.put({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata,
                    "spec": {"nodeAffinity": affinity}})  # fmt: skip


@pytest.mark.parametrize("labels", [None, {"kubernetes.io/hostname": "another"}])
def test_a_node_counts_by_its_host_name_and_its_loss_after_five_minutes(labels: dict[str, str] | None) -> None:
    """None: the object is gone. A node of the same name with another host name is not the one either."""

    async def scene() -> tuple[list[str], list[str]]:
        world = await without_volume()
        restore_volume(world)
        world.fake.remove("Node", "", "node-1")
        if labels is not None:
            node = {"apiVersion": "v1", "kind": "Node"}
            world.fake.put({**node, "metadata": {"name": "node-1", "namespace": "", "labels": labels}})
        first = world.fake.objects["PersistentVolumeClaim", "ns", "data-c-1"]["metadata"]["uid"]

        def mountable(pod: Any) -> bool:
            claim = world.fake.objects.get(("PersistentVolumeClaim", "ns", f"data-{pod['metadata']['name']}"))
            return claim is None or claim["metadata"]["uid"] != first

        world.controllers._mountable = mountable  # type: ignore[method-assign]
        world.start()
        await world.begin()
        await world.run(270_000)
        early = asked(world)
        await world.run(2 * SETTLE_MS)
        assert conditions(world)["VolumeLost"]["reason"] == "VolumesPresent"
        return early, asked(world)

    early, late = run(scene())
    assert (early, len(late)) == ([], 1)


def test_a_cluster_at_rest_costs_no_request_about_volumes() -> None:
    async def scene() -> World:
        world = World()
        world.fake.put(cluster())
        world.start()
        await settled(world)
        assert set(volumes(world)) == {"c-0", "c-1", "c-2"}
        world.fake.calls.clear()
        await world.run(4 * BACKOFF_MAX_MS)
        return world

    kinds = {kind for _, kind, _ in run(scene()).fake.calls}
    assert kinds & {"PersistentVolumeClaim", "PersistentVolume", "Node", "Pod"} == set()


def test_a_definition_without_the_field_keeps_no_record_and_nobody_is_declared_lost() -> None:
    async def scene() -> World:
        world = World()
        world.fake.put(cluster())
        world.fake.undeclared = {"volumes", "clusterId"}
        world.start()
        await settled(world)
        for kind, name in (("PersistentVolumeClaim", "data-c-2"), ("Pod", "c-2")):
            world.fake.remove(kind, "ns", name)
        await world.run(2 * SETTLE_MS)
        return world

    world = run(scene())
    status = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]
    assert not {"volumes", "clusterId"} & status.keys()
    assert "listeners" in status, "what it does have is kept"
    assert asked(world) == deleted(world) == []
