"""A ConsumerGroup is deleted: its own static members leave as soon as their pods are gone, and nobody else's do."""

import dataclasses
from typing import Any

import pytest
from muster_operator.errors import Transient
from muster_operator.runtime import farewells
from muster_operator.world.group import Leaver, MemberView, ObservedGroup

from tests.operator.fakes.bench import World, cluster, group, run
from tests.operator.runtime.test_crashes import members, settled, stable, strangers

STEP_MS = 5_000


async def living(**spec: Any) -> World:
    """A group of three pods whose members were seen in them, among strangers of the same names and others."""
    world = World()
    world.fake.put(cluster())
    world.fake.put(group(**spec))
    view = stable(3)
    world.kafka.groups["g"] = dataclasses.replace(view, members=(*view.members, *strangers()))
    world.start()
    return await settled(world)


def collect(world: World) -> None:
    """What Kubernetes' garbage collector does next; the kubelet ends the pods in the controllers' next step."""
    for key, live in list(world.fake.objects.items()):
        if any(one["kind"] == "ConsumerGroup" for one in live["metadata"].get("ownerReferences") or ()):
            world.fake.remove(*key, cascade=False)
    for kind, namespace, name in list(world.fake.objects):
        if kind == "Pod" and name.startswith("g-"):
            world.fake._end(world.fake.objects[kind, namespace, name])


def names(world: World) -> list[str]:
    return sorted(one.member_id for one in members(world))


STRANGERS = [f"s{n}" for n in range(3, 10)]


def test_members_leave_when_their_pods_are_gone_and_not_before() -> None:
    async def scene() -> World:
        world = await living()
        world.fake.remove("ConsumerGroup", "ns", "g", cascade=False)
        await world.run(STEP_MS)
        assert names(world) == ["m0", "m1", "m2", *STRANGERS], "their pods still run"
        world.controllers.cut_off = {"g-1"}
        collect(world)
        await world.run(STEP_MS)
        assert names(world) == ["m1", *STRANGERS], "a pod on a cut-off node exists"
        world.controllers.cut_off = set()
        await world.run(STEP_MS)
        return world

    assert names(run(scene())) == STRANGERS


def test_a_foreground_deletion_whose_pods_go_first() -> None:
    async def scene() -> World:
        world = await living()
        world.fake.edit("ConsumerGroup", "ns", "g", lambda one: one["metadata"].update(deletionTimestamp="now"))
        await world.run(STEP_MS)
        collect(world)
        await world.run(10 * STEP_MS)
        assert names(world) == ["m0", "m1", "m2", *STRANGERS]
        world.fake.remove("ConsumerGroup", "ns", "g", cascade=False)
        await world.run(STEP_MS)
        return world

    assert names(run(scene())) == STRANGERS


@pytest.mark.parametrize("spec", [{"paused": True}, {"staticMembership": False}, {"template": None}])
def test_whose_members_are_not_the_operators_keeps_them(spec: dict[str, Any]) -> None:
    async def scene() -> World:
        world = await living()
        if spec.get("template", 1) is None:
            world.fake.edit("ConsumerGroup", "ns", "g", lambda one: one["spec"].pop("template"))
        else:
            world.fake.edit("ConsumerGroup", "ns", "g", lambda one: one["spec"].update(spec))
        await world.run(10 * STEP_MS)
        world.kafka.removed.clear()
        world.fake.remove("ConsumerGroup", "ns", "g", cascade=False)
        await world.run(STEP_MS)
        if ("StatefulSet", "ns", "g") in world.fake.objects:
            collect(world)
        await world.run(10 * STEP_MS)
        return world

    assert run(scene()).kafka.removed == []


def test_a_member_that_was_not_seen_in_a_pod_of_this_object_stays() -> None:
    """The instance ids are ours, the addresses are not: a StatefulSet of that name elsewhere."""

    async def scene() -> World:
        world = await living()
        view = world.kafka.groups["g"]
        assert isinstance(view, ObservedGroup)
        foreign = tuple(
            MemberView(member_id=f"f{n}", instance_id=f"g-{n}", client_id="x", host="172.16.0.9", assignment=())
            for n in range(3)
        )
        world.kafka.groups["g"] = dataclasses.replace(view, members=foreign)
        await world.run(20 * STEP_MS)
        world.fake.remove("ConsumerGroup", "ns", "g", cascade=False)
        collect(world)
        await world.run(10 * STEP_MS)
        return world

    world = run(scene())
    assert names(world) == ["f0", "f1", "f2"], "who holds the ids by now was never in our pods"


