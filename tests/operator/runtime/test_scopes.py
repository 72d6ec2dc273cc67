"""One bad namespace is one bad namespace, and a kind that is not defined yet is looked for."""

import asyncio
from typing import Any

import pytest
from muster_operator.errors import Refused, Transient
from muster_operator.kube.kinds import CLUSTER, GROUP, WATCHED
from muster_operator.limits import FIRST_LIST_MAX_MS, LIST_AGE_MAX_MS, RELIST_RETRY_MAX_MS
from muster_operator.runtime.notices import Notices
from muster_operator.runtime.resync import Resync
from muster_operator.runtime.scopes import Scopes

from tests.operator.fakes.bench import World, cluster, run, topic
from tests.operator.fakes.clocks import FakeRand
from tests.operator.fakes.virtual_loop import VirtualLoop, run_virtually

FORBIDDEN = Refused("Forbidden", "list Pod: HTTP 403 Forbidden")
SILENT = Transient("ApiUnreachable", "no answer")


def within(namespace: str, live: dict[str, Any]) -> dict[str, Any]:
    live["metadata"]["namespace"] = namespace
    return live


def conditions(world: World, namespace: str, name: str) -> dict[str, tuple[str, str]]:
    found = world.fake.objects["CoordinatorCluster", namespace, name].get("status", {}).get("conditions", ())
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def test_the_others_are_worked_on_and_the_objects_of_a_blind_namespace_say_so() -> None:
    """Pods of `bad` cannot be listed: nothing there is made, for what was not listed would pass for absent."""

    async def scene() -> World:
        world = World()
        world.fake.put(within("bad", cluster("b")))
        world.fake.put(within("good", cluster("g")))
        world.fake.blind["bad"] = {"Pod"}
        core = world.start(namespaces=("bad", "good"))
        with pytest.raises(Refused):
            await core.resync.list_all()
        await world.run(30_000)
        return world

    world = run(scene())
    made = {namespace for kind, namespace, _ in world.fake.objects if kind == "StatefulSet"}
    assert made == {"good"}
    said = conditions(world, "bad", "b")
    assert (said["Degraded"], said["Ready"][0]) == (("True", "NamespaceNotServed"), "Unknown")
    events = [live for (kind, _, _), live in world.fake.objects.items() if kind == "Event"]
    assert ("NamespaceNotServed", "Warning") in {(one["reason"], one["type"]) for one in events}


def test_a_namespace_that_is_lost_later_is_left_alone_and_taken_up_again() -> None:
    """Its cache grows old, so nothing is decided by it. As soon as it can be listed its objects are looked at."""

    async def scene() -> tuple[World, int, int]:
        world = World()
        world.fake.put(within("bad", cluster("b")))
        core = world.start(namespaces=("bad", "good"))
        await core.resync.list_all()
        await world.run(90_000)
        world.fake.blind["bad"] = {one.kind for one in WATCHED}
        with pytest.raises(Refused):
            await core.resync.list_all()
        world.fake.calls.clear()
        world.fake.edit("CoordinatorCluster", "bad", "b", lambda one: one["spec"].update(image="muster:2"))
        await world.run(120_000)
        lost = len([one for one in world.fake.writes() if one[0] not in ("apply_status", "create", "patch")])
        said = conditions(world, "bad", "b")["Degraded"]
        assert said == ("True", "NamespaceNotServed")
        del world.fake.blind["bad"]
        await core.resync.list_all()
        await world.run(2_000)
        return world, lost, len([one for one in world.fake.writes() if one[0] == "apply"])

    world, lost, applied = run(scene())
    assert lost == 0
    assert applied > 0, "the change is carried out at once"
    assert conditions(world, "bad", "b")["Degraded"][0] == "False"


