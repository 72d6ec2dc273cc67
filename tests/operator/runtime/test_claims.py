"""Two operators whose scopes overlap: one serves a namespace, the other says who does and writes nothing there."""

from typing import Any

import pytest
from muster_operator.errors import ServedByAnother, Transient
from muster_operator.limits import CLAIM_DURATION_MS, CLAIM_LOOK_MS, CLAIM_RENEW_MS, CLAIM_TRUSTED_MS
from muster_operator.naming import CLAIM_NAME
from muster_operator.runtime.claims import Claims
from muster_operator.runtime.election import Elector, of_one_deployment
from muster_operator.settings import Settings, SettingsError

from tests.operator.fakes.bench import RELEASE, World, cluster, group, run
from tests.operator.fakes.clocks import FakeClock
from tests.operator.fakes.fake_kube import FakeKube

OTHER = "elsewhere/second-muster-operator"


def claim(kube: FakeKube, namespace: str = "ns") -> dict[str, Any]:
    found: dict[str, Any] = kube.objects["Lease", namespace, CLAIM_NAME]["spec"]
    return found


async def fighting(release: str) -> tuple[World, Any, int]:
    """A settled operator, then ten minutes beside one of `release` with another default image."""
    world = World()
    world.fake.put(cluster())
    world.fake.put(group())
    world.start()
    await world.begin()
    await world.run(60_000)
    other = world.start_other(release)
    other.reconciler._settings = _another_image(other.reconciler._settings)
    before = len(world.fake.writes())
    for _ in range(20):
        await other.resync.list_all()
        other.resync.wake_all()
        await other.runner.drain()
        await world.run(30_000)
        assert world.core is not None
        assert world.core.claims is not None
        await world.core.claims.renew(world.core.namespaces())
    return world, other, len(world.fake.writes()) - before


def _another_image(settings: Any) -> Any:
    import dataclasses

    return dataclasses.replace(settings, operator_image="muster:2")


