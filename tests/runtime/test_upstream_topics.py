"""Questions about topics over real sockets: brokers that know, are behind, hang, or are none."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from muster_coordinator.runtime.tls_connection import Handshakes
from muster_coordinator.runtime.upstream_dial import UpstreamDialler
from muster_coordinator.runtime.upstream_topics import UpstreamTopics
from muster_coordinator.upstream import limits

from tests.runtime.test_upstream import FakeBroker, run
from tests.upstream.test_topic_counts import told


class Asked:
    """Questions at brokers in turn."""

    def __init__(self, *brokers: FakeBroker) -> None:
        loop = asyncio.get_running_loop()
        self.turn = 0
        self.brokers = brokers

        def whom() -> list[tuple[str, int]]:
            self.turn += 1
            shift = self.turn % max(len(brokers), 1)
            return [broker.address for broker in (*brokers[shift:], *brokers[:shift])]

        self.topics = UpstreamTopics(loop, UpstreamDialler(loop, Handshakes(loop), None, None), whom)

    async def counts(self, **wanted: int) -> dict[str, int]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.topics.ask(wanted, done.set_result)
        return dict(await done)


def knowing(broker: FakeBroker, *topics: tuple[str, int, int]) -> FakeBroker:
    """One that answers a question about topics so."""
    broker.named = told(12, *topics)
    return broker


def world(*topics: list[tuple[str, int, int]]) -> Callable[[Callable[[Asked], Coroutine[Any, Any, None]]], None]:
    """Brokers that know these, for a test."""

    def with_them(test: Callable[[Asked], Coroutine[Any, Any, None]]) -> None:
        async def around() -> None:
            brokers = [knowing(await FakeBroker(number).start(), *told_by) for number, told_by in enumerate(topics)]
            try:
                await test(Asked(*brokers))
            finally:
                for broker in brokers:
                    await broker.stop()

        run(around())

    return with_them


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS_ASKED_AGAIN_MS", 1)


def test_what_is_listed_needs_no_question() -> None:
    async def test(asked: Asked) -> None:
        asked.topics.listed({"t": 3})
        assert asked.topics.doubtful({"t": 2}) == {}
        assert asked.topics.doubtful({"t": 3, "u": 0}) == {"t": 3, "u": 0}

    world([])(test)


def test_one_that_is_there_is_asked_for_once_and_known_then() -> None:
    async def test(asked: Asked) -> None:
        assert await asked.counts(new=1) == {"new": 2}
        assert (asked.turn, asked.topics.doubtful({"new": 1})) == (1, {})

    world([("new", 0, 2)])(test)


def test_absent_is_what_two_brokers_do_not_know() -> None:
    async def test(asked: Asked) -> None:
        assert await asked.counts(t=0) == {"t": 0}
        assert asked.turn == 2
        assert asked.topics.doubtful({"t": 0}) == {"t": 0}

    world([("t", 3, 0)], [("t", 3, 0)])(test)


@pytest.mark.parametrize("behind", [0, 1])
def test_a_broker_that_is_behind_calls_nothing_absent(behind: int) -> None:
    async def test(asked: Asked) -> None:
        assert await asked.counts(t=1) == {"t": 2}

    both = [[("t", 0, 2)], [("t", 0, 2)]]
    both[behind] = [("t", 3, 0)]
    world(*both)(test)


def test_a_topic_that_grows_meanwhile() -> None:
    async def test(asked: Asked) -> None:
        assert await asked.counts(t=4) == {"t": 5}

    world([("t", 0, 2)], [("t", 0, 5)])(test)


@pytest.mark.parametrize("code", [5, 29])
def test_what_is_neither_there_nor_absent_is_not_known(code: int) -> None:
    async def test(asked: Asked) -> None:
        assert await asked.counts(t=0) == {}

    world([("t", code, 0)], [("t", 3, 0)])(test)


def test_nobody_to_be_asked_a_broker_that_hangs_and_one_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS_ASKED_MS_MAX", 200)

    async def test(asked: Asked) -> None:
        (broker,) = asked.brokers
        for said in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"):
            broker.raw = said
            assert await asked.counts(t=0) == {}
        nobody = Asked()
        assert await nobody.counts(t=0) == {}

    world([])(test)


def test_more_than_is_asked_for_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS_ASKED_MAX", 2)
    monkeypatch.setattr(limits, "TOPIC_QUESTIONS_MAX", 1)

    async def test(asked: Asked) -> None:
        assert await asked.counts(a=0, b=0, c=0) == {}
        one, other = await asyncio.gather(asked.counts(a=0), asked.counts(a=0))
        assert (one, other) == ({"a": 1}, {})

    world([("a", 0, 1)])(test)


def test_a_later_commit_does_not_overtake_an_earlier_one() -> None:
    """The first one's broker hangs; the second one's answers at once; a list comes in between."""

    async def test(asked: Asked) -> None:
        hangs, _ = asked.brokers
        hangs.raw = b""
        asked.turn = 1
        order: list[str] = []
        done = asyncio.get_running_loop().create_future()
        asked.topics.ask({"new": 0}, lambda _: order.append("first"))
        asked.topics.ask({"new": 0}, lambda _: order.append("second"))
        asked.topics.listed({"new": 4})
        assert asked.topics.doubtful({"new": 0, "known": 0}) == {"new": 0, "known": 0}
        asked.topics.ask({"new": 0}, lambda _: (order.append("third"), done.set_result(None)))
        await done
        assert order == ["first", "second", "third"]
        assert asked.topics.doubtful({"new": 0}) == {}

    world([], [("new", 0, 4)])(test)


def test_nothing_is_told_after_its_end() -> None:
    async def test(asked: Asked) -> None:
        told: list[object] = []
        asked.topics.ask({"t": 0}, told.append)
        asked.topics.close()
        await asyncio.gather(*asked.topics._tasks, return_exceptions=True)
        assert told == []

    world([("t", 0, 1)])(test)
