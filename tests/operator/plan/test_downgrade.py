"""Releases: what the status says of them, what is written for which, and which may not follow which."""

import dataclasses
import tomllib
from typing import Any

import pytest
from muster_coordinator.replica.settings import FEATURE_LEVEL
from muster_coordinator.settings import Settings
from muster_operator.api import releases
from muster_operator.api.releases import FEATURE_LEVELS, KEYS_SINCE, Release, level_of, parse_release, release_of
from muster_operator.naming import MADE_FOR_ANNOTATION
from muster_operator.plan import downgrade
from muster_operator.resources import server_properties
from muster_operator.resources.peer_mode import PeerMode

from tests.operator.api.generate import ROOT
from tests.operator.fakes import bench
from tests.operator.fakes.bench import World, cluster, run
from tests.operator.resources.owners import cluster_spec, owner
from tests.operator.runtime.test_crashes import settled

LEVELS = ((Release(0, 1, 0), 1), (Release(0, 3, 0), 2), (Release(1, 0, 0), 4))
KEY = "muster.peer.listener"
FIRST_RELEASE_KEYS = frozenset((ROOT / "tests" / "operator" / "plan" / "keys_of_0_1_0.txt").read_text().split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1.0", (0, 1, 0)), ("v1.2.3", (1, 2, 3)), ("1.2.3-rc.1", (1, 2, 3)), ("1.2.3+g1a2b", (1, 2, 3)),
        ("1.2", None), ("latest", None), ("", None), ("1.2.3.4.5", (1, 2, 3)), ("123456.0.0", None), ("1.2.3 ", None),
    ],
)  # fmt: skip
def test_versions(text: str, expected: tuple[int, ...] | None) -> None:
    assert parse_release(text) == expected


@pytest.mark.parametrize(
    ("image", "told", "expected"),
    [
        ("own:dev", None, (0, 9, 0)),
        ("registry:5000/team/muster:0.2.1", None, (0, 2, 1)),
        ("registry:5000/team/muster", None, None),
        ("muster:0.2.1@sha256:" + "a" * 64, None, (0, 2, 1)),
        ("muster@sha256:" + "a" * 64, None, None),
        ("muster@sha256:" + "a" * 64, "0.2.1", (0, 2, 1)),
        ("muster:0.2.1", "0.4.0", (0, 4, 0)),
        ("muster:nightly", None, None),
    ],
)
def test_the_release_in_an_image(image: str, told: str | None, expected: tuple[int, ...] | None) -> None:
    assert release_of(image, told=told, operator_image="own:dev", operator_release="0.9.0") == expected


@pytest.mark.parametrize(
    ("release", "level"), [("0.0.9", 1), ("0.1.0", 1), ("0.2.9", 1), ("0.3.0", 2), ("1.0.0", 4), ("1.0.1", None)]
)
def test_what_a_release_can_read(release: str, level: int | None) -> None:
    parsed = parse_release(release)
    assert parsed is not None
    assert level_of(parsed, LEVELS) == level


