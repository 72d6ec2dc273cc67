"""Passes that wait for a Kafka cluster hold no worker."""

import asyncio
from collections.abc import Sequence

from muster_operator.app import Core
from muster_operator.runtime.metrics import Metrics
from muster_operator.world.group import ObservedGroup
from muster_operator.world.views import Unknown

from tests.operator.fakes.bench import SETTINGS, World, group, run
from tests.operator.fakes.clocks import FakeClock, FakeRand
from tests.operator.fakes.fake_kube import FakeKube
from tests.operator.fakes.fake_services import FakeAdmin, FakeKafka


class HangingKafka(FakeKafka):
    """Hangs at one address until `answer` is set."""

    def __init__(self, kube: FakeKube) -> None:
        super().__init__(kube)
        self.answer = asyncio.Event()

    async def group(self, *, bootstrap: str, group_id: str, topics: Sequence[str]) -> ObservedGroup | Unknown:
        if bootstrap == "hangs:9092":
            await self.answer.wait()
        return await super().group(bootstrap=bootstrap, group_id=group_id, topics=topics)


def test_a_cluster_that_hangs_takes_no_worker_from_the_others() -> None:
    async def scene() -> None:
        kube = FakeKube()
        kafka = HangingKafka(kube)
        for number in range(20):
            kube.put(group(f"a{number}", template=False, bootstrapServers="hangs:9092"))
        kube.put(group("z", template=False, bootstrapServers="answers:9092"))
        core = Core(
            kube=kube, admin=FakeAdmin(kube), kafka=kafka, clock=FakeClock(), rand=FakeRand(), metrics=Metrics(),
            plan_settings=SETTINGS, workers=2,
        )  # fmt: skip
        await core.resync.list_all()
        core.resync.wake_all()
        told: asyncio.Queue[str] = asyncio.Queue()
        kube.watchers.append(lambda _, __, live: told.put_nowait(live["metadata"]["name"]))
        running = asyncio.create_task(core.runner.run())
        try:
            async with asyncio.timeout(30):
                assert await told.get() == "z"
                kafka.answer.set()
                assert {await told.get() for _ in range(20)} == {f"a{number}" for number in range(20)}
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run(scene())


def test_a_stop_that_meets_a_wake_stops_all_the_same() -> None:
    """Neither is lost, whichever comes first: an operator that is told to stop must not wait for its next wake."""

    async def scene() -> None:
        world = World()
        core = world.start()
        running = asyncio.create_task(core.runner.run())
        for _ in range(3):
            await asyncio.to_thread(lambda: None)  # it waits now
        core.runner.enqueue(())
        running.cancel()
        done, _ = await asyncio.wait({running}, timeout=10)
        assert done == {running}
        assert running.cancelled()

    run(scene())