def test_a_kind_without_a_definition_has_no_objects_and_the_other_is_served() -> None:
    async def scene() -> tuple[World, list[str]]:
        world = World()
        world.fake.put(cluster())
        world.fake.undefined = {"ConsumerGroup"}
        core = world.start()
        await core.resync.list_all()
        await world.run(10_000)
        return world, core.scopes.unready()

    world, unready = run(scene())
    assert "StatefulSet" in {kind for kind, _, _ in world.fake.objects}
    assert "ConsumerGroup is not defined" in unready


def test_an_operator_is_ready_beside_definitions_of_an_earlier_release_and_takes_the_later_ones_up() -> None:
    async def scene() -> None:
        world = World()
        world.fake.undefined = {"Topic", "User"}
        world.start()
        assert world.core is not None
        await world.begin()
        (scope,) = world.core.scopes
        scope.watched = scope.wanted
        assert world.core.scopes.unready() == []
        world.fake.undefined = set()
        world.fake.put(topic())
        await world.core.resync.list_all()
        assert [one for one in world.core.scopes.unready() if "Topic" in one] == ["no watch of Topic in the API server"]
        await world.run(10_000)
        assert world.kafka.topics

    run(scene())


def test_a_definition_that_is_deleted_leaves_what_is_cached_until_it_can_be_asked() -> None:
    """404 is no list: objects that exist must not be taken for gone by it."""

    async def scene() -> tuple[int, int]:
        world = World()
        world.fake.put(cluster())
        core = world.start()
        await core.resync.list_all()
        world.fake.undefined = {"CoordinatorCluster"}
        await core.resync.list_all()
        kept = len(core.cache.owners())
        world.fake.watchers.clear()
        world.fake.remove("CoordinatorCluster", "ns", "c")
        world.fake.undefined = set()
        await core.resync.list_all()
        return kept, len(core.cache.owners())

    assert run(scene()) == (1, 0)


class Place:
    """Lists of a fake API server on virtual time."""

    def __init__(self, *namespaces: str) -> None:
        self.loop = VirtualLoop()
        self.world = World()
        core = self.world.start(namespaces=namespaces)
        self.scopes = Scopes(namespaces)
        self.resync = Resync(
            kube=self.world.fake, cache=core.cache, runner=core.runner, clock=self.loop, rand=FakeRand(),
            scopes=self.scopes,
        )  # fmt: skip

    def run(self, scene: Any) -> Any:
        async def whole() -> Any:
            lists = asyncio.ensure_future(self.resync.run())
            try:
                return await scene()
            finally:
                lists.cancel()
                await asyncio.wait([lists])

        return run_virtually(self.loop, whole())

    async def pause(self, milliseconds: int) -> None:
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=milliseconds / 1_000)

    def lists(self, namespace: str) -> int:
        return self.world.fake.calls.count(("list", "CoordinatorCluster", namespace))


def test_work_begins_although_a_namespace_refuses() -> None:
    place = Place("bad", "good")
    place.world.fake.blind["bad"] = {"CoordinatorCluster"}

    async def scene() -> int:
        await place.resync.begun()
        return place.loop.monotonic_ms()

    assert place.run(scene) == 1_000_000, "at once"


def test_work_begins_late_when_a_namespace_is_silent_and_never_when_all_refuse() -> None:
    place = Place("bad", "good")
    place.world.fake.silent = {"bad"}

    async def scene() -> int:
        await place.resync.begun()
        return place.loop.monotonic_ms() - 1_000_000

    assert FIRST_LIST_MAX_MS < place.run(scene) <= FIRST_LIST_MAX_MS + 5_000

    other = Place("bad")
    other.world.fake.blind["bad"] = {"Pod"}

    async def never() -> None:
        await asyncio.wait_for(other.resync.begun(), 3_600)

    with pytest.raises(TimeoutError):
        other.run(never)


def test_a_bad_namespace_is_asked_with_back_off_and_the_good_one_at_its_pace() -> None:
    place = Place("bad", "good")
    place.world.fake.blind["bad"] = {"CoordinatorCluster"}

    async def scene() -> tuple[int, int]:
        await place.pause(600_000)
        return place.lists("bad"), place.lists("good")

    bad, good = place.run(scene)
    assert 15 <= bad <= 25, "5, 10, 20 and then every 30 s"
    assert good <= 4


