"""One leader: takes a free or run-out Lease, never a renewed one; takeover within 20 s; release at once."""

import asyncio

import pytest
from muster_operator.errors import LeadershipLost, Transient
from muster_operator.runtime.election import Elector, Seen, Step, decide

from tests.operator.fakes.bench import run
from tests.operator.fakes.clocks import FakeClock
from tests.operator.fakes.fake_kube import FakeKube


def lease(holder: str, version: str = "1", seconds: int = 15) -> dict[str, object]:
    return {
        "metadata": {"resourceVersion": version},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds},
    }


@pytest.mark.parametrize(
    ("found", "since_ms", "step"),
    [
        (None, 0, Step.CREATE),
        (lease("me"), 0, Step.RENEW),
        (lease(""), 0, Step.TAKE),
        (lease("they"), 14_999, Step.WAIT),
        (lease("they"), 15_000, Step.TAKE),
        (lease("they", seconds=1), 1_000, Step.TAKE),
    ],
)
def test_decision(found: dict[str, object] | None, since_ms: int, step: Step) -> None:
    seen = Seen(holder="they", version="1", since_ms=0)
    assert decide(found, identity="me", seen=seen, now_ms=since_ms)[0] is step


def electors(kube: FakeKube, clock: FakeClock) -> tuple[Elector, Elector]:
    return (
        Elector(kube, clock, namespace="ops", identity="a"),
        Elector(kube, clock, namespace="ops", identity="b"),
    )


def test_one_acts_the_other_takes_over_within_20_s() -> None:
    async def scene() -> int:
        clock, kube = FakeClock(), FakeKube()
        first, second = electors(kube, clock)
        assert await first.try_once()
        for _ in range(30):
            clock.advance(2_000)
            assert await first.renew_once()
            assert not await second.try_once()
        died = clock.now_ms
        while not await second.try_once():
            clock.advance(2_000)
        assert kube.objects["Lease", "ops", "muster-operator"]["spec"]["leaseTransitions"] == 1
        with pytest.raises(LeadershipLost):
            await first.renew_once()
        return clock.now_ms - died

    assert run(scene()) <= 20_000


def test_a_released_lease_is_taken_at_once() -> None:
    async def scene() -> bool:
        clock, kube = FakeClock(), FakeKube()
        first, second = electors(kube, clock)
        await first.try_once()
        assert not await second.try_once()
        await first.release()
        return await second.try_once()

    assert run(scene())


def test_of_two_that_see_a_run_out_lease_one_gets_it() -> None:
    async def scene() -> list[bool]:
        clock, kube = FakeClock(), FakeKube()
        await Elector(kube, clock, namespace="ops", identity="dead").try_once()
        first, second = electors(kube, clock)
        await first.try_once()
        await second.try_once()
        clock.advance(15_000)
        gate = asyncio.Event()
        plain = kube.replace

        async def slow(manifest: object) -> object:
            await gate.wait()
            return await plain(manifest)  # type: ignore[arg-type]

        kube.replace = slow  # type: ignore[method-assign,assignment]
        both = asyncio.gather(first.try_once(), second.try_once())
        await asyncio.wait_for(asyncio.shield(_spin()), 5)
        gate.set()
        return list(await both)

    assert sorted(run(scene())) == [False, True]


async def _spin() -> None:
    for _ in range(5):
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)


def test_release_leaves_a_lease_of_another_alone() -> None:
    async def scene() -> str:
        clock, kube = FakeClock(), FakeKube()
        first, second = electors(kube, clock)
        await first.try_once()
        await second.release()
        return str(kube.objects["Lease", "ops", "muster-operator"]["spec"]["holderIdentity"])

    assert run(scene()) == "a"


def test_an_api_server_that_is_down_is_waited_out() -> None:
    async def scene() -> tuple[bool, bool]:
        clock, kube = FakeClock(), FakeKube()
        elector = Elector(kube, clock, namespace="ops", identity="a")
        plain = kube.get

        async def down(**_: object) -> None:
            raise Transient("ApiUnreachable", "no answer")

        kube.get = down  # type: ignore[method-assign,assignment]
        before = await elector.try_once()
        kube.get = plain  # type: ignore[method-assign]
        return before, await elector.try_once()

    assert run(scene()) == (False, True)
