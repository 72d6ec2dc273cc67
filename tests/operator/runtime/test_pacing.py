"""An upgrade of the operator changes the image of every cluster that names none: one cluster after the other."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from muster_operator.errors import Refused
from muster_operator.plan.pacing import Need, Turns
from muster_operator.runtime.keys import OwnerKey

from tests.operator.fakes import bench
from tests.operator.fakes.bench import World, cluster, run

NEW = "muster:2"
NAMES = ("a", "b", "c")


def images(world: World, name: str) -> list[str]:
    return [
        live["spec"]["containers"][0]["image"]
        for (kind, _, pod), live in sorted(world.fake.objects.items())
        if kind == "Pod" and pod.rpartition("-")[0] == name
    ]


def reason(world: World, name: str, type_: str) -> tuple[str, str]:
    conditions = world.fake.objects["CoordinatorCluster", "ns", name]["status"]["conditions"]
    return next((one["status"], one["reason"]) for one in conditions if one["type"] == type_)


async def before(*made: dict[str, Any]) -> World:
    """Converged clusters under the old operator, which then ends."""
    world = World()
    for one in made or tuple(cluster(name) for name in NAMES):
        world.fake.put(one)
    world.start()
    await world.begin()
    await world.run(60_000)
    world.stop()
    return world


async def upgraded(world: World, monkeypatch: pytest.MonkeyPatch, **numbers: int) -> None:
    """The new operator's process."""
    settings = dataclasses.replace(bench.SETTINGS, operator_image=NEW, **numbers)  # type: ignore[arg-type]
    monkeypatch.setattr(bench, "SETTINGS", settings)
    world.start()
    await world.begin()


