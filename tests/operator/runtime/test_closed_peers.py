"""From open peers to a secret and to another secret, with a whole operator on a fake API server."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from muster_operator.resources.peer_mode import PeerMode, mode_of
from muster_operator.runtime.clock import SystemRand
from muster_operator.runtime.own_secrets import value_of

from tests.operator.fakes.bench import World, cluster, run
from tests.operator.fakes.clocks import FakeRand
from tests.operator.runtime.test_crashes import SETTLE_MS, settled

NAME = "c-peer-secret"
ROTATION_MS = 600_000


async def made(security: str = "secret") -> World:
    world = World()
    world.admin.feature_level = 3
    world.fake.put(cluster(peers={"security": security}))
    world.start()
    return await settled(world)


def of(scene: Callable[[], Awaitable[Any]]) -> Any:
    return run(scene())


def secret(world: World) -> str:
    return value_of(world.fake.objects["Secret", "ns", NAME], "secret")


def modes(world: World) -> list[str]:
    pods = [one for (kind, _, name), one in sorted(world.fake.objects.items()) if kind == "Pod"]
    return [mode_of(one["metadata"].get("annotations") or {}).text for one in pods]


def test_an_open_cluster_is_closed_pod_by_pod_and_no_two_pods_are_ever_strangers() -> None:
    seen: list[set[str]] = []

    async def scene() -> World:
        world = await made("none")
        assert modes(world) == ["none"] * 3
        world.fake.edit("CoordinatorCluster", "ns", "c", lambda one: one["spec"].update(peers={"security": "secret"}))
        while modes(world) != ["secret"] * 3:
            await world.run(1_000)
            if set(modes(world)) not in seen:
                seen.append(set(modes(world)))
            assert len(seen) < 9
        return world

    world = of(scene)
    assert [{"none", "secret,none"}, {"secret,none"}, {"secret", "secret,none"}, {"secret"}] == [
        one for one in seen if one != {"none"}
    ]
    for found in seen:
        parsed = [mode_of({"muster.dev/peer-security": one}) for one in found]
        assert all(one.links_to(other) for one in parsed for other in parsed)
    assert world.admin.journal.count("drain c-1") == 2, "two roll-outs, each pod drained in each"


def test_a_cluster_is_made_closed_with_a_secret_of_its_own() -> None:
    world = of(made)
    assert modes(world) == [PeerMode("secret").text] * 3
    live = world.fake.objects["Secret", "ns", NAME]
    assert len(SystemRand().token()) >= 32, "what the coordinators ask of a secret"
    assert live["metadata"]["ownerReferences"][0]["name"] == "c"
    said = repr([one for one in world.fake.objects.values() if one["kind"] != "Secret"])
    assert secret(world) not in said
    assert base64.b64encode(secret(world).encode()).decode() not in said


def test_another_secret_is_beside_the_first_for_ten_minutes_and_restarts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> tuple[str, str, str, list[str]]:
        world = await made()
        before = secret(world)
        monkeypatch.setattr(FakeRand, "TOKEN", "another-s3cr3t-t0k3n-value")
        uids = [one["metadata"]["uid"] for (kind, _, _), one in world.fake.objects.items() if kind == "Pod"]

        def ask(one: dict[str, Any]) -> None:
            one["metadata"].setdefault("annotations", {})["muster.dev/rotate-peer-secret"] = "monday"

        world.fake.edit("CoordinatorCluster", "ns", "c", ask)
        await world.run(SETTLE_MS)
        both = secret(world)
        await world.run(ROTATION_MS + SETTLE_MS)
        after = [one["metadata"]["uid"] for (kind, _, _), one in world.fake.objects.items() if kind == "Pod"]
        assert after == uids
        patches = [one for one in world.fake.calls if one[:2] == ("patch", "Secret")]
        assert patches == [("patch", "Secret", NAME)] * 2
        return before, both, secret(world), patches

    before, both, after, _ = of(scene)
    new, old = both.split("\n")
    assert old == before
    assert after == new != before


def test_a_secret_of_somebody_elses_is_named_and_left_alone() -> None:
    async def scene() -> World:
        world = World()
        world.fake.put(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME, "namespace": "ns"},
             "stringData": {"secret": "theirs"}}
        )  # fmt: skip
        world.fake.put(cluster())
        world.start()
        return await settled(world)

    world = of(scene)
    assert secret(world) == "theirs"
    conditions = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]
    ready = next(one for one in conditions if one["type"] == "Degraded")
    assert (ready["status"], ready["reason"]) == ("True", "NameTaken")
    assert NAME in ready["message"]
