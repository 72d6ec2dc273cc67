"""Fetch sessions (KIP-227; protocol notes 13.2). Oracle: Kafka's `FetchSession.scala`."""

from types import SimpleNamespace
from typing import Any

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.fetch_sessions import FetchSessions
from muster_coordinator.errors import Code
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code
from tests.api.test_fetch import part, request, wide_surface

LATEST = 17


class Poller:
    """A client with one session, as `FetchSessionHandler` keeps it."""

    def __init__(self, surface: FakeSurface, version: int = LATEST, **how: Any) -> None:
        self.client = KafkaClient(surface, **how)
        self.version = version
        self.id = 0
        self.epoch = 0

    def poll(self, *parts: dict[str, Any], forget: tuple[int, ...] = (), **more: Any) -> Any:
        one = request(*parts, name="wide", wait_ms=0)["topics"]
        topic_id = request(part(0), name="wide")["topics"][0]["topic_id"]
        forgotten = [{"topic": "wide", "topic_id": topic_id, "partitions": list(forget)}] if forget else []
        asked = {**request(name="wide", wait_ms=0), "topics": one, "forgotten_topics_data": forgotten, **more}
        answer = self.client.ask(Api.FETCH, self.version, session_id=self.id, session_epoch=self.epoch, **asked)
        if not code(answer.error_code):
            self.id = answer.session_id
            self.epoch = self.epoch + 1 if self.id else 0
        return answer


def told(answer: Any) -> dict[int, tuple[int, bytes]]:
    assert code(answer.error_code) == 0
    return {p.partition_index: (code(p.error_code), p.records) for t in answer.responses for p in t.partitions}


def at_the_end(surface: FakeSurface, version: int = LATEST) -> Poller:
    """A session of all four partitions, of which nothing is left to read."""
    poller = Poller(surface, version)
    answer = poller.poll(*(part(index, 20) for index in range(4)))
    assert told(answer) == dict.fromkeys(range(4), (0, b"")), "the first answer names everything"
    assert answer.session_id > 0
    return poller


@pytest.mark.parametrize("version", range(7, 19))
def test_only_what_is_new_is_told(version: int) -> None:
    surface = wide_surface()
    poller = at_the_end(surface, version)
    assert told(poller.poll()) == {}
    surface.log_of("wide", 2).append(b"new")
    assert told(poller.poll()) == {2: (0, b"new")}
    assert told(poller.poll()) == {2: (0, b"new")}, "until its reader asks for what comes after"
    assert told(poller.poll(part(2, 30))) == {}
    assert poller.client.dispatcher.fetch.sessions.partitions == 4


def test_a_log_start_that_moved_is_told_once() -> None:
    surface = wide_surface()
    poller = at_the_end(surface)
    surface.log_of("wide", 1).start = 10
    assert told(poller.poll()) == {1: (0, b"")}
    assert told(poller.poll()) == {}


def test_an_error_is_told_each_time_and_its_end_once() -> None:
    surface = wide_surface()
    poller = at_the_end(surface)
    surface.log_of("wide", 3).code = Code.NOT_LEADER_OR_FOLLOWER
    assert told(poller.poll()) == told(poller.poll()) == {3: (6, b"")}
    surface.log_of("wide", 3).code = Code.NONE
    assert told(poller.poll()) == {3: (0, b"")}
    assert told(poller.poll()) == {}


def test_partitions_are_added_replaced_and_forgotten() -> None:
    surface = wide_surface()
    poller = Poller(surface)
    poller.poll(part(0, 20))
    assert told(poller.poll(part(1, 10))) == {1: (0, b"b" * 100)}
    assert told(poller.poll(part(0, 10), part(1, 20))) == {0: (0, b"a" * 100)}, "told when it was added"
    assert told(poller.poll(forget=(0, 3))) == {}
    surface.log_of("wide", 0).append(b"unread")
    assert told(poller.poll()) == {}


def test_a_session_without_partitions_ends() -> None:
    surface = wide_surface()
    poller = at_the_end(surface)
    answer = poller.poll(forget=(0, 1, 2, 3))
    assert (told(answer), answer.session_id) == ({}, 0)
    assert len(poller.client.dispatcher.fetch.sessions) == 0


def test_limits_of_bytes_do_not_starve_those_behind() -> None:
    """What was told goes to the back: with room for one batch, each partition has its turn."""
    surface = wide_surface()
    poller = Poller(surface)
    poller.poll(*(part(index, 0) for index in range(4)), max_bytes=100)
    seen = [tuple(told(poller.poll(max_bytes=100))) for _ in range(4)]
    assert sorted(seen) == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize(("epoch", "expected"), [(2, 71), (5, 71), (2**31 - 1, 71)])
def test_another_epoch_is_71_and_the_session_goes_on(epoch: int, expected: int) -> None:
    poller = at_the_end(wide_surface())
    answer = poller.client.ask(
        Api.FETCH, LATEST, session_id=poller.id, session_epoch=epoch, **request(name="wide", wait_ms=0)
    )
    assert (code(answer.error_code), answer.session_id, answer.responses) == (expected, 0, ())
    assert told(poller.poll()) == {}