async def watched(world: World, milliseconds: int, look: Callable[[list[str]], None]) -> None:
    """Let time pass; `look` is given the clusters that are in the middle of it, each second."""
    for _ in range(milliseconds // 1_000):
        await world.run(1_000)
        mixed = [name for name in NAMES if 0 < images(world, name).count(NEW) < len(images(world, name))]
        look(mixed)


@pytest.mark.parametrize("at_once", [1, 2])
def test_clusters_follow_one_after_the_other(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    async def scene() -> tuple[World, int, list[tuple[str, str]]]:
        world, most = await before(), 0
        waited = []
        await upgraded(world, monkeypatch, cluster_rollouts_max=at_once)

        def look(mixed: list[str]) -> None:
            nonlocal most
            most = max(most, len(mixed))
            waited.extend(
                reason(world, name, "Ready")
                for name in NAMES
                if reason(world, name, "Progressing") == ("True", "WaitingForTurn")
            )

        await watched(world, 300_000, look)
        return world, most, waited

    world, most, waited = run(scene())
    assert {name: set(images(world, name)) for name in NAMES} == {name: {NEW} for name in NAMES}
    assert most == at_once
    assert set(waited) == {("True", "AllReady")}, "who waits for a turn is as Ready as before"
    assert not any(world.fake.objects["CoordinatorCluster", "ns", name]["status"].get("rollout") for name in NAMES)


def test_an_image_that_does_not_start_costs_one_pod_of_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> World:
        world = await before()
        world.controllers.broken_images.add(NEW)
        await upgraded(world, monkeypatch)
        await world.run(120_000)
        return world

    world = run(scene())
    assert sum(images(world, name).count(NEW) for name in NAMES) == 1
    assert sorted(reason(world, name, "Ready")[0] for name in NAMES) == ["False", "True", "True"]


@pytest.mark.parametrize("restart_at_ms", [3_000, 17_000])
def test_an_operator_that_is_started_anew_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, restart_at_ms: int
) -> None:
    async def scene() -> tuple[World, int]:
        world, most = await before(), 0
        await upgraded(world, monkeypatch)
        await world.run(restart_at_ms)
        world.start()
        await world.begin()

        def look(mixed: list[str]) -> None:
            nonlocal most
            most = max(most, len(mixed))

        await watched(world, 200_000, look)
        return world, most

    world, most = run(scene())
    assert all(set(images(world, name)) == {NEW} for name in NAMES)
    assert most == 1


def test_pinned_paused_and_invalid_clusters_are_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> World:
        world = await before(cluster("a", image="own:1"), cluster("b"), cluster("c"), cluster("d"))
        paused = {"annotations": {"muster.dev/paused": "true"}}
        world.fake.edit("CoordinatorCluster", "ns", "b", lambda one: one["metadata"].update(paused))
        world.fake.edit("CoordinatorCluster", "ns", "d", lambda one: one["spec"].update(replicas=51))
        await upgraded(world, monkeypatch)
        await world.run(200_000)
        return world

    world = run(scene())
    found = {name: set(images(world, name)) for name in ("a", "b", "c", "d")}
    assert found == {"a": {"own:1"}, "b": {"muster:1"}, "c": {NEW}, "d": {"muster:1"}}


def test_what_the_spec_starts_does_not_wait_for_the_operators_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cluster is stuck on its way to a bad image; another one's own restart goes on."""

    async def scene() -> World:
        world = await before(cluster("a"), cluster("b", image="own:1"))
        world.controllers.broken_images.add(NEW)
        await upgraded(world, monkeypatch)
        await world.run(120_000)
        world.fake.edit("CoordinatorCluster", "ns", "b", lambda one: one["spec"].update(image="own:2"))
        await world.run(120_000)
        return world

    assert set(images(run(scene()), "b")) == {"own:2"}


A, B, C = (OwnerKey("CoordinatorCluster", "ns", name) for name in NAMES)


def turns(at_once: int = 1) -> Turns:
    """After every cluster was looked at."""
    made = Turns(at_once=at_once, delay_ms=30_000)
    for key in (A, B, C):
        made.looked(key)
    return made


def asked(made: Turns, key: OwnerKey, wanted: Need, now_ms: int = 0) -> str | None:
    return made.ask(key, wanted, known=(A, B, C), now_ms=now_ms)


def test_a_turn_ends_with_its_cluster_and_the_next_comes_after_the_delay() -> None:
    made = turns()
    assert asked(made, A, Need.TURN) is None
    assert "ns/a rolls out the operator's image first" in (asked(made, B, Need.TURN) or "")
    assert asked(made, A, Need.BEGUN) is None
    assert asked(made, A, Need.SETTLING) is None
    assert "ns/a" in (asked(made, B, Need.TURN, 50_000) or ""), "not every pod has been Ready for long enough"
    asked(made, A, Need.NONE, 60_000)
    assert "less than 30 s ago" in (asked(made, B, Need.TURN, 89_999) or "")
    assert asked(made, B, Need.TURN, 90_000) is None


def test_nobody_begins_before_every_cluster_was_looked_at() -> None:
    made = Turns(at_once=1, delay_ms=0)
    assert "ns/b had no pass since the operator started" in (asked(made, A, Need.TURN) or "")
    made.looked(B)
    assert asked(made, C, Need.BEGUN) is None
    assert "ns/c rolls out the operator's image first" in (asked(made, A, Need.TURN) or "")


def test_who_cannot_begin_and_who_is_gone_holds_no_turn() -> None:
    made = turns()
    assert asked(made, A, Need.TURN) is None
    assert "healthy" in (asked(made, A, Need.UNFIT) or "")
    assert asked(made, B, Need.TURN) is None
    made.forget(B, 1_000)
    assert made.ask(C, Need.TURN, known=(A, C), now_ms=31_000) is None


def test_a_cluster_whose_namespace_is_lost_in_its_turn_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> World:
        world = await before(cluster("a"))
        other = cluster("b")
        other["metadata"]["namespace"] = "other"
        world.fake.put(other)
        world.start(namespaces=("ns", "other"))
        await world.begin()
        await world.run(60_000)
        world.stop()
        settings = dataclasses.replace(bench.SETTINGS, operator_image=NEW)
        monkeypatch.setattr(bench, "SETTINGS", settings)
        core = world.start(namespaces=("ns", "other"))
        await world.begin()
        for _ in range(120):
            await world.run(1_000)
            if NEW in images(world, "a"):
                break
        assert NEW in images(world, "a")
        assert NEW not in images(world, "b")
        world.fake.blind["ns"] = {"Pod"}
        with pytest.raises(Refused):
            await core.resync.list_all()
        await world.run(300_000)
        return world

    assert set(images(run(scene()), "b")) == {NEW}
