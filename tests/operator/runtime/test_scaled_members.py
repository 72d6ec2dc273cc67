"""Coordinators that are added and leave, with a whole operator on a fake API server: objects, requests, refusals."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from muster_operator.errors import OperatorError, Refused, Transient
from muster_operator.runtime.report import LATER_FIELDS

from tests.operator.fakes.bench import World, cluster, run
from tests.operator.runtime.test_crashes import SETTLE_MS, settled

IMAGE = "muster:0.2.0"


async def formed() -> World:
    """Three of a release that joins, converged."""
    world = World()
    world.admin.feature_level = 3
    world.fake.put(cluster(image=IMAGE))
    world.start()
    return await settled(world)


async def five() -> World:
    world = await formed()
    return await scaled(world, 5)


async def scaled(world: World, replicas: int, *, milliseconds: int = SETTLE_MS) -> World:
    world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"].update(replicas=replicas))
    await world.run(milliseconds)
    return world


def of(scene: Callable[[], Awaitable[World]]) -> World:
    return run(scene())  # type: ignore[no-any-return]


def status(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]
    return found


def scaling(world: World) -> tuple[str, str, str]:
    found = next(one for one in status(world)["conditions"] if one["type"] == "ScalingRefused")
    return found["status"], found["reason"], found["message"]


def names(world: World, kind: str) -> list[str]:
    return sorted(name for one, _, name in world.fake.objects if one == kind)


def pods(world: World) -> list[str]:
    return [name for name in names(world, "Pod") if name.startswith("c-")]


def test_new_pods_are_told_the_clusters_id_and_no_other_is_touched() -> None:
    async def scene() -> World:
        world = await formed()
        before.update({name: world.fake.objects["Pod", "ns", name]["metadata"]["uid"] for name in pods(world)})
        return await scaled(world, 5)

    before: dict[str, str] = {}
    world = of(scene)
    assert pods(world) == [f"c-{one}" for one in range(5)]
    assert {name: world.fake.objects["Pod", "ns", name]["metadata"]["uid"] for name in before} == before
    assert world.fake.objects["ConfigMap", "ns", "c-identity"]["data"] == {"cluster-id": "c", "formed": "true"}
    assert (status(world)["replicas"], status(world)["founders"], status(world)["brokers"]) == (5, 3, 5)
    assert scaling(world)[:2] == ("False", "ScaleAsWanted")
    assert [one for one in world.admin.journal if one.startswith(("leave", "drain"))] == []


def test_pods_and_claims_go_when_the_coordinators_have_left() -> None:
    async def scene() -> World:
        world = await scaled(await five(), 3, milliseconds=20_000)
        told.append((pods(world), scaling(world)[:2], status(world)["scaling"]["leaving"]))
        world.admin.emptied("c", 3)
        await world.run(20_000)
        told.append((pods(world), scaling(world)[:2], status(world)["scaling"]["leaving"]))
        world.admin.emptied("c", 4)
        await world.run(SETTLE_MS)
        return world

    told: list[Any] = []
    world = of(scene)
    everybody = [f"c-{one}" for one in range(5)]
    assert told[0] == (everybody, ("False", "ScalingDown"), "c-3, c-4")
    assert told[1] == (everybody, ("False", "ScalingDown"), "c-4"), "a StatefulSet has no gaps"
    assert pods(world) == everybody[:3]
    assert names(world, "PersistentVolumeClaim") == [f"data-c-{one}" for one in range(3)]
    assert [one["name"] for one in status(world)["volumes"]] == everybody[:3]
    assert sorted(set(world.admin.journal)) == ["leave 3", "leave 4"]
    assert not status(world).get("scaling")


@pytest.mark.parametrize("refusal", [Refused("ReplicaRefuses", "2 brokers would be left"), Transient("X", "ask again")])
def test_a_refusal_is_told_and_holds_nothing_else_up(refusal: OperatorError) -> None:
    async def scene() -> World:
        world = await five()
        world.admin.refusal = refusal
        await scaled(world, 4, milliseconds=30_000)
        told.append(scaling(world))
        world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"].update(image="muster:0.2.1"))
        return await scaled(world, 4, milliseconds=4 * SETTLE_MS)

    told: list[Any] = []
    world = of(scene)
    assert told[0][:2] == ("True", "DecommissionRefused")
    assert refusal.message in told[0][2]
    images = {world.fake.objects["Pod", "ns", name]["spec"]["containers"][0]["image"] for name in pods(world)}
    assert (len(pods(world)), images) == (5, {"muster:0.2.1"})
    asked = len([one for one in world.admin.journal if one == "leave 4"])
    assert 1 < asked < 20, "again, and ever more seldom"


def test_with_an_older_definition_nobody_is_added_and_the_condition_says_why() -> None:
    """It has no place for the number of founders, without which each pod might be taken for one."""

    async def scene() -> World:
        world = World()
        world.admin.feature_level = 3
        world.fake.undeclared = set(LATER_FIELDS)
        world.fake.put(cluster(image=IMAGE))
        world.start()
        return await scaled(await settled(world), 5)

    world = of(scene)
    assert len(pods(world)) == 3
    assert scaling(world)[:2] == ("True", "ScalingUnsupported")
    assert "update the definitions (CRDs)" in scaling(world)[2]


@pytest.mark.parametrize("refusal", [None, Refused("ReplicaRefuses", "broker 2 has no room")])
def test_a_cluster_of_one_gets_three_replicas(refusal: OperatorError | None) -> None:
    """The wish is told once, its progress and a refusal are in the status; what is done is recorded."""

    async def scene() -> World:
        world = World()
        world.admin.feature_level = 3
        world.admin.replicas = 1
        world.admin.leaders = dict.fromkeys(world.admin.leaders, 0)
        world.admin.replication_view = replace(world.admin.replication_view, factor=1, voters=1, voters_to_be=1)
        world.fake.put(cluster(image=IMAGE, replicas=1))
        world.start()
        await settled(world)
        world.admin.refusal = refusal
        edit = {"replicas": 3, "replicationFactor": 3}
        world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"].update(edit))
        await world.run(SETTLE_MS)
        told.append((scaling(world), status(world).get("replication", {}).get("partitionsToGo")))
        world.admin.replication_view = replace(
            world.admin.replication_view, partitions_to_go=0, voters=3, done=refusal is None
        )
        await world.run(SETTLE_MS)
        return world

    told: list[Any] = []
    world = of(scene)
    asked = [one for one in world.admin.journal if one == "replicas 3"]
    if refusal is None:
        assert (told[0][0][:2], told[0][1]) == (("False", "RaisingReplication"), 5)
        assert len(asked) == 1
        assert (status(world)["replicationFactor"], status(world)["founders"]) == (3, 1)
        assert scaling(world)[:2] == ("False", "ScaleAsWanted")
    else:
        assert told[0][0][:2] == ("True", "ReplicationRefused")
        assert refusal.message in told[0][0][2]
        assert 1 < len(asked) < 20, "again, and ever more seldom"
        assert "replicationFactor" not in status(world)