def test_the_table_is_this_releases() -> None:
    """Whoever raises the coordinator's level adds a row here, with a release that is not out yet."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    this = parse_release(version)
    assert this is not None
    assert list(FEATURE_LEVELS) == sorted(FEATURE_LEVELS)
    assert FEATURE_LEVELS[-1][1] == FEATURE_LEVEL
    assert all(since <= this for since in (*dict(FEATURE_LEVELS), *KEYS_SINCE.values()))
    assert level_of(this) == FEATURE_LEVEL
    assert level_of(Release(0, 1, 0)) == 1, "what 0.1.0 cannot read, it is not given"


def test_every_key_that_the_operator_writes_is_known_to_each_release_that_it_is_written_for() -> None:
    """A new one without its row in KEYS_SINCE would keep pinned older releases from starting."""
    passing = PeerMode("secret", ("none",))
    written = set(server_properties.settings(owner(), cluster_spec(), replicas=3, joins=True, peers=passing))
    assert written - FIRST_RELEASE_KEYS == set(KEYS_SINCE)
    assert written <= {item.metadata["key"] for item in dataclasses.fields(Settings) if item.metadata}


def test_a_key_is_left_out_for_a_release_that_does_not_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(releases.KEYS_SINCE, KEY, Release(0, 5, 0))  # type: ignore[arg-type]

    def keys(release: Release | None) -> set[str]:
        return set(server_properties.settings(owner(), cluster_spec(), replicas=3, release=release))

    assert keys(None) == keys(Release(0, 5, 0)) == keys(Release(1, 0, 0))
    assert keys(None) - keys(Release(0, 4, 9)) == {KEY}


def test_what_the_user_set_is_written_whatever_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(releases.KEYS_SINCE, "muster.log.level", Release(9, 0, 0))  # type: ignore[arg-type]
    spec = cluster_spec(config={"muster.log.level": "debug"})
    assert "muster.log.level" in server_properties.settings(owner(), spec, replicas=3, release=Release(0, 1, 0))


async def living(monkeypatch: pytest.MonkeyPatch, *, level: int = 2, **spec: Any) -> World:
    """A converged cluster of the operator's own image muster:1, which is release 0.3.0 here."""
    monkeypatch.setattr(downgrade, "level_of", lambda release: level_of(release, LEVELS))
    monkeypatch.setattr(bench, "SETTINGS", dataclasses.replace(bench.SETTINGS, operator_release="0.3.0"))
    world = World()
    world.admin.versions = {"muster:1": "0.3.0", "muster:0.2.0": "0.2.0"}
    world.admin.feature_level = level
    world.fake.put(cluster(**spec))
    world.start()
    return await settled(world)


def said(world: World) -> dict[str, tuple[str, str]]:
    status = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def images(world: World) -> set[str]:
    return {
        live["spec"]["containers"][0]["image"]
        for (kind, _, name), live in world.fake.objects.items()
        if kind == "Pod" and name.startswith("c-")
    }


def pin(world: World, **spec: Any) -> None:
    world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"].update(spec))


def test_the_status_says_what_the_coordinators_say(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> tuple[World, list[str]]:
        world = await living(monkeypatch)
        status = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]
        assert (status["version"], status["featureLevel"]) == ("0.3.0", 2)
        world.admin.versions["muster:0.3.1"] = "0.3.1"
        pin(world, image="muster:0.3.1")
        seen = []
        for _ in range(90):
            await world.run(1_000)
            now = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["version"]
            if not seen or seen[-1] != now:
                seen.append(now)
        return world, seen

    world, seen = run(scene())
    assert seen == ["0.3.0", "0.3.0, 0.3.1", "0.3.1"]
    assert images(world) == {"muster:0.3.1"}


def test_a_downgrade_that_could_not_be_read_touches_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> World:
        world = await living(monkeypatch)
        before = {key: live["metadata"]["uid"] for key, live in world.fake.objects.items() if key[0] == "Pod"}
        template = world.fake.objects["StatefulSet", "ns", "c"]["spec"]["template"]
        pin(world, image="muster:0.2.0")
        await world.run(60_000)
        assert said(world)["Degraded"] == ("True", "DowngradeRefused")
        assert said(world)["Ready"][0] == "True", "what runs goes on"
        assert world.fake.objects["StatefulSet", "ns", "c"]["spec"]["template"] == template
        assert before == {k: live["metadata"]["uid"] for k, live in world.fake.objects.items() if k[0] == "Pod"}
        world.fake._end(world.fake.objects["Pod", "ns", "c-1"])
        await world.run(60_000)
        assert images(world) == {"muster:1"}, "a pod that goes away by itself comes back as it was"
        (message,) = [
            one["message"]
            for one in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]
            if one["type"] == "Degraded"
        ]
        assert "knows feature level 1; the cluster's is 2" in message
        pin(world, image="muster:1")
        await world.run(60_000)
        return world

    assert said(run(scene()))["Degraded"] == ("False", "AsExpected")


