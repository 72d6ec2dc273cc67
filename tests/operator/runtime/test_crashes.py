"""The operator may die at any request; the next one, which remembers nothing, ends in the same state.

Create, restart (a new image), scale and the loss of a volume are run once without a fault to count the requests, then
once for every boundary: before the n-th request was sent, and after it was carried out but not yet known.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from muster_operator import naming
from muster_operator.world.group import MemberView, ObservedGroup, PartitionView

from tests.operator.fakes.bench import World, cluster, group, run
from tests.operator.fakes.faults import Crash, FaultLine

SETTLE_MS = 90_000
READS = {"get", "list", "replica", "group", "group_facts", "secret_value"}
OURS = {"CoordinatorCluster", "ConsumerGroup"}


def stable(instances: int) -> ObservedGroup:
    """A Stable group of static members g-0 … ."""
    return ObservedGroup(
        state="Stable", coordinator="0 (c-0:9092)", protocol_type="consumer", protocol="range", generation=None,
        last_rebalance_ms=None, last_rebalance_reason=None,
        members=tuple(
            MemberView(member_id=f"m{n}", instance_id=f"g-{n}", client_id="x", host="",
                       assignment=(("orders", (n,)),))
            for n in range(instances)
        ),
        partitions=tuple(PartitionView(topic="orders", partition=n, committed=5, log_end=9) for n in range(instances)),
    )  # fmt: skip


async def settled(world: World) -> World:
    await world.begin()
    await world.run(SETTLE_MS)
    return world


async def created() -> World:
    world = World()
    world.fake.put(cluster())
    world.fake.put(group())
    world.kafka.groups["g"] = stable(3)
    return world


async def restarted() -> World:
    world = await created()
    world.start()
    await settled(world)
    world.stop()
    world.admin.journal.clear()
    world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"].update(image="muster:2"))
    return world


async def scaled() -> World:
    world = await created()
    world.start()
    await settled(world)
    world.stop()
    world.fake.edit("ConsumerGroup", "ns", "g", lambda one: one["spec"].update(replicas=1))
    return world


async def without_claim() -> World:
    """Somebody deletes the claim and the pod of c-2."""
    world = await created()
    world.start()
    await settled(world)
    world.stop()
    for kind, name in (("PersistentVolumeClaim", "data-c-2"), ("Pod", "c-2")):
        world.fake.remove(kind, "ns", name)
    return world


async def without_volume() -> World:
    """The PersistentVolume of c-1 is gone, and its pod cannot start on the claim that is left."""
    world = await created()
    world.start()
    await settled(world)
    world.stop()
    claim = world.fake.objects["PersistentVolumeClaim", "ns", "data-c-1"]
    world.fake.remove("PersistentVolume", "", claim["spec"]["volumeName"])
    world.fake.remove("Pod", "ns", "c-1")
    return world


def state(world: World) -> dict[Any, Any]:
    """Everything that matters of every object: names, specs, data keys, conditions without times."""
    found = {}
    for key, live in world.fake.objects.items():
        if key[0] in ("Event", "Lease"):
            continue
        said = (live.get("status") or {}).get("conditions") or () if key[0] in OURS else ()
        conditions = {one["type"]: (one["status"], one["reason"]) for one in said}
        spec = {k: v for k, v in (live.get("spec") or {}).items() if k != "nodeName"}
        found[key] = (spec, sorted(live.get("data") or ()), conditions)
    bindings = {name: {one: seat.binding for one, seat in seats.items()} for name, seats in world.admin.seats.items()}
    gone = len(world.admin.gone)
    return {
        "objects": found, "members": sorted(m.instance_id or "" for m in members(world)), "bindings": bindings,
        "gone": gone,
    }  # fmt: skip


def members(world: World) -> tuple[MemberView, ...]:
    view = world.kafka.groups["g"]
    assert isinstance(view, ObservedGroup)
    return view.members


async def with_crash(prepare: Callable[[], Any], at: int | None, *, after: bool) -> tuple[World, FaultLine]:
    world = await prepare()
    line = FaultLine(at, after=after)
    world.start(line)
    try:
        await settled(world)
        assert at is None, f"request {at} was never made"
    except Crash:
        world.stop()
        world.start()
        await settled(world)
    return world, line


SCENES = {
    "create": created, "restart": restarted, "scale": scaled, "claim lost": without_claim,
    "volume lost": without_volume,
}  # fmt: skip
ACTIONS_MIN = {"claim lost": 2, "volume lost": 4}


@pytest.mark.computes
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", SCENES)
def test_a_crash_at_any_request_changes_nothing_about_the_end(scene: str) -> None:
    prepare = SCENES[scene]
    calm, line = run(with_crash(prepare, None, after=False))
    wanted = state(calm)
    # Every request that changes something, and a sample of the reads in between, which repeat while a pass waits.
    boundaries = [at for at, name in enumerate(line.names, 1) if name not in READS or at % 9 == 0]
    changing = [line.names[at - 1] for at in boundaries if line.names[at - 1] not in READS]
    assert len(changing) >= ACTIONS_MIN.get(scene, 5), changing
    for at in boundaries:
        for after in (False, True):
            world, _ = run(with_crash(prepare, at, after=after))
            assert state(world) == wanted, f"crash {'after' if after else 'before'} {line.names[at - 1]}, request {at}"


def test_create_makes_the_objects_and_says_ready() -> None:
    world, _ = run(with_crash(created, None, after=False))
    assert {"StatefulSet", "Service", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy", "Secret"} <= {
        kind for kind, _, _ in world.fake.objects
    }
    for key in (("CoordinatorCluster", "ns", "c"), ("ConsumerGroup", "ns", "g")):
        conditions = {one["type"]: one["status"] for one in world.fake.objects[key]["status"]["conditions"]}
        assert conditions["Ready"] == "True", (key, conditions)
    assert world.admin.tokens == {"s3cr3t-t0k3n-value"}


def test_restart_drains_every_pod_and_replaces_it() -> None:
    world, _ = run(with_crash(restarted, None, after=False))
    images = {
        live["spec"]["containers"][0]["image"]
        for (kind, _, name), live in world.fake.objects.items()
        if kind == "Pod" and name.startswith("c-")
    }
    assert images == {"muster:2"}
    assert sorted(world.admin.journal) == ["drain c-0", "drain c-1", "drain c-2"]


def test_scale_down_removes_the_members_that_left() -> None:
    world, _ = run(with_crash(scaled, None, after=False))
    assert [one.instance_id for one in members(world)] == ["g-0"]
    pods = {name for kind, _, name in world.fake.objects if kind == "Pod" and name.startswith("g-")}
    assert pods == {naming.pod_name("g", 0)}


def strangers() -> tuple[MemberView, ...]:
    return tuple(
        MemberView(member_id=f"s{n}", instance_id=f"g-{n}", client_id="x", host="172.16.0.9", assignment=())
        for n in range(3, 10)
    )


def test_members_from_elsewhere_stay_through_three_to_one_to_three_and_the_deletion() -> None:
    async def scene() -> World:
        world = await created()
        view = world.kafka.groups["g"]
        assert isinstance(view, ObservedGroup)
        world.kafka.groups["g"] = dataclasses.replace(view, members=(*view.members, *strangers()))
        world.start()
        await settled(world)
        for replicas in (1, 3):
            world.fake.edit("ConsumerGroup", "ns", "g", lambda one, now=replicas: one["spec"].update(replicas=now))
            await world.run(SETTLE_MS)
        world.fake.remove("ConsumerGroup", "ns", "g")
        await world.run(SETTLE_MS)
        return world

    world = run(scene())
    assert world.kafka.removed == [("g", ("g-1", "g-2")), ("g", ("g-0",))], "of the deleted object, its own member"
    assert members(world) == strangers()


def test_a_status_that_may_not_be_written_holds_the_scale_down_until_it_may() -> None:
    async def scene() -> tuple[int, int]:
        world = await scaled()
        world.start()
        world.fake.refuse["apply_status", "ConsumerGroup"] = "no right to it"
        await settled(world)
        held = world.fake.objects["StatefulSet", "ns", "g"]["spec"]["replicas"]
        world.fake.refuse.clear()
        await world.run(10 * SETTLE_MS)
        assert [one.instance_id for one in members(world)] == ["g-0"]
        return held, world.fake.objects["StatefulSet", "ns", "g"]["spec"]["replicas"]

    assert run(scene()) == (3, 1)


def test_an_older_definition_costs_a_try_and_nobody_is_removed() -> None:
    async def scene() -> World:
        world = await scaled()
        world.fake.undeclared = {"departing"}
        world.start()
        return await settled(world)

    world = run(scene())
    assert world.fake.objects["StatefulSet", "ns", "g"]["spec"]["replicas"] == 1
    assert world.kafka.removed == []
    status = world.fake.objects["ConsumerGroup", "ns", "g"]["status"]
    assert (status["readyText"], "departing" in status) == ("1/1", False)


def test_a_pod_on_a_cut_off_node_keeps_its_membership() -> None:
    async def scene() -> World:
        world = await scaled()
        world.controllers.cut_off = {"g-2"}
        world.start()
        return await settled(world)

    world = run(scene())
    assert [one.instance_id for one in members(world)] == ["g-0", "g-2"]


def test_a_bad_image_stops_after_one_pod_and_heals_on_revert() -> None:
    async def scene() -> tuple[World, set[str]]:
        world = await restarted()
        world.controllers.broken_images = {"muster:2"}
        world.start()
        await settled(world)
        broken = {
            name
            for (kind, _, name), live in world.fake.objects.items()
            if kind == "Pod" and name.startswith("c-") and live["spec"]["containers"][0]["image"] == "muster:2"
        }
        world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"].pop("image"))
        await world.run(SETTLE_MS)
        return world, broken

    world, broken = run(scene())
    assert len(broken) == 1
    conditions = {
        one["type"]: one["status"]
        for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]
    }
    assert conditions["Ready"] == "True"
