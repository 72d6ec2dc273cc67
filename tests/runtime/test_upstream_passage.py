"""The other half of a client's connection: requests go on in order, answers come back in any pieces, both ends end."""

import asyncio
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.limits import CONNECTION_UNSENT_BYTES_MAX
from muster_coordinator.runtime import upstream_passage
from muster_coordinator.runtime.upstream_passage import UpstreamPassage, _Half
from muster_coordinator.upstream import limits
from muster_coordinator.upstream.brokers import Broker
from muster_coordinator.upstream.remembered import Remembered, Said
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.passage import Forwarded
from muster_coordinator.wire.versions import Api

from tests.upstream.rights.frames import Owner
from tests.upstream.test_brokers import framed
from tests.wire.frames import frames_of
from tests.wire.kio_entities import decode_answer, encode_request
from tests.wire.test_connection import Desk, heartbeat, raw


class Transport:
    """What asyncio would give; writes are kept."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.reading = True
        self.aborted = False

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == limits.UNSENT_BYTES_MAX

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.aborted = True


class Brokers:
    """Dials when the test says so."""

    def __init__(self) -> None:
        self.receiving_bytes = 0
        self.passes_logins = False
        self.dialled: list[int | None] = []
        self.made: asyncio.Future[None] = asyncio.get_event_loop().create_future()
        self.away = False
        self.last: Remembered | None = None
        self.learnt: list[tuple[Broker, ...]] = []
        self.missed: list[int] = []
        self.doubted: set[int] = set()

    async def dial(self, node: int | None, made: Callable[[], asyncio.Protocol]) -> None:
        self.dialled.append(node)
        await self.made

    def remembered(self) -> Remembered | None:
        return self.last

    def learn(self, brokers: tuple[Broker, ...], said: Said | None) -> None:
        assert said is not None
        self.learnt.append(brokers)

    def missing(self, node: int) -> None:
        self.missed.append(node)

    def lost(self, node: int) -> None:
        self.doubted.add(node)

    def is_doubted(self, node: int) -> bool:
        return node in self.doubted


class Ours:
    def address(self, node: int) -> tuple[str, int] | None:
        return ("ours", 19_000 + node) if node < 9 else None

    def replicas(self) -> list[Broker]:
        return [Broker(1_000_000, "ours", 9_092)]


class World:
    """A client's connection with its passage."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: int | None = 1, doubted: Iterable[int] = ()) -> None:
        self.loop = loop
        self.brokers = Brokers()
        self.brokers.doubted.update(doubted)
        self.desk = Desk()
        self.client = self.desk.connection
        self.passage = UpstreamPassage(loop, self.brokers, node, Ours(), self.client)
        self.client.passage = self.passage
        self.transport = Transport()
        self.half = _Half(self.passage)

    def connect(self) -> None:
        self.half.connection_made(self.transport)  # type: ignore[arg-type]

    def turns(self, count: int = 5) -> None:
        for _ in range(count):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def end(self) -> None:
        self.client.close()
        self.brokers.made.cancel()
        self.turns()

    def answers(self) -> list[bytes]:
        return list(frames_of(self.client.take()))


@pytest.fixture
def world() -> Iterator[World]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        made = World(loop)
        yield made
        made.end()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def fetch(correlation: int) -> bytes:
    values = {"replica_id": -1, "max_wait_ms": 1, "min_bytes": 1, "max_bytes": 9, "topics": (), "session_id": 0}
    return encode_request(Api.FETCH, 12, values, correlation, "c")


def produce(correlation: int, acks: int) -> bytes:
    values = {"transactional_id": None, "acks": acks, "timeout_ms": 1, "topic_data": ()}
    return encode_request(Api.PRODUCE, 9, values, correlation, "c")


def metadata(correlation: int, version: int = 12) -> bytes:
    return encode_request(Api.METADATA, version, {"topics": None}, correlation, "c")


def answer(correlation: int, size: int = 3) -> bytes:
    return struct.pack(">ii", 4 + size, correlation) + bytes(size)


def test_requests_before_the_connection_are_sent_with_it_in_their_order(world: World) -> None:
    world.client.receive(fetch(1) + produce(2, 1))
    world.client.receive(fetch(3))
    world.turns()
    assert world.brokers.dialled == [1]
    world.connect()
    world.client.receive(fetch(4))
    assert b"".join(world.transport.writes) == fetch(1) + produce(2, 1) + fetch(3) + fetch(4)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.lists(st.integers(1, 30), max_size=40))
