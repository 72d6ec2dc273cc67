"""An image whose release does not know what the spec asks for reaches no pod, and condition Degraded says why."""

import dataclasses
import zipfile
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.upstream_settings import UpstreamKeys
from muster_operator.api.releases import UPSTREAM_SINCE

from tests.operator.api.generate import ROOT
from tests.operator.fakes import bench
from tests.operator.fakes.bench import World, cluster, run
from tests.operator.plan.test_downgrade import images, pin, said, uids
from tests.operator.runtime.test_crashes import settled

BESIDE = {"mode": "kafka", "kafka": {"bootstrapServers": "kafka:9092"}}
WHEELS = sorted((ROOT / "tests" / "releases").glob("*/*.whl"))


@pytest.fixture(autouse=True)
def of_this_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SETTINGS", dataclasses.replace(bench.SETTINGS, operator_release="0.3.0"))


def world_of(**spec: Any) -> World:
    world = World()
    world.admin.versions = {"muster:1": "0.3.0", "muster:0.2.0": "0.2.0", "muster:0.3.0": "0.3.0"}
    world.admin.feature_level = 3
    world.fake.put(cluster(**spec))
    world.start()
    return world


def written(world: World) -> list[str]:
    """Settings files of the cluster."""
    return [
        text
        for (kind, _, name), live in world.fake.objects.items()
        if kind == "ConfigMap" and "config" in name
        for text in live["data"].values()
    ]


def test_a_new_cluster_of_an_older_release_is_not_made_until_the_image_is_another_one() -> None:
    async def scene() -> World:
        world = await settled(world_of(image="muster:0.2.0", topics=BESIDE))
        assert said(world)["Degraded"] == ("True", "ReleaseTooOld")
        assert said(world)["Ready"][0] != "True"
        kinds = {kind for kind, _, _ in world.fake.objects}
        assert not kinds & {"StatefulSet", "Pod"}
        assert written(world) == []
        (message,) = [
            one["message"]
            for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]
            if one["type"] == "Degraded"
        ]
        assert "release 0.2.0, which does not know `topics.kafka`" in message
        before = len(world.fake.writes())
        await world.run(300_000)
        assert len(world.fake.writes()) == before, "the same is not said again and again"
        pin(world, image="muster:0.3.0")
        await world.run(120_000)
        return world

    world = run(scene())
    assert (images(world), said(world)["Degraded"]) == ({"muster:0.3.0"}, ("False", "AsExpected"))
    assert said(world)["Ready"] == ("True", "AllReady")
    assert all("upstream.listeners=" in text for text in written(world))


@pytest.mark.parametrize("version", [None, "0.2.9"], ids=["by its tag", "as it is told"])
def test_a_running_one_of_an_older_release_goes_on_as_it_was(version: str | None) -> None:
    image = {"image": "muster:0.2.0"} if version is None else {"image": "muster:own", "version": version}

    async def scene() -> tuple[World, set[str]]:
        world = await settled(world_of(**image))
        before = uids(world)
        pin(world, topics=BESIDE)
        await world.run(120_000)
        return world, before

    world, before = run(scene())
    assert (uids(world), said(world)["Degraded"]) == (before, ("True", "ReleaseTooOld"))
    assert said(world)["Ready"] == ("True", "AllReady")
    assert not any("upstream" in text for text in written(world))


def test_the_way_back_to_an_older_release_is_closed_while_topics_are_a_kafkas() -> None:
    async def scene() -> World:
        world = await settled(world_of(topics=BESIDE))
        assert said(world)["Degraded"] == ("False", "AsExpected")
        pin(world, image="muster:0.2.0")
        await world.run(120_000)
        assert (images(world), said(world)["Degraded"]) == ({"muster:1"}, ("True", "ReleaseTooOld"))
        pin(world, topics=None)
        await world.run(240_000)
        return world

    world = run(scene())
    assert (images(world), said(world)["Degraded"]) == ({"muster:0.2.0"}, ("False", "AsExpected"))


def test_an_image_that_does_not_say_its_release_is_judged_by_its_coordinators() -> None:
    world = run(settled(world_of(image="muster:nightly", topics=BESIDE)))
    assert images(world) == {"muster:nightly"}


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_the_releases_before_really_do_not_know_these_settings(wheel: Path) -> None:
    version = tuple(map(int, wheel.name.split("-")[1].split(".")))
    assert version < UPSTREAM_SINCE
    with zipfile.ZipFile(wheel) as archive:
        sources = [archive.read(name) for name in archive.namelist() if name.endswith(".py")]
    assert len(sources) > 100
    for item in dataclasses.fields(UpstreamKeys):
        assert not any(item.metadata["key"].encode() in source for source in sources), item.metadata["key"]
