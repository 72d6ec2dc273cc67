"""Looks at an upstream over real sockets: brokers that answer, die, speak less, and say nonsense; and dialling them."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest
from kio.serial import entity_reader
from muster_coordinator.events import UPSTREAM_REACHED, UPSTREAM_TOPICS_DELETED, UPSTREAM_UNREACHED, Event
from muster_coordinator.runtime.tls_connection import Handshakes
from muster_coordinator.runtime.upstream import Upstream
from muster_coordinator.runtime.upstream_dial import UpstreamDialler
from muster_coordinator.upstream import limits
from muster_coordinator.upstream.brokers import Broker
from muster_coordinator.upstream.deleted_topics import CLOCK_MARGIN_MS
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.upstream.test_brokers import framed
from tests.wire.kio_entities import kio_class

ROWS = {int(api): (versions.min, versions.max) for api, versions in VERSIONS.items()}


class FakeBroker:
    """Answers ApiVersions and Metadata as it is told to."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.rows = dict(ROWS)
        self.brokers: list[FakeBroker] = [self]
        self.topics: dict[str, bytes] = {}
        self.acls: dict[str, Any] | bytes = {"error_code": 0, "error_message": None, "resources": ()}
        """The answer to DescribeAcls, or its bytes."""
        self.raw: bytes | None = None
        self.named: bytes | None = None
        """The answer to a question about some topics."""
        self.asked = 0
        self.server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> "FakeBroker":
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()
        await self.server.wait_closed()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(head, "big"))
                self.asked += 1
                writer.write(self.raw if self.raw is not None else self._answer(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, body: bytes) -> bytes:
        api, version = int.from_bytes(body[:2], "big"), int.from_bytes(body[2:4], "big")
        correlation = int.from_bytes(body[4:8], "big")
        values: dict[str, Any]
        if api == Api.API_VERSIONS:
            rows = [{"api_key": key, "min_version": a, "max_version": b} for key, (a, b) in self.rows.items()]
            values = {"error_code": 0, "api_keys": rows}
        elif api == Api.DESCRIBE_ACLS:
            if isinstance(self.acls, bytes):
                return self.acls
            values = self.acls
        elif self.named is not None:
            return self.named
        else:
            told = [{"node_id": one.node, "host": "127.0.0.1", "port": one.port, "rack": None} for one in self.brokers]
            values = {"brokers": told, "cluster_id": "c", "controller_id": 1, "topics": self._topics(body)}
        return framed(api, version, values, correlation)

    def _topics(self, body: bytes) -> list[dict[str, Any]]:
        known = {topic_id: name for name, topic_id in self.topics.items()}
        cls = kio_class(Api.METADATA, int.from_bytes(body[2:4], "big"), "request")
        _, size = entity_reader(cls.__header_schema__)(body, 0)
        asked = entity_reader(cls)(body[size:], 0)[0].topics
        ids = list(known) if asked is None else [topic.topic_id.bytes for topic in asked]
        none = {"is_internal": False, "partitions": ()}
        return [{**none, "error_code": 0 if i in known else 100, "name": known.get(i), "topic_id": i} for i in ids]


class World:
    def __init__(self, *bootstrap: tuple[str, int]) -> None:
        self.events: list[Event] = []
        self.notices: list[str] = []
        self.now_ms = 1_000_000
        self.gone: list[Mapping[str, int]] = []
        self.upstream = Upstream(
            asyncio.get_running_loop(),
            bootstrap,
            UpstreamDialler(asyncio.get_running_loop(), Handshakes(asyncio.get_running_loop()), None, None),
            lambda what, _details, _error: self.notices.append(what),
            self.events.append,
            lambda: self.now_ms,
            self.gone.append,
        )

    async def look(self) -> bool:
        return await self.upstream._look()

    def range(self, api: int) -> tuple[int, int] | None:
        for row in self.upstream.advertised() or ():
            if row["api_key"] == api:
                return row["min_version"], row["max_version"]
        return None


def known(world: World) -> tuple[Broker, ...]:
    remembered = world.upstream.remembered()
    return () if remembered is None else remembered.brokers


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def test_nothing_is_offered_before_a_broker_was_reached() -> None:
    async def test() -> None:
        closed = await FakeBroker(1).start()
        await closed.stop()
        world = World(closed.address)
        assert not await world.look()
        assert not await world.look()
        assert world.upstream.advertised() is None
        assert [event.kind for event in world.events] == [UPSTREAM_UNREACHED]
        assert str(closed.port) in str(world.events[0].fields["why"])

    run(test())


def test_brokers_are_found_by_one_of_them_and_outlive_it() -> None:
    async def test() -> None:
        one, two = await FakeBroker(1).start(), await FakeBroker(2).start()
        one.brokers = two.brokers = [one, two]
        world = World(one.address)
        assert await world.look()
        assert known(world) == (Broker(1, *one.address), Broker(2, *two.address))
        await one.stop()
        for _ in range(3):
            assert await world.look()
        assert two.asked
        await two.stop()
        assert not await world.look()
        assert known(world) == (Broker(1, *one.address), Broker(2, *two.address))
        assert world.range(Api.FETCH) == (VERSIONS[Api.FETCH].min, 15)
        assert [event.kind for event in world.events] == [UPSTREAM_REACHED, UPSTREAM_UNREACHED]

    run(test())


def test_what_is_offered_is_what_all_brokers_speak_that_are_there() -> None:
    async def test() -> None:
        one, two = await FakeBroker(1).start(), await FakeBroker(2).start()
        one.brokers = two.brokers = [one, two]
        two.rows[Api.FETCH] = (4, 11)
        del two.rows[Api.DESCRIBE_QUORUM]
        world = World(one.address)
        await world.look()
        assert world.range(Api.FETCH) == (4, 11)
        assert world.range(Api.DESCRIBE_QUORUM) is None
        assert world.range(Api.JOIN_GROUP) is not None
        one.brokers = two.brokers = [one]
        for _ in range(2):
            await world.look()
        assert world.range(Api.FETCH) == (4, 15)
        await one.stop()
        await two.stop()

    run(test())


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\0",
        (limits.LOOK_ANSWER_BYTES_MAX + 1).to_bytes(4, "big"),
        (8).to_bytes(4, "big") + bytes(8),
        b"\0\0",
    ],
)
def test_a_server_that_is_no_kafka_is_left_for_the_next_one(raw: bytes) -> None:
    async def test() -> None:
        odd, good = await FakeBroker(8).start(), await FakeBroker(1).start()
        odd.raw = raw
        world = World(odd.address, good.address)
        if raw == b"\0\0":  # and then nothing, which takes its time-out
            await odd.stop()
        assert await world.look()
        assert [one.node for one in known(world)] == [1]
        for one in (odd, good):
            if one.server is not None and one.server.is_serving():
                await one.stop()

    run(test())


