"""A pause in the middle of a roll: no further pod is replaced, of either kind; and afterwards the roll goes on."""

from typing import Any

import pytest
from muster_operator.naming import HELD_ANNOTATION, PAUSED_ANNOTATION

from tests.operator.fakes.bench import World, cluster, group, run
from tests.operator.runtime.test_crashes import settled, stable

LONG_MS = 300_000
HELD = ["consumer:1", "consumer:2", "consumer:2"]
"""g-2 is replaced, and g-1 is being stopped by the time that the pause is seen."""
CASES = {
    "ConsumerGroup": ("g", lambda spec: spec["template"].update(image="consumer:2"), "consumer:2"),
    "CoordinatorCluster": ("c", lambda spec: spec.update(image="muster:2"), "muster:2"),
}


def images(world: World, name: str) -> list[str]:
    """Of the pods, by ordinal."""
    return [
        live["spec"]["containers"][0]["image"]
        for (kind, _, pod), live in sorted(world.fake.objects.items())
        if kind == "Pod" and pod.startswith(f"{name}-")
    ]


def uids(world: World, name: str) -> list[str]:
    return [
        live["metadata"]["uid"]
        for (kind, _, pod), live in sorted(world.fake.objects.items())
        if kind == "Pod" and pod.startswith(f"{name}-")
    ]


def pause(world: World, kind: str, name: str, text: str | None) -> None:
    def change(one: dict[str, Any]) -> None:
        annotations = one["metadata"].setdefault("annotations", {})
        annotations.pop(PAUSED_ANNOTATION, None) if text is None else annotations.update({PAUSED_ANNOTATION: text})

    world.fake.edit(kind, "ns", name, change)


async def rolling(kind: str) -> World:
    """Until exactly one pod has the new image, and is Ready."""
    world = World()
    world.fake.put(cluster())
    world.fake.put(group())
    world.kafka.groups["g"] = stable(3)
    world.start()
    await settled(world)
    name, change, image = CASES[kind]
    world.fake.edit(kind, "ns", name, lambda one: change(one["spec"]))
    for _ in range(300):
        await world.run(1_000)
        if images(world, name).count(image) == 1 and len(images(world, name)) == 3:
            return world
    raise AssertionError("no roll")


def statefulset(world: World, name: str) -> dict[str, Any]:
    return world.fake.objects["StatefulSet", "ns", name]


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("operator", ["goes on", "is another one"])
def test_a_pause_in_the_middle_of_a_roll_stops_it_there(kind: str, operator: str) -> None:
    name, _, image = CASES[kind]

    async def scene() -> World:
        world = await rolling(kind)
        pause(world, kind, name, "true")
        if operator == "is another one":
            world.stop()
            world.start()
            await world.begin()
        await world.run(4_000)  # who was being stopped already comes back with the new image
        before, drains = uids(world, name), list(world.admin.journal)
        assert images(world, name).count(image) < 3
        await world.run(LONG_MS)
        assert uids(world, name) == before, "a pod was replaced while it is paused"
        assert world.admin.journal == drains
        pause(world, kind, name, None)
        await world.run(LONG_MS)
        return world

    world = run(scene())
    assert images(world, name) == [image] * 3
    live = statefulset(world, name)
    assert HELD_ANNOTATION not in live["metadata"]["annotations"]
    assert live["spec"]["updateStrategy"].get("rollingUpdate", {}).get("partition", 0) == 0
    said = {one["type"]: one["status"] for one in world.fake.objects[kind, "ns", name]["status"]["conditions"]}
    assert (said["Ready"], said["Paused"]) == ("True", "False")


def test_a_pod_that_dies_during_the_pause_keeps_its_revision() -> None:
    async def scene() -> World:
        world = await rolling("ConsumerGroup")
        pause(world, "ConsumerGroup", "g", "true")
        await world.run(5_000)
        for ordinal in (0, 2):
            world.fake.remove("Pod", "ns", f"g-{ordinal}")
        await world.run(60_000)
        return world

    assert images(run(scene()), "g") == HELD


def test_a_change_during_the_pause_waits_for_its_end_and_is_what_is_rolled_to() -> None:
    async def scene() -> World:
        world = await rolling("ConsumerGroup")
        pause(world, "ConsumerGroup", "g", "true")
        await world.run(5_000)
        world.fake.edit("ConsumerGroup", "ns", "g", lambda one: one["spec"]["template"].update(image="consumer:3"))
        await world.run(60_000)
        assert images(world, "g") == HELD
        pause(world, "ConsumerGroup", "g", None)
        await world.run(LONG_MS)
        return world

    assert images(run(scene()), "g") == ["consumer:3"] * 3


def test_a_pause_costs_nothing_once_it_holds() -> None:
    async def scene() -> list[tuple[str, str, str]]:
        world = await rolling("ConsumerGroup")
        pause(world, "ConsumerGroup", "g", "true")
        await world.run(30_000)
        world.fake.calls.clear()
        await world.run(60_000)
        return [one for one in world.fake.writes() if one[1] == "StatefulSet"]

    assert run(scene()) == []
