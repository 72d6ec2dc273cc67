"""The topic stores that there are, by the one contract; and Fetch over a store that is not read at once."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import ReadResult
from muster_coordinator.topics.stores import EMBEDDED, NONE, Capability, TopicStore
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeLog, FakeSurface, topic
from tests.api.kafka_client import KafkaClient
from tests.api.store_contract import Served, StoreContract, TopicsContract
from tests.api.test_fetch import entries, request, wide_surface
from tests.api.test_fetch import part as asked
from tests.sim.loop import World

PLAIN = TopicStore("plain", frozenset({Capability.TOPICS}))
"""A store that has nothing but topics."""


class PlainLog:
    """A log of the embedded store, as one of `PLAIN`: each read takes a millisecond."""

    store = PLAIN
    reads_at_once = False

    def __init__(self, log: Any, world: World) -> None:
        self._log, self._world = log, world

    def __getattr__(self, name: str) -> Any:
        assert name not in ("read", "read_following"), "it is not read at once"
        return getattr(self._log, name)

    def read_later(self, offset: int, max_bytes: int, *, committed: bool, done: Callable[[ReadResult], None]) -> None:
        def late() -> None:
            self._log.read_later(offset, max_bytes, committed=committed, done=done)

        self._world.at(self._world.now_us + 1_000, late)


class PlainSurface:
    """A replica whose topics, other than the offsets topic, are `PlainLog`s."""

    def __init__(self, node: Any, world: World) -> None:
        self._node, self._world = node, world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def local_log(self, group: int) -> Any:
        log = self._node.local_log(group)
        return log if log is None or group < 2 else PlainLog(log, self._world)


class TestEmbedded(TopicsContract):
    store: ClassVar[TopicStore] = EMBEDDED

    @classmethod
    def made(cls) -> Served:
        return Served(TopicsMode.EMBEDDED)


class TestPlain(TopicsContract):
    store: ClassVar[TopicStore] = PLAIN

    @classmethod
    def made(cls) -> Served:
        made = Served(TopicsMode.EMBEDDED, PlainSurface)
        made.client.dispatcher.services.store = PLAIN
        return made


class TestNone(StoreContract):
    store: ClassVar[TopicStore] = NONE

    @classmethod
    def made(cls) -> Served:
        return Served(TopicsMode.NONE)


# -- Fetch over logs that are read later


class HeldLog(FakeLog):
    """Its reads are answered by the test."""

    store = PLAIN
    reads_at_once = False

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self.held: list[tuple[int, int, Callable[[ReadResult], None]]] = []

    def read(self, *_: Any, **__: Any) -> ReadResult:
        raise AssertionError("it is not read at once")

    def read_later(self, offset: int, max_bytes: int, *, committed: bool, done: Callable[[ReadResult], None]) -> None:
        self.held.append((offset, max_bytes, done))

    def give(self) -> None:
        offset, max_bytes, done = self.held.pop(0)
        done(FakeLog.read(self, offset, max_bytes, whole_first_batch=True)._replace(unproven=False))


def held_surface() -> tuple[FakeSurface, list[HeldLog]]:
    """Topic `wide` of four partitions, of which 1 and 3 are read later."""
    surface = wide_surface()
    logs = []
    for index in (1, 3):
        before = surface.log_of("wide", index)
        log = HeldLog(before.group)
        log.batches = before.batches
        surface.logs[log.group] = log
        logs.append(log)
    return surface, logs


def send(client: KafkaClient, *offsets: int, **more: Any) -> None:
    parts = (asked(index, offset) for index, offset in enumerate(offsets))
    client.send(Api.FETCH, 12, **request(*parts, name="wide", **more))


def test_one_request_mixes_logs_of_both_kinds_in_its_own_order_and_limits() -> None:
    surface, logs = held_surface()
    client = KafkaClient(surface)
    send(client, 20, 10, 0, 0, max_bytes=300)
    assert client.receive() == []
    for log in logs:
        assert [(offset, size) for offset, size, _ in log.held] == [(log.held[0][0], 300)]
        log.give()
    (answer,) = client.receive()
    # Partition 1 has 100 bytes from offset 10 on, partition 2 both of its batches; nothing is left for partition 3.
    assert entries(answer) == [(0, 0, b""), (1, 0, b"b" * 100), (2, 0, b"C" * 100 + b"c" * 100), (3, 0, b"")]


def test_what_came_between_the_first_look_and_the_watch_is_found_by_a_second_look() -> None:
    surface, (log, _) = held_surface()
    client = KafkaClient(surface)
    send(client, 20, 20)
    log.give()
    assert client.receive() == []
    assert log.held == []
    log.batches.append((20, 30, b"n" * 100))  # nobody is told of this one
    surface.fake_loop.run(0)
    log.give()
    (answer,) = client.receive()
    assert entries(answer) == [(0, 0, b""), (1, 0, b"n" * 100)]
    assert log.watchers == []


def test_a_log_that_moves_while_it_is_read_is_read_again() -> None:
    surface, (log, _) = held_surface()
    client = KafkaClient(surface)
    send(client, 20, 20)
    log.give()
    surface.fake_loop.run(0)
    offset, size, done = log.held[0]
    stale = FakeLog.read(log, offset, size, whole_first_batch=True)
    log.append(b"n" * 100)
    log.held.clear()
    done(stale)
    assert client.receive() == []
    surface.fake_loop.run(0)
    log.give()
    assert entries(client.receive()[0])[1] == (1, 0, b"n" * 100)


def test_when_the_wait_is_over_the_look_under_way_is_the_last() -> None:
    surface, (log, _) = held_surface()
    client = KafkaClient(surface)
    send(client, 20, 20, wait_ms=500)
    log.give()
    surface.fake_loop.run(0)
    surface.fake_loop.run(1_000)
    assert client.receive() == []
    assert len(log.held) == 1, "no second read beside it"
    log.give()
    assert entries(client.receive()[0]) == [(0, 0, b""), (1, 0, b"")]
    assert (log.watchers, surface.fake_loop.pending, client.dispatcher.fetch.parked) == ([], 0, 0)


def test_a_client_that_is_gone_before_a_read_ends_leaves_nothing() -> None:
    surface, (log, _) = held_surface()
    client = KafkaClient(surface)
    send(client, 20, 20)
    log.give()
    surface.fake_loop.run(0)
    client.connection.close()
    log.give()
    assert (log.watchers, surface.fake_loop.pending, client.dispatcher.fetch.parked) == ([], 0, 0)


@pytest.mark.parametrize("failure", [Code.KAFKA_STORAGE_ERROR, Code.OFFSET_OUT_OF_RANGE])
def test_an_error_of_a_read_is_its_partitions_alone(failure: Code) -> None:
    surface, (log, other) = held_surface()
    client = KafkaClient(surface)
    send(client, 20, 0, 20, 0)
    log.held.pop()[2](ReadResult(failure))
    other.give()
    assert entries(client.receive()[0]) == [
        (0, 0, b""),
        (1, failure, b""),
        (2, 0, b""),
        (3, 0, b"D" * 100 + b"d" * 100),
    ]


def test_few_partitions_are_read_at_a_time_and_later_ones_ask_for_what_is_left() -> None:
    surface = FakeSurface()
    count = limits.LATER_READS_AT_ONCE_MAX + 2
    surface.add_topic(topic("many", count, first_group=300, voters=(0,)))
    logs = []
    for index in range(count):
        log = HeldLog(surface.log_of("many", index).group)
        log.append(b"x" * 100)
        surface.logs[log.group] = log
        logs.append(log)
    client = KafkaClient(surface)
    client.send(Api.FETCH, 12, **request(*(asked(index) for index in range(count)), name="many", max_bytes=1_000))
    assert [len(log.held) for log in logs] == [1] * limits.LATER_READS_AT_ONCE_MAX + [0, 0]
    logs[3].give()
    assert [log.held[0][1] if log.held else None for log in logs[-2:]] == [900, None]
    logs[7].give()
    assert logs[-1].held[0][1] == 800
    for log in logs:
        for _ in log.held:
            log.give()
    told = entries(client.receive()[0])
    assert [len(records) for _, _, records in told] == [100] * 10 + [0] * (count - 10)