def test_a_downgrade_before_the_level_is_final_is_a_restart_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> World:
        world = await living(monkeypatch, level=1)
        pin(world, image="muster:0.2.0")
        await world.run(120_000)
        return world

    world = run(scene())
    assert images(world) == {"muster:0.2.0"}
    assert said(world)["Degraded"] == ("False", "AsExpected")


@pytest.mark.parametrize("image", ["muster:nightly", "muster:0.3.7", "muster:2.0.0"])
def test_unknown_and_newer_releases_are_judged_by_the_coordinator_itself(
    monkeypatch: pytest.MonkeyPatch, image: str
) -> None:
    async def scene() -> World:
        world = await living(monkeypatch)
        pin(world, image=image)
        await world.run(120_000)
        return world

    assert images(run(scene())) == {image}


def test_the_release_that_is_told_wins_over_the_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> World:
        world = await living(monkeypatch)
        pin(world, image="muster:nightly", version="0.2.0")
        await world.run(60_000)
        return world

    world = run(scene())
    assert (images(world), said(world)["Degraded"]) == ({"muster:1"}, ("True", "DowngradeRefused"))


def test_a_level_that_nobody_tells_is_no_leave_to_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinators of a release that told none, or none that answers: what runs knows more than what is wanted."""

    async def scene() -> World:
        world = await living(monkeypatch)
        world.admin.feature_level = None  # type: ignore[assignment]
        world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["status"].pop("featureLevel"))
        pin(world, image="muster:0.2.0")
        await world.run(30_000)
        return world

    world = run(scene())
    assert (images(world), said(world)["Degraded"]) == ({"muster:1"}, ("True", "DowngradeRefused"))


def test_an_older_operator_refuses_its_own_image_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`helm rollback` after the level was raised: the clusters stay as they are, and say why."""

    async def scene() -> World:
        world = await living(monkeypatch)
        world.stop()
        older = dataclasses.replace(bench.SETTINGS, operator_image="muster:0", operator_release="0.2.0")
        monkeypatch.setattr(bench, "SETTINGS", older)
        world.start()
        await settled(world)
        return world

    world = run(scene())
    assert (images(world), said(world)["Degraded"]) == ({"muster:1"}, ("True", "DowngradeRefused"))


def test_a_definition_of_before_has_no_place_for_it_and_costs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> tuple[World, int]:
        monkeypatch.setattr(bench, "SETTINGS", dataclasses.replace(bench.SETTINGS, operator_release="0.3.0"))
        world = World()
        world.fake.undeclared = {"version", "featureLevel"}
        world.fake.put(cluster())
        world.start()
        await settled(world)
        before = len(world.fake.writes())
        await world.run(300_000)
        return world, len(world.fake.writes()) - before

    world, written = run(scene())
    assert said(world)["Ready"] == ("True", "AllReady")
    assert "version" not in world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]
    assert written == 0, "the same is not sent again and again"


OWN_TAG = "registry/team/muster:stable"


async def pinned(monkeypatch: pytest.MonkeyPatch) -> World:
    """A converged cluster of an image whose tag is no version, made by operator 0.2.0 without a key that 0.3.0 will
    write (which is what `version` is there for); then the operator is 0.3.0, and nothing says what the image is."""
    monkeypatch.setattr(bench, "SETTINGS", dataclasses.replace(bench.SETTINGS, operator_release="0.2.0"))
    monkeypatch.setitem(releases.KEYS_SINCE, KEY, Release(0, 3, 0))  # type: ignore[arg-type]
    world = World()
    world.admin.versions = {OWN_TAG: "0.2.0"}
    world.fake.put(cluster(image=OWN_TAG, version="0.2.0"))
    world.start()
    await settled(world)
    world.stop()
    world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"].pop("version"))
    upgraded = dataclasses.replace(bench.SETTINGS, operator_image="muster:3", operator_release="0.3.0")
    monkeypatch.setattr(bench, "SETTINGS", upgraded)
    return world