@settings(max_examples=60, deadline=None)
def test_answers_are_whole_however_they_arrive(sizes: list[int], cuts: list[int]) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        world = World(loop)
        world.connect()
        world.client.receive(b"".join(fetch(i) for i in range(len(sizes))))
        stream = b"".join(answer(i, size) for i, size in enumerate(sizes))
        pos = 0
        for cut in cuts:
            world.half.data_received(stream[pos : pos + cut])
            pos += cut
        world.half.data_received(stream[pos:])
        assert b"".join(world.answers()) == stream
        assert world.brokers.receiving_bytes == 0
        world.end()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_a_produce_without_acks_is_followed_by_the_next_answer(world: World) -> None:
    world.connect()
    world.client.receive(produce(1, 0) + fetch(2))
    world.half.data_received(answer(2))
    assert world.answers() == [answer(2)]


def test_addresses_become_ours_and_the_brokers_are_learnt(world: World) -> None:
    world.connect()
    world.client.receive(metadata(5))
    theirs = [{"node_id": 1, "host": "theirs", "port": 1, "rack": None}, {"node_id": 9, "host": "x", "port": 2}]
    values = {"brokers": theirs, "cluster_id": "c", "controller_id": 1, "topics": ()}
    world.half.data_received(framed(Api.METADATA, 12, values, 5))
    (frame,) = world.answers()
    told = decode_answer(Api.METADATA, 12, frame)[1].brokers
    assert [(one.node_id, one.host, one.port) for one in told] == [(1, "ours", 19_001), (1_000_000, "ours", 9_092)]
    assert [[one.node for one in brokers] for brokers in world.brokers.learnt] == [[1, 9]]
    assert world.brokers.missed == [9]


def test_coordinators_of_transactions_are_asked_for_there_and_those_of_groups_here(world: World) -> None:
    world.connect()
    find = {"coordinator_keys": ["k"], "key_type": 1}
    world.client.receive(encode_request(Api.FIND_COORDINATOR, 4, find, 1, None))
    found = {"key": "k", "node_id": 2, "host": "theirs", "port": 1, "error_code": 0, "error_message": None}
    world.half.data_received(framed(Api.FIND_COORDINATOR, 4, {"coordinators": [found]}, 1))
    (frame,) = world.answers()
    one = decode_answer(Api.FIND_COORDINATOR, 4, frame)[1].coordinators[0]
    assert (one.node_id, one.host, one.port) == (2, "ours", 19_002)
    world.client.receive(encode_request(Api.FIND_COORDINATOR, 4, {**find, "key_type": 0}, 2, None) + heartbeat(3))
    assert [context.api_key for context, _, _ in world.desk.requests] == [Api.FIND_COORDINATOR, Api.HEARTBEAT]


@pytest.mark.parametrize(
    ("bytes_of_it", "why"),
    [
        (answer(9), "an answer to 9, where 1 was asked"),
        (struct.pack(">ii", 3, 1), "an answer of 3 bytes"),
        (struct.pack(">ii", -1, 1), "an answer of -1 bytes"),
        (struct.pack(">ii", limits.ANSWER_BYTES_MAX + 1, 1), "an answer of"),
        (b"HTTP/1.1 400 Bad Request", "an answer of"),
        (answer(1) + answer(2), "an answer to nothing"),
    ],
)
def test_what_is_no_answer_ends_the_connection(world: World, bytes_of_it: bytes, why: str) -> None:
    world.connect()
    world.client.receive(fetch(1))
    world.half.data_received(bytes_of_it)
    assert world.client.state is State.FAILED
    assert why in world.client.failure
    assert world.brokers.receiving_bytes == 0


def test_an_answer_that_cannot_be_readdressed_ends_the_connection(world: World) -> None:
    world.connect()
    world.client.receive(metadata(1))
    world.half.data_received(answer(1, 2))
    assert world.client.state is State.FAILED


def test_answers_of_all_clients_have_a_limit(world: World) -> None:
    world.connect()
    world.client.receive(fetch(1))
    world.brokers.receiving_bytes = limits.ANSWERS_BYTES_MAX - 6
    world.half.data_received(struct.pack(">ii", 7, 1))
    assert "too much memory" in world.client.failure
    assert world.brokers.receiving_bytes == limits.ANSWERS_BYTES_MAX - 6