def test_topics_that_were_deleted_are_told_with_the_time_of_the_last_look() -> None:
    async def test() -> None:
        one = await FakeBroker(1).start()
        one.topics = {"stays": b"s" * 16, "goes": b"g" * 16}
        world = World(one.address)
        await world.look()
        del one.topics["goes"]
        for _ in range(3):
            world.now_ms += 5_000
            await world.look()
        assert world.gone == [{"goes": 1_000_000 - CLOCK_MARGIN_MS}]
        told = [event.fields for event in world.events if event.kind is UPSTREAM_TOPICS_DELETED]
        assert told == [{"topics": ["goes"]}]
        await one.stop()

    run(test())


@pytest.mark.parametrize("lacks", ["ids", "answers"])
def test_an_upstream_that_cannot_be_asked_by_id_has_deleted_nothing(lacks: str) -> None:
    async def test() -> None:
        one = await FakeBroker(1).start()
        one.topics = {"goes": b"g" * 16}
        if lacks == "ids":
            one.rows[Api.METADATA] = (0, 11)
        world = World(one.address)
        await world.look()
        one.topics = {}
        if lacks == "answers":
            await one.stop()
        for _ in range(3):
            await world.look()
        assert world.gone == []
        if lacks == "ids":
            await one.stop()

    run(test())


def test_dialling_takes_the_broker_that_is_meant_or_any() -> None:
    async def test() -> None:
        one, two = await FakeBroker(1).start(), await FakeBroker(2).start()
        one.brokers = two.brokers = [one, two]
        world = World(one.address)
        await world.look()
        made: list[tuple[str, int]] = []

        class Seen(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.append(transport.get_extra_info("peername"))
                assert isinstance(transport, asyncio.Transport)
                transport.abort()

        await world.upstream.dial(2, Seen)
        await world.upstream.dial(1, Seen)
        assert made == [two.address, one.address]
        assert [world.upstream.is_doubted(node) for node in (1, 2, 7)] == [False, False, True]
        with pytest.raises(ConnectionError, match="7 is not known"):
            await world.upstream.dial(7, Seen)
        await one.stop()
        with pytest.raises(OSError):
            await world.upstream.dial(1, Seen)
        world.upstream.lost(2)
        assert all(map(world.upstream.is_doubted, (1, 2, 7)))
        await world.upstream.dial(2, Seen)
        assert (world.upstream.is_doubted(1), world.upstream.is_doubted(2)) == (True, False)
        await world.upstream.dial(None, Seen)
        assert made[-1] == two.address
        await two.stop()
        with pytest.raises(OSError):
            await world.upstream.dial(None, Seen)

    run(test())


def test_it_looks_by_itself_and_survives_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(limits, "LOOK_MS", 1)
        monkeypatch.setattr(limits, "LOOK_AGAIN_MS", 1)
        one = await FakeBroker(1).start()
        world = World(one.address)
        failing, looked = iter([True, True]), asyncio.Event()

        async def look() -> bool:
            if next(failing, False):
                raise AssertionError("a bug")
            found = await Upstream._look(world.upstream)
            looked.set()
            return found

        monkeypatch.setattr(world.upstream, "_look", look)
        world.upstream.start()
        await looked.wait()
        assert world.notices == ["a look at the upstream met an error of this replica"] * 2
        world.upstream.close()
        await one.stop()

    run(test())
