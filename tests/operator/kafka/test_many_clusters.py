"""More clusters than threads and connections: Unknown is only what was asked and did not answer."""

import asyncio
import threading
from collections.abc import Collection, Mapping
from typing import Any

import kafka.errors
import pytest
from muster_operator.kafka import questions
from muster_operator.kafka.adapter import KafkaAdapter
from muster_operator.kafka.clients import Clients
from muster_operator.limits import KAFKA_CALLS_MAX, KAFKA_IDLE_MS, KAFKA_UNPROVEN_CALLS_MAX, KAFKA_UNREACHABLE_FOR_MS
from muster_operator.world.group import ObservedGroup
from muster_operator.world.views import Unknown

from tests.operator.fakes.clocks import FakeClock

VIEW = ObservedGroup(
    state="Empty", coordinator="0", protocol_type="", protocol="", members=(), partitions=(), generation=None,
    last_rebalance_ms=None, last_rebalance_reason=None,
)  # fmt: skip
pytestmark = pytest.mark.timeout(60)


class Client:
    """One cluster's client, of three connections."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Site:
    """Clusters by address. A dead one holds whoever connects to it until `give_up`."""

    def __init__(self, *, connections_max: int = 10_000) -> None:
        self.dead: set[str] = set()
        self.give_up = threading.Event()
        self.held = threading.Semaphore(0)
        self.made: list[Client] = []
        self.clock = FakeClock()
        self.clients = Clients(self.clock, self.connect, weight=lambda _: 3, connections_max=connections_max)

    def connect(self, bootstrap: str) -> Any:
        if bootstrap in self.dead:
            self.held.release()
            assert self.give_up.wait(30)
            raise kafka.errors.KafkaTimeoutError
        self.made.append(Client(bootstrap))
        return self.made[-1]

    def open(self) -> list[str]:
        return [one.bootstrap for one in self.made if not one.closed]


@pytest.fixture(autouse=True)
def every_group_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def groups(_: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return dict.fromkeys(wanted, VIEW)

    monkeypatch.setattr(questions, "groups", groups)


async def ask(adapter: KafkaAdapter, bootstrap: str) -> ObservedGroup | Unknown:
    return await adapter.group(bootstrap=bootstrap, group_id="g", topics=["orders"])


def test_any_number_of_clusters_is_asked_and_open_connections_stay_within_their_limit() -> None:
    site = Site(connections_max=90)

    async def scene() -> list[ObservedGroup | Unknown]:
        adapter = KafkaAdapter(site.clients)
        try:
            answers = []
            for _ in range(3):
                answers += await asyncio.gather(*(ask(adapter, f"c{n}:9092") for n in range(300)))
            assert site.clients.open_connections() <= 90 + 3 * KAFKA_CALLS_MAX
            await ask(adapter, "one more:9092")
            assert site.clients.open_connections() <= 90
            assert len(site.open()) <= 30
            return answers
        finally:
            await adapter.close()

    assert set(asyncio.run(scene())) == {VIEW}
    assert site.open() == []


def test_the_client_that_was_unused_longest_gives_way() -> None:
    site = Site(connections_max=6)

    async def scene() -> None:
        adapter = KafkaAdapter(site.clients)
        try:
            for name in ("a", "b", "a", "c"):
                await ask(adapter, name)
            assert site.open() == ["a", "c"]
            site.clock.advance(KAFKA_IDLE_MS + 1)
            await ask(adapter, "c")
            assert site.open() == ["c"]
        finally:
            await adapter.close()

    asyncio.run(scene())


def test_those_that_answer_are_asked_while_every_place_for_the_unproven_hangs() -> None:
    """Nobody is Unknown for having waited: new clusters get their answer once there is room."""
    site = Site()
    dead = [f"dead{n}:9092" for n in range(KAFKA_UNPROVEN_CALLS_MAX)]

    async def scene() -> None:
        adapter = KafkaAdapter(site.clients)
        try:
            assert await ask(adapter, "known:9092") == VIEW
            site.dead |= set(dead)
            hanging = [asyncio.create_task(ask(adapter, one)) for one in dead]
            for _ in dead:
                assert await asyncio.to_thread(site.held.acquire, timeout=30)
            new = [asyncio.create_task(ask(adapter, f"new{n}:9092")) for n in range(100)]
            for _ in range(20):
                assert await asyncio.wait_for(ask(adapter, "known:9092"), 30) == VIEW
            assert not any(one.done() for one in (*hanging, *new))
            site.give_up.set()
            assert set(await asyncio.gather(*new)) == {VIEW}
            assert {one.reason for one in await asyncio.gather(*hanging) if isinstance(one, Unknown)} == {
                "BootstrapUnreachable"
            }
        finally:
            site.give_up.set()
            await adapter.close()

    asyncio.run(scene())


def test_a_silent_cluster_whose_turn_is_far_off_holds_nobody_and_is_tried_all_the_same() -> None:
    site = Site()
    dead = [f"dead{n}:9092" for n in range(KAFKA_UNPROVEN_CALLS_MAX + 1)]

    async def scene() -> None:
        adapter = KafkaAdapter(site.clients)
        try:
            site.dead |= set(dead)
            site.give_up.set()
            await asyncio.gather(*(ask(adapter, one) for one in dead))
            site.clock.advance(KAFKA_UNREACHABLE_FOR_MS)
            site.give_up.clear()
            hanging = [asyncio.create_task(ask(adapter, one)) for one in dead[:-1]]
            for _ in range(len(dead) + len(hanging)):
                assert await asyncio.to_thread(site.held.acquire, timeout=30)
            assert isinstance(await asyncio.wait_for(ask(adapter, dead[-1]), 30), Unknown)
            site.dead.discard(dead[-1])
            site.give_up.set()
            await asyncio.gather(*hanging)
            while not isinstance(await asyncio.wait_for(ask(adapter, dead[-1]), 30), ObservedGroup):
                await asyncio.to_thread(lambda: None)  # its turn comes without anybody waiting for it
        finally:
            site.give_up.set()
            await adapter.close()

    asyncio.run(scene())


def test_a_cluster_that_does_not_answer_is_not_asked_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part would wait for a time-out of its own."""
    asked: list[int] = []

    def find(_: object, wanted: Collection[str]) -> dict[str, int]:
        asked.append(len(wanted))
        raise kafka.errors.KafkaTimeoutError

    monkeypatch.setattr(questions, "find_coordinators", find)
    with pytest.raises(kafka.errors.KafkaTimeoutError):
        questions._coordinators(None, [f"g{n}" for n in range(200)])
    assert asked == [200]