def test_the_end_of_a_client_gives_back_what_a_half_answer_took(world: World) -> None:
    world.connect()
    world.client.receive(fetch(1))
    world.half.data_received(answer(1, 1000)[:500])
    assert world.brokers.receiving_bytes == 1004
    world.client.close()
    assert (world.brokers.receiving_bytes, world.transport.aborted) == (0, True)
    world.half.data_received(answer(1, 1000)[500:])
    world.half.connection_lost(None)
    assert world.client.state is State.CLOSED


def test_a_client_that_takes_nothing_stops_the_broker(world: World) -> None:
    world.connect()
    world.client.receive(fetch(1) + fetch(2))
    world.half.data_received(answer(1, CONNECTION_UNSENT_BYTES_MAX))
    assert not world.transport.reading
    taken = sum(map(len, world.client.take()))
    world.client.note_unsent(taken)
    assert not world.transport.reading
    world.client.note_unsent(0)
    assert world.transport.reading


def test_a_broker_that_takes_nothing_stops_the_client(world: World) -> None:
    world.connect()
    world.half.pause_writing()
    assert not world.client.wants_bytes
    wakes = world.desk.wakes
    world.half.resume_writing()
    assert world.client.wants_bytes
    assert world.desk.wakes == wakes + 1


def test_requests_before_the_connection_have_a_limit(world: World) -> None:
    big = produce(1, 1)[4:] + bytes(limits.UNSENT_BYTES_MAX)
    world.client.receive(struct.pack(">i", len(big)) + big + fetch(2))
    assert not world.client.wants_bytes
    world.connect()
    assert world.client.wants_bytes or world.client.holds_frames


@pytest.mark.parametrize("error", [ConnectionRefusedError("refused"), TimeoutError()])
def test_a_broker_that_cannot_be_reached_ends_the_connection(world: World, error: Exception) -> None:
    world.client.receive(fetch(1))
    world.brokers.made.set_exception(error)
    world.turns()
    assert "cannot be reached" in world.client.failure


@pytest.mark.parametrize(("error", "why"), [(None, "has closed"), (ConnectionResetError("reset"), "reset")])
def test_the_end_of_the_broker_is_the_clients(world: World, error: Any, why: str) -> None:
    world.connect()
    world.client.receive(fetch(1))
    world.half.connection_lost(error)
    assert world.client.state is State.FAILED
    assert why in world.client.failure


def test_a_client_that_goes_while_it_is_dialled(world: World) -> None:
    world.client.receive(fetch(1))
    world.turns()
    world.client.close()
    world.turns()
    assert world.brokers.made.cancelled()
    late = Transport()
    world.half.connection_made(late)  # type: ignore[arg-type]
    assert late.aborted


# -- a broker that was lost: its client must see a broker that is down, not one that answers and then hangs up