@pytest.mark.parametrize(("session", "epoch"), [(0, 1), (9, 1), (9, 700)])
def test_an_unknown_session_is_70(session: int, epoch: int) -> None:
    answer = KafkaClient(wide_surface()).ask(
        Api.FETCH, LATEST, session_id=session, session_epoch=epoch, **request(part(0), name="wide")
    )
    assert (code(answer.error_code), answer.session_id, answer.responses) == (70, 0, ())


@pytest.mark.parametrize(("made", "used"), [(12, 13), (13, 12)])
def test_names_and_ids_are_not_mixed(made: int, used: int) -> None:
    poller = at_the_end(wide_surface(), made)
    poller.version = used
    assert code(poller.poll().error_code) == 106


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_ends_the_session_that_it_names(epoch: int) -> None:
    poller = at_the_end(wide_surface())
    before, poller.epoch = poller.id, epoch
    answer = poller.poll(part(0, 20))
    assert (answer.session_id == 0) == (epoch == -1)
    assert answer.session_id != before
    sessions = poller.client.dispatcher.fetch.sessions
    assert (len(sessions), sessions.partitions) == ((0, 0) if epoch else (1, 1))


def test_after_the_last_epoch_comes_1() -> None:
    poller = at_the_end(wide_surface())
    (session,) = poller.client.dispatcher.fetch.sessions._sessions.values()
    session.epoch = poller.epoch = 2**31 - 1
    poller.poll()
    assert session.epoch == 1


def test_a_session_is_of_one_principal() -> None:
    surface = wide_surface()
    poller = at_the_end(surface)
    sessions = poller.client.dispatcher.fetch.sessions
    for epoch in (1, -1):
        asked = SimpleNamespace(session_id=poller.id, session_epoch=epoch, forgotten_topics_data=())
        begun = sessions.begin("User:mallory", asked, LATEST, [], 0)
        assert epoch == -1 or begun is Code.FETCH_SESSION_ID_NOT_FOUND
    assert told(poller.poll()) == {}, "it was not closed"


def slots(count: int) -> tuple[FakeSurface, list[Poller]]:
    surface = wide_surface()
    first = Poller(surface)
    first.client.dispatcher.fetch.sessions._slots = count
    others = [Poller(surface, dispatcher=first.client.dispatcher) for _ in range(count + 1)]
    return surface, [first, *others]


def test_a_full_cache_makes_nobody_wait_and_nobody_give_way_at_once() -> None:
    _, pollers = slots(2)
    ids = [poller.poll(part(0, 20)).session_id for poller in pollers[:3]]
    assert [bool(number) for number in ids] == [True, True, False]


def test_the_one_unused_for_two_minutes_gives_way() -> None:
    surface, (first, second, third, _) = slots(2)
    first.poll(part(0, 20))
    second.poll(*(part(index, 20) for index in range(4)))
    surface.fake_loop.now_ms += limits.FETCH_SESSION_IDLE_MS
    assert told(second.poll()) == {}
    surface.fake_loop.now_ms += 1
    assert third.poll(part(0, 20)).session_id > 0
    assert code(first.poll().error_code) == 70
    assert told(second.poll()) == {}
    assert first.client.dispatcher.fetch.sessions.stats() == (2, 5, 1)


def test_an_old_one_gives_way_only_to_one_that_is_not_smaller() -> None:
    surface, (first, second, third, fourth) = slots(2)
    first.poll(part(0, 20), part(1, 20))
    second.poll(*(part(index, 20) for index in range(3)))
    surface.fake_loop.now_ms += limits.FETCH_SESSION_IDLE_MS + 1
    first.poll()
    second.poll()
    assert third.poll(part(0, 20)).session_id == 0
    assert fourth.poll(part(0, 20), part(3, 20)).session_id > 0
    assert code(first.poll().error_code) == 70, "the smaller of the two"
    assert told(second.poll()) == {}


def test_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FETCH_SESSIONS_PARTITIONS_MAX", 3)
    surface = wide_surface()
    assert Poller(surface).poll(*(part(index, 20) for index in range(4))).session_id == 0
    poller = Poller(surface)
    poller.poll(*(part(index, 20) for index in range(3)))
    assert poller.id > 0
    assert code(poller.poll(part(3, 20)).error_code) == 70, "its client names everything again, and gets no session"
    assert poller.client.dispatcher.fetch.sessions.partitions == 0


def test_without_slots_there_are_no_sessions() -> None:
    surface = wide_surface()
    sessions = FetchSessions(surface.rand, 0)
    assert sessions.make("User:a", by_id=True, told=[], now_ms=0) == 0


def test_a_parked_request_of_a_session_is_answered_by_news_alone() -> None:
    surface = wide_surface()
    poller = at_the_end(surface)
    asked = {**request(name="wide", wait_ms=500), "topics": []}
    poller.client.send(Api.FETCH, LATEST, session_id=poller.id, session_epoch=poller.epoch, **asked)
    assert poller.client.receive() == []
    surface.log_of("wide", 1).append(b"new")
    surface.fake_loop.run()
    (answer,) = poller.client.receive()
    assert told(answer) == {1: (0, b"new")}