def test_the_second_operator_writes_nothing_but_says_who_serves() -> None:
    world, other, writes = run(fighting(OTHER))
    events = [live for (kind, _, _), live in world.fake.objects.items() if kind == "Event"]
    told = [one for one in events if one["reason"] == "ServedByAnother"]
    assert {one["regarding"]["kind"] for one in told} == {"CoordinatorCluster", "ConsumerGroup"}
    assert all(RELEASE in one["note"] and OTHER in one["note"] for one in told)
    assert {one["type"] for one in told} == {"Warning"}
    assert writes == len(told) == 2, "no apply, no status, and no Event twice"
    assert claim(world.fake)["holderIdentity"] == RELEASE
    assert other.claims.refused() == 1
    image = world.fake.objects["StatefulSet", "ns", "c"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "muster:1"


def test_without_claims_the_two_would_fight() -> None:
    """What the test above would miss if nothing were there to fight about."""
    _, _, writes = run(fighting(RELEASE))
    assert writes > 20


def claims(kube: Any, clock: FakeClock) -> tuple[Claims, Claims]:
    return Claims(kube, clock, holder="a/one"), Claims(kube, clock, holder="b/two")


def test_a_claim_runs_out_once_its_release_is_gone_and_not_before() -> None:
    async def scene() -> int:
        kube, clock = FakeKube(), FakeClock()
        first, second = claims(kube, clock)
        await first.check("ns")
        for _ in range(10):
            with pytest.raises(ServedByAnother, match="a/one"):
                await second.check("ns")
            clock.advance(CLAIM_RENEW_MS)
            await first.renew({"ns"})
        gone = clock.now_ms
        while True:
            try:
                await second.check("ns")
                break
            except ServedByAnother:
                clock.advance(CLAIM_LOOK_MS)
        with pytest.raises(ServedByAnother, match="b/two"):
            await Claims(kube, clock, holder="a/one").check("ns")
        return clock.now_ms - gone

    assert CLAIM_DURATION_MS - CLAIM_RENEW_MS <= run(scene()) <= CLAIM_DURATION_MS + 2 * CLAIM_LOOK_MS


def test_the_next_process_of_a_release_goes_on_at_once() -> None:
    async def scene() -> None:
        kube, clock = FakeKube(), FakeClock()
        await Claims(kube, clock, holder="a/one").check("ns")
        await Claims(kube, clock, holder="a/one").check("ns")
        assert claim(kube)["leaseTransitions"] == 0

    run(scene())


def test_one_who_could_not_renew_asks_before_it_acts_again() -> None:
    """The trusted time is over before another may take the claim."""

    async def scene() -> None:
        kube, clock = FakeKube(), FakeClock()
        first, second = claims(kube, clock)
        await first.check("ns")
        with pytest.raises(ServedByAnother):
            await second.check("ns")
        clock.advance(CLAIM_TRUSTED_MS)
        plain = kube.get

        async def down(**_: object) -> None:
            raise Transient("ApiUnreachable", "no answer")

        kube.get = down  # type: ignore[method-assign,assignment]
        with pytest.raises(Transient):
            await first.check("ns")
        kube.get = plain  # type: ignore[method-assign]
        clock.advance(CLAIM_DURATION_MS - CLAIM_TRUSTED_MS)
        await second.check("ns")
        with pytest.raises(ServedByAnother, match="b/two"):
            await first.check("ns")

    run(scene())


def test_many_objects_cost_one_look_and_a_namespace_without_objects_is_let_go() -> None:
    async def scene() -> None:
        kube, clock = FakeKube(), FakeClock()
        first, second = claims(kube, clock)
        await first.check("ns")
        for _ in range(100):
            with pytest.raises(ServedByAnother):
                await second.check("ns")
            await first.check("ns")
        assert len(kube.calls) == 2 + 1
        await second.check("other")
        clock.advance(CLAIM_RENEW_MS)
        before = len(kube.calls)
        await first.renew(set())
        assert len(kube.calls) == before
        await second.check("other")
        assert claim(kube, "other")["holderIdentity"] == "b/two"

    run(scene())


def test_of_two_that_claim_at_once_one_gets_it() -> None:
    async def scene() -> None:
        kube, clock = FakeKube(), FakeClock()
        first, second = claims(kube, clock)
        plain = kube.get

        async def before_the_other(**asked: Any) -> Any:
            found = await plain(**asked)
            kube.get = plain  # type: ignore[method-assign]
            await second.check("ns")
            return found

        kube.get = before_the_other  # type: ignore[method-assign]
        with pytest.raises(ServedByAnother):
            await first.check("ns")
        assert claim(kube)["holderIdentity"] == "b/two"

    run(scene())


def test_a_right_that_is_missing_is_told_and_nothing_is_written() -> None:
    async def scene() -> World:
        world = World()
        world.fake.refuse["create", "Lease"] = "leases.coordination.k8s.io is forbidden"
        world.fake.put(cluster())
        world.start()
        await world.begin()
        await world.run(20_000)
        assert {kind for kind, _, _ in world.fake.objects} == {"CoordinatorCluster", "Event"}
        assert "status" not in world.fake.objects["CoordinatorCluster", "ns", "c"]
        del world.fake.refuse["create", "Lease"]
        await world.run(40_000)
        return world

    assert ("StatefulSet", "ns", "c") in run(scene()).fake.objects


def test_two_releases_in_one_namespace_have_a_lease_each() -> None:
    async def scene() -> list[bool]:
        kube, clock = FakeKube(), FakeClock()
        made = [
            Elector(kube, clock, namespace="ops", identity=f"{name}-6d5-x1", name=name)
            for name in ("a-muster-operator", "b-muster-operator")
        ]
        return [await one.try_once() for one in made]

    assert run(scene()) == [True, True]


def test_an_upgrade_to_a_lease_of_its_own_waits_for_the_process_of_before() -> None:
    """The old pod of the Deployment still acts under the common name while the new one starts."""

    async def scene() -> tuple[list[bool], int]:
        kube, clock = FakeKube(), FakeClock()
        old = Elector(kube, clock, namespace="ops", identity="a-muster-operator-6d5-x1")
        new = Elector(kube, clock, namespace="ops", identity="a-muster-operator-7f8-y2", name="a-muster-operator")
        foreign = Elector(kube, clock, namespace="ops", identity="b-muster-operator-7f8-y2", name="b-muster-operator")
        assert await old.try_once()
        seen = [await new.try_once(), await foreign.try_once()]
        died = clock.now_ms
        while not await new.try_once():
            clock.advance(2_000)
        return seen, clock.now_ms - died

    seen, waited = run(scene())
    assert seen == [False, True]
    assert waited <= 20_000


def test_pods_of_one_deployment() -> None:
    assert of_one_deployment("a-b-1-x", "a-b-2-y")
    assert not of_one_deployment("a-b-1-x", "a-c-1-x")
    assert not of_one_deployment("host_1234", "host_1234")


@pytest.mark.parametrize("name", ["", "Upper", CLAIM_NAME, "a" * 254, "-a", "a/b"])
def test_names_that_cannot_be_our_lease(name: str) -> None:
    with pytest.raises(SettingsError, match="--lease-name"):
        Settings(image="muster:1", lease_name=name)
    assert Settings(image="muster:1", lease_name="a" * 253).lease_name