@pytest.fixture
def doubtful(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(upstream_passage, "REFUSED_AFTER_MS", 0)
    made = World(world.loop, doubted={1})
    yield made
    made.end()


def test_a_broker_that_was_lost_is_reached_before_its_client_is_answered_anything(doubtful: World) -> None:
    doubtful.turns()
    assert doubtful.brokers.dialled == [1]
    doubtful.client.receive(raw(Api.API_VERSIONS, 0) + fetch(1))
    assert (doubtful.desk.requests, doubtful.client.wants_bytes) == ([], False)
    doubtful.connect()
    doubtful.client.resume()
    assert [context.api_key for context, _, _ in doubtful.desk.requests] == [Api.API_VERSIONS]
    assert doubtful.transport.writes == [fetch(1)]
    assert doubtful.brokers.dialled == [1]


def test_a_lost_broker_that_is_still_away_ends_the_connection_unread(doubtful: World) -> None:
    doubtful.client.receive(raw(Api.API_VERSIONS, 0))
    doubtful.brokers.made.set_exception(ConnectionRefusedError("refused"))
    doubtful.turns()
    assert "cannot be reached" in doubtful.client.failure
    assert doubtful.desk.requests == []


def test_who_comes_again_at_once_is_not_refused_at_once(doubtful: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_passage, "REFUSED_AFTER_MS", 3_600_000)
    doubtful.brokers.made.set_exception(ConnectionRefusedError("refused"))
    doubtful.turns(20)
    assert doubtful.client.state is State.READY
    doubtful.client.close()
    doubtful.turns()
    assert doubtful.client.state is State.CLOSED


def test_a_client_that_goes_while_a_lost_broker_is_dialled(doubtful: World) -> None:
    doubtful.turns()
    doubtful.client.close()
    doubtful.turns()
    assert doubtful.brokers.made.cancelled()


def test_a_broker_of_which_nothing_is_wrong_is_reached_when_it_is_needed(world: World) -> None:
    world.client.receive(raw(Api.API_VERSIONS, 0))
    world.turns()
    assert (len(world.desk.requests), world.brokers.dialled) == (1, [])


def test_only_a_broker_that_has_hung_up_by_itself_is_lost(world: World) -> None:
    world.connect()
    world.client.close()
    world.half.connection_lost(None)
    assert world.brokers.doubted == set()
    other = World(world.loop)
    other.connect()
    other.half.connection_lost(ConnectionResetError("reset"))
    assert other.brokers.doubted == {1}


# -- at an address that stands for no broker


TOPICS = {
    "brokers": [{"node_id": 1, "host": "theirs", "port": 1, "rack": "r"}],
    "cluster_id": "c",
    "controller_id": 1,
    "topics": [
        {
            "error_code": 0, "name": "t", "topic_id": bytes(15) + b"t", "is_internal": False,
            "partitions": [
                {
                    "error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 4, "replica_nodes": (1,),
                    "isr_nodes": (1,), "offline_replicas": (),
                }
            ],
        }
    ],
}  # fmt: skip


@pytest.fixture
def anywhere() -> Iterator[World]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        made = World(loop, None)
        made.brokers.last = Remembered(Said(12, framed(Api.METADATA, 12, TOPICS)), (Broker(1, "theirs", 1, "r"),))
        yield made
        made.end()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def told_topics(world: World) -> list[list[tuple[str | None, int]]]:
    found = []
    for frame in world.answers():
        answer = decode_answer(Api.METADATA, 12, frame)[1]
        assert [(b.node_id, b.port) for b in answer.brokers] == [(1, 19_001), (1_000_000, 9_092)]
        found.append([(topic.name, topic.error_code.value) for topic in answer.topics])
    return found


def test_the_end_of_the_broker_is_not_the_clients_and_the_next_request_finds_another(anywhere: World) -> None:
    anywhere.connect()
    anywhere.client.receive(metadata(1) + heartbeat(2))
    anywhere.half.data_received(answer(1, 9)[:10])
    anywhere.half.connection_lost(ConnectionResetError("reset"))
    anywhere.desk.answer(0)
    frames = anywhere.answers()
    assert [int.from_bytes(frame[4:8], "big") for frame in frames] == [1, 2]
    assert anywhere.brokers.receiving_bytes == 0
    anywhere.client.receive(metadata(3))
    anywhere.turns()
    assert anywhere.brokers.dialled == [None]
    again, late = Transport(), anywhere.half
    anywhere.half = _Half(anywhere.passage)
    anywhere.half.connection_made(again)  # type: ignore[arg-type]
    assert again.writes == [metadata(3)]
    late.connection_lost(None)
    late.data_received(b"junk")
    late.pause_writing()
    assert anywhere.client.wants_bytes
    assert anywhere.client.state is State.READY


def test_nobody_to_be_reached_is_told_by_what_was_said_last(anywhere: World) -> None:
    anywhere.client.receive(metadata(1))
    anywhere.turns()
    anywhere.brokers.made.set_exception(ConnectionRefusedError())
    anywhere.turns()
    assert told_topics(anywhere) == [[("t", 0)]]
    assert anywhere.client.state is State.READY


def test_while_it_is_away_nobody_tries_first(anywhere: World) -> None:
    anywhere.brokers.away = True
    anywhere.client.receive(metadata(1))
    anywhere.turns()
    assert anywhere.brokers.dialled == []
    assert told_topics(anywhere) == [[("t", 0)]]


def test_what_only_the_upstream_can_answer_ends_the_connection(anywhere: World) -> None:
    anywhere.brokers.away = True
    anywhere.client.receive(fetch(1))
    anywhere.turns()
    anywhere.brokers.made.set_exception(ConnectionRefusedError())
    anywhere.turns()
    assert "cannot be reached" in anywhere.client.failure


def test_a_broker_that_does_not_answer_is_given_up(anywhere: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ANSWER_ANY_MS_MAX", 0)
    anywhere.connect()
    anywhere.client.receive(metadata(1) + metadata(2))
    anywhere.turns(20)
    assert told_topics(anywhere) == [[("t", 0)]] * 2
    assert anywhere.transport.aborted
    assert anywhere.client.state is State.READY


def test_nothing_said_yet_ends_the_connection(anywhere: World) -> None:
    anywhere.brokers.last = None
    anywhere.brokers.away = True
    anywhere.client.receive(metadata(1))
    anywhere.turns()
    anywhere.brokers.made.set_exception(TimeoutError())
    anywhere.turns()
    assert "TimeoutError" in anywhere.client.failure


def garbled(correlation: int) -> bytes:
    """A request for topics of which the client sent half a body."""
    whole = metadata(correlation)
    return struct.pack(">i", len(whole) - 4 - 3) + whole[4:-3]


def lose(anywhere: World) -> None:
    anywhere.half.connection_lost(None)


def refuse(anywhere: World) -> None:
    anywhere.brokers.made.set_exception(ConnectionRefusedError())


def wait(anywhere: World) -> None:
    """Until the patience of the passage, which is none, has ended."""
    anywhere.turns(20)


@pytest.mark.parametrize("end", [lose, refuse, wait])
@pytest.mark.parametrize("before", [b"", metadata(1)])
def test_a_question_that_is_none_costs_its_connection_and_nothing_else(
    anywhere: World, monkeypatch: pytest.MonkeyPatch, end: Callable[[World], None], before: bytes
) -> None:
    """A broker closes the connection on which such bytes came, so the client itself makes the moment at which they are
    read here: in a callback of the event loop, out of which an error would end the process."""
    escaped: list[dict[str, Any]] = []
    anywhere.loop.set_exception_handler(lambda _, context: escaped.append(context))
    if end is wait:
        monkeypatch.setattr(limits, "ANSWER_ANY_MS_MAX", 0)
    if end is not refuse:
        anywhere.connect()
    anywhere.client.receive(before + garbled(2))
    anywhere.turns(1)
    end(anywhere)
    anywhere.turns()
    assert escaped == []
    assert anywhere.client.state is not State.READY
    assert anywhere.client.failure


def test_what_was_said_last_and_cannot_be_read_is_as_if_nothing_had_been_said(anywhere: World) -> None:
    whole = framed(Api.METADATA, 12, TOPICS)
    anywhere.brokers.last = Remembered(Said(12, whole[:-3]), ())
    anywhere.connect()
    anywhere.client.receive(metadata(1))
    anywhere.half.connection_lost(None)
    assert "closed" in anywhere.client.failure


# -- our ACLs in front -------------------------------------------------------------------------------------------------


def judging(world: World, rights: Owner | None) -> None:
    """From now on the client has these rights; None: nobody knows them."""
    world.passage = UpstreamPassage(world.loop, world.brokers, 1, Ours(), world.client, lambda _api, _version: rights)
    world.client.passage = world.passage
    world.half = _Half(world.passage)
    world.connect()


def asks(correlation: int, *names: str) -> bytes:
    return encode_request(Api.LIST_OFFSETS, 7, {"topics": tuple({"name": one} for one in names)}, correlation, "c")


def test_what_is_denied_goes_nowhere_and_is_answered_in_its_turn(world: World) -> None:
    judging(world, Owner())
    world.client.receive(asks(1, "mine-one") + asks(2, "theirs-one") + asks(3, "mine-one", "theirs-one"))
    sent = b"".join(world.transport.writes)
    assert sent == asks(1, "mine-one") + asks(3, "mine-one")
    assert world.answers() == [], "the first one has not been answered"
    for correlation in (1, 3):
        values = {"topics": ({"name": "mine-one", "partitions": ()},)}
        world.half.data_received(framed(Api.LIST_OFFSETS, 7, values, correlation))
    found = [decode_answer(Api.LIST_OFFSETS, 7, frame) for frame in world.answers()]
    assert [(correlation, [one.name for one in told.topics]) for correlation, told in found] == [
        (1, ["mine-one"]), (2, ["theirs-one"]), (3, ["mine-one", "theirs-one"]),
    ]  # fmt: skip


def test_while_nobody_knows_what_a_client_may_do_its_connection_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_passage, "REFUSED_AFTER_MS", 0)
    judging(world, None)
    world.client.receive(asks(1, "mine-one"))
    assert (world.client.state, world.client.wants_bytes) == (State.READY, False), "it would come again at once"
    world.client.receive(asks(2, "mine-one"))
    world.turns()
    assert world.client.state is State.FAILED
    assert b"".join(world.transport.writes) == b""


def test_acls_are_the_coordinators_own(world: World) -> None:
    judging(world, Owner(everything=True))
    request = Forwarded(b"", 0, 0, 0)
    assert not any(world.passage.takes(api, 2, request) for api in (29, 30, 31))
    world.client.passage = None


def audited(world: World) -> list[dict[str, Any] | None]:
    """Answers that the audit hears of, of DeleteRecords."""
    heard: list[Any] = []
    judging(world, Owner(audit=lambda _request: heard.append))
    return heard


def deletes(correlation: int, *names: str) -> bytes:
    topics = tuple({"name": one} for one in names)
    return encode_request(Api.DELETE_RECORDS, 2, {"topics": topics}, correlation, "c")


def deleted(correlation: int, name: str = "mine-one", code: int = 0) -> bytes:
    parts = ({"partition_index": 0, "low_watermark": 7, "error_code": code},)
    return framed(Api.DELETE_RECORDS, 2, {"topics": ({"name": name, "partitions": parts},)}, correlation)


def codes(answer: dict[str, Any] | None) -> list[int] | None:
    return None if answer is None else [part["error_code"] for one in answer["topics"] for part in one["partitions"]]


def test_the_audit_hears_what_a_client_was_told_once(world: World) -> None:
    heard = audited(world)
    world.client.receive(deletes(1, "mine-one") + deletes(2, "theirs-one") + asks(3, "mine-one"))
    assert [one["topics"][0]["name"] for one in heard if one] == ["theirs-one"], "what is denied goes nowhere"
    world.half.data_received(deleted(1, code=6))
    assert codes(heard[1]) == [6]
    world.half.connection_lost(None)
    assert len(heard) == 2


@pytest.mark.parametrize("end", ["the broker's", "the client's", "an answer to something else", "no answer"])
def test_the_audit_hears_that_nobody_knows_what_became_of_it(world: World, end: str) -> None:
    heard = audited(world)
    world.client.receive(deletes(1, "mine-one") + deletes(2, "mine-one", "theirs-one"))
    assert heard == []
    if end == "the broker's":
        world.half.connection_lost(None)
    elif end == "the client's":
        world.client.end("it went away")
    elif end == "an answer to something else":
        world.half.data_received(deleted(9))
    else:
        world.half.data_received(framed(Api.DELETE_RECORDS, 2, {"topics": ()}, 1)[:-1] + b"\xff")
        assert heard == [None], "its client is given it as it is"
        world.half.data_received(deleted(2)[:-2] + b"\xff\xff")
    world.client.close()
    assert heard == [None, None]


def test_the_audit_hears_of_one_that_never_reached_the_broker(anywhere: World) -> None:
    heard: list[Any] = []
    rights = Owner(audit=lambda _request: heard.append)
    anywhere.client.passage = anywhere.passage = UpstreamPassage(
        anywhere.loop, anywhere.brokers, None, Ours(), anywhere.client, lambda _api, _version: rights
    )
    anywhere.client.receive(deletes(1, "mine-one"))
    anywhere.turns(1)
    refuse(anywhere)
    anywhere.turns()
    anywhere.client.close()
    assert heard == [None]


def test_a_denied_produce_without_acks_ends_the_connection(world: World) -> None:
    judging(world, Owner())
    values = {"transactional_id": None, "acks": 0, "timeout_ms": 1, "topic_data": ({"name": "theirs-one"},)}
    world.client.receive(encode_request(Api.PRODUCE, 9, values, 1, "c"))
    assert world.client.state is State.FAILED
    assert b"".join(world.transport.writes) == b""


def test_topics_of_others_are_not_told_while_the_upstream_is_away_either(world: World) -> None:
    topics = tuple({"name": name, "error_code": 0, "partitions": ()} for name in ("mine-one", "theirs-one"))
    said = framed(Api.METADATA, 11, {"brokers": (), "cluster_id": "c", "controller_id": 1, "topics": topics}, 0)
    world.passage = UpstreamPassage(
        world.loop, world.brokers, None, Ours(), world.client, lambda _api, _version: Owner()
    )
    world.client.passage = world.passage
    world.brokers.away = True
    world.brokers.last = Remembered(Said(11, said), ())
    world.client.receive(metadata(5, 11))
    (frame,) = world.answers()
    assert [one.name for one in decode_answer(Api.METADATA, 11, frame)[1].topics] == ["mine-one"]