def test_a_successor_of_the_same_name_keeps_its_members() -> None:
    """The old object's members are removed by member id; who joined under the same instance ids has others."""

    async def scene() -> World:
        world = await living()
        world.fake.remove("ConsumerGroup", "ns", "g", cascade=False)
        world.fake.put(group())
        collect(world)
        view = world.kafka.groups["g"]
        assert isinstance(view, ObservedGroup)
        await world.run(STEP_MS)
        fresh = tuple(dataclasses.replace(one, member_id=f"n{i}", host="") for i, one in enumerate(stable(3).members))
        world.kafka.groups["g"] = dataclasses.replace(view, members=fresh)
        await world.run(40 * STEP_MS)
        return world

    world = run(scene())
    assert names(world) == ["n0", "n1", "n2"]
    assert {name for kind, _, name in world.fake.objects if kind == "Pod" and name.startswith("g-")} == {
        "g-0", "g-1", "g-2",
    }  # fmt: skip


class Unreachable:
    """A cluster that takes no removal."""

    def __init__(self, world: World) -> None:
        self.tries = 0
        world.kafka.remove_members = self.remove_members  # type: ignore[method-assign]

    async def remove_members(self, *, bootstrap: str, group_id: str, members: list[Leaver]) -> None:
        self.tries += 1
        raise Transient("BootstrapUnreachable", "no broker answers")


def test_an_unreachable_cluster_is_given_up_when_its_members_are_gone_by_themselves() -> None:
    async def scene() -> tuple[int, int, World]:
        world = await living()
        silent = Unreachable(world)
        world.fake.remove("ConsumerGroup", "ns", "g", cascade=False)
        collect(world)
        await world.run(30_000)
        first = silent.tries
        await world.run(600_000)
        then = silent.tries
        await world.run(600_000)
        assert silent.tries == then
        return first, then, world

    first, then, world = run(scene())
    assert 1 <= first <= then <= 10
    assert ("ConsumerGroup", "ns", "g") not in world.fake.objects, "nothing holds the deletion up"
    assert not any(one["metadata"].get("finalizers") for one in world.fake.objects.values())


def test_an_operator_that_started_afterwards_removes_nobody() -> None:
    """Nothing of it is stored anywhere; the session timeout does it."""

    async def scene() -> World:
        world = await living()
        world.fake.remove("ConsumerGroup", "ns", "g", cascade=False)
        world.stop()
        world.start()
        await world.begin()
        collect(world)
        await world.run(20 * STEP_MS)
        return world

    assert run(scene()).kafka.removed == []


def test_orphaned_pods_keep_their_membership() -> None:
    """`kubectl delete --cascade=orphan`: the pods run on."""

    async def scene() -> World:
        world = await living()
        world.fake.remove("ConsumerGroup", "ns", "g", cascade=False)
        await world.run(900_000)
        return world

    assert run(scene()).kafka.removed == []


def test_so_many_at_once_that_the_oldest_is_left_to_the_session_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farewells, "FAREWELLS_MAX", 1)

    async def scene() -> World:
        world = await living()
        world.fake.put(group("h"))
        other = tuple(
            dataclasses.replace(one, instance_id=f"h-{n}", member_id=f"h{n}") for n, one in enumerate(stable(3).members)
        )
        world.kafka.groups["h"] = dataclasses.replace(stable(3), members=other)
        await world.run(20 * STEP_MS)
        for name in ("g", "h"):
            world.fake.remove("ConsumerGroup", "ns", name, cascade=False)
            await world.run(STEP_MS)
        for key in [key for key in world.fake.objects if key[0] == "StatefulSet" and key[2] in ("g", "h")]:
            world.fake.remove(*key)
        await world.run(STEP_MS)
        return world

    assert run(scene()).kafka.removed == [("h", ("h-0", "h-1", "h-2"))]


def test_who_is_given_up_while_its_members_are_removed_ends_no_pass(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A KeyError ended a pass, which may raise nothing: others that left had taken its place meanwhile."""
    known: list[farewells.Farewells] = []
    gone = farewells.Farewells.gone

    def noted(self: farewells.Farewells, *args: Any, **options: Any) -> None:
        known[:] = [self]
        gone(self, *args, **options)

    monkeypatch.setattr(farewells.Farewells, "gone", noted)

    async def scene() -> World:
        world = await living()
        remove = world.kafka.remove_members

        async def given_up(**options: Any) -> None:
            await remove(**options)
            for key in list(known[0]._leaving):
                known[0].drop(key)

        monkeypatch.setattr(world.kafka, "remove_members", given_up)
        world.fake.remove("ConsumerGroup", "ns", "g", cascade=False)
        await world.run(STEP_MS)
        collect(world)
        await world.run(STEP_MS)
        return world

    world = run(scene())
    assert names(world) == STRANGERS
    assert known[0]._leaving == {}
    assert "bug in a pass" not in caplog.text