def test_a_namespace_that_comes_back_is_noticed_within_the_longest_back_off() -> None:
    place = Place("bad")
    place.world.fake.blind["bad"] = {"CoordinatorCluster"}

    async def scene() -> int:
        await place.pause(300_000)
        place.world.fake.blind.clear()
        began = place.loop.monotonic_ms()
        await place.resync.begun()
        return place.loop.monotonic_ms() - began

    assert place.run(scene) <= RELIST_RETRY_MAX_MS + 5_000


def test_definitions_are_noticed_within_the_longest_back_off() -> None:
    place = Place()
    place.world.fake.undefined = {"CoordinatorCluster", "ConsumerGroup"}
    scope = place.scopes.of("any")

    async def scene() -> int:
        await place.pause(300_000)
        assert scope.undefined == {CLUSTER, GROUP}
        place.world.fake.undefined = set()
        began = place.loop.monotonic_ms()
        while scope.undefined:
            scope.news.clear()
            await scope.news.wait()
        return place.loop.monotonic_ms() - began

    assert place.run(scene) <= RELIST_RETRY_MAX_MS


def test_health_of_scopes() -> None:
    """A refusal is an answer: no restart mends it. Silence of all is none. Nobody is ready without any namespace."""
    scopes = Scopes(("a", "b"))
    a, b = scopes
    assert (scopes.age_ms(0), scopes.list_age_ms(0), len(scopes.unready())) == (None, None, 2)
    a.failed(FORBIDDEN, 1_000)
    b.failed(FORBIDDEN, 2_000)
    assert scopes.age_ms(5_000) == 3_000
    assert len(scopes.unready()) == 2
    b.listed((), 4_000)
    b.watched = b.wanted
    assert (scopes.unready(), b.served, a.served) == ([], True, False)
    assert scopes.list_age_ms(6_000) == 2_000, "the one that refuses does not count"
    b.watched = b.wanted - {GROUP}
    assert scopes.unready() == ["no watch of ConsumerGroup in namespace b"]
    b.failed(SILENT, 9_000)
    assert scopes.age_ms(10_000) == 6_000


def test_a_young_cache_is_trusted_while_the_api_server_is_silent_and_an_old_one_is_not() -> None:
    scopes = Scopes(())
    scope = scopes.of("anything")
    assert isinstance(scopes.obstacle("anything", 0), Transient), "never listed"
    scope.listed((), 0)
    scope.failed(SILENT, 1)
    assert scopes.obstacle("anything", LIST_AGE_MAX_MS) is None
    assert isinstance(scopes.obstacle("anything", LIST_AGE_MAX_MS + 1), Transient)
    scope.failed(FORBIDDEN, 2)
    assert isinstance(scopes.obstacle("anything", 3), Refused)


def test_the_leader_tells_it_where_the_operator_runs() -> None:
    """In a namespace that is gone nothing can be written: an Event about the Lease says it, as a series."""

    async def scene() -> World:
        world = World()
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {},
                 "metadata": {"name": "muster-operator", "namespace": "ops"}}  # fmt: skip
        world.fake.put(lease)
        core = world.start(namespaces=("bad", "good"))
        world.fake.blind["bad"] = {"CoordinatorCluster"}
        with pytest.raises(Refused):
            await core.resync.list_all()
        notices = Notices(
            kube=world.fake, recorder=core.recorder, scopes=core.scopes, clock=world.clock, own_namespace="ops"
        )
        for _ in range(10):
            await notices.tell()
            world.clock.advance(30_000)
        return world

    world = run(scene())
    events = [live for (kind, _, _), live in world.fake.objects.items() if kind == "Event"]
    assert [one["regarding"]["kind"] for one in events] == ["Lease"]
    assert "namespace bad is not served: list CoordinatorCluster" in events[0]["note"]
    assert events[0]["series"]["count"] >= 8