def writes_the_key(world: World) -> bool:
    (config,) = (
        live for (kind, _, name), live in world.fake.objects.items() if kind == "ConfigMap" and "config" in name
    )
    return any(KEY in text for text in config["data"].values())


def uids(world: World) -> set[str]:
    return {live["metadata"]["uid"] for (kind, _, _), live in world.fake.objects.items() if kind == "Pod"}


@pytest.mark.parametrize("remembers", [True, False], ids=["as it is made today", "as an earlier operator made it"])
def test_an_image_of_an_unknown_release_keeps_what_it_was_made_for(
    monkeypatch: pytest.MonkeyPatch, *, remembers: bool
) -> None:
    """An upgrade of the operator alone: no pod of a pinned image is restarted, least of all with a key that ends it."""

    def forgets(live: dict[str, Any]) -> None:
        del live["metadata"]["annotations"][MADE_FOR_ANNOTATION]

    async def scene() -> tuple[World, set[str]]:
        world = await pinned(monkeypatch)
        before = uids(world)
        if not remembers:
            world.fake.edit("StatefulSet", "ns", "c", forgets)
        world.start()
        await settled(world)
        await world.run(120_000)
        return world, before

    world, before = run(scene())
    assert (uids(world), images(world), writes_the_key(world)) == (before, {OWN_TAG}, False)
    made = world.fake.objects["StatefulSet", "ns", "c"]["metadata"]["annotations"][MADE_FOR_ANNOTATION]
    assert (made, said(world)["Ready"]) == ("0.2.0", ("True", "AllReady"))


def test_before_a_coordinator_has_said_its_release_nothing_of_it_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator of 0.1 wrote neither the release nor what its coordinators said, and on a busy node the first
    questions of this one end without an answer."""

    def forgets(live: dict[str, Any]) -> None:
        del live["metadata"]["annotations"][MADE_FOR_ANNOTATION]

    async def scene() -> tuple[World, set[str], bool, dict[str, tuple[str, str]]]:
        world = await pinned(monkeypatch)
        before = uids(world)
        world.fake.edit("StatefulSet", "ns", "c", forgets)
        world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["status"].pop("version"))
        world.admin.silent |= {name for kind, _, name in world.fake.objects if kind == "Pod"}
        assert len(world.admin.silent) == 3
        world.start()
        await world.begin()
        await world.run(120_000)
        touched, told = writes_the_key(world) or uids(world) != before, said(world)
        world.admin.silent.clear()
        await world.run(180_000)
        return world, before, touched, told

    world, before, touched, told = run(scene())
    assert not touched
    assert told["Ready"][0] == "Unknown"
    assert (uids(world), images(world), writes_the_key(world)) == (before, {OWN_TAG}, False)
    made = world.fake.objects["StatefulSet", "ns", "c"]["metadata"]["annotations"][MADE_FOR_ANNOTATION]
    assert (made, said(world)["Ready"]) == ("0.2.0", ("True", "AllReady"))


@pytest.mark.parametrize("spec", [{"image": "registry/team/muster:next"}, {"version": "0.3.0"}])
def test_what_was_remembered_ends_with_the_image_or_by_a_word(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, str]
) -> None:
    async def scene() -> World:
        world = await pinned(monkeypatch)
        world.admin.versions |= {"registry/team/muster:next": "0.3.0"}
        world.start()
        await settled(world)
        pin(world, **spec)
        await world.run(300_000)
        return world

    world = run(scene())
    assert writes_the_key(world)
    made = world.fake.objects["StatefulSet", "ns", "c"]["metadata"]["annotations"][MADE_FOR_ANNOTATION]
    assert (made, said(world)["Ready"]) == ("0.3.0", ("True", "AllReady"))
