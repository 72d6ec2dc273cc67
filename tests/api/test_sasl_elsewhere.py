"""Clients whose login another server judges: the handlers, the connection and its passage together, frame by frame.

The broker is played by our own servers of PLAIN and SCRAM, with the frames of Kafka's schemas; the client is
kafka-python's. What is told, when, and which of the two connections is closed.
"""

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.net.sasl.scram import ScramClient
from muster_coordinator.api.limits import SASL_FAILURE_MS_MAX
from muster_coordinator.errors import Code
from muster_coordinator.security.outcome import Accepted, Challenge, Outcome
from muster_coordinator.security.plain import PlainServer
from muster_coordinator.security.scram import ScramMechanism, ScramServer, credential_of, salted_password
from muster_coordinator.security.session import MECHANISMS, ListenerSasl
from muster_coordinator.upstream.limits import LOGIN_ANSWER_BYTES_MAX
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import code
from tests.api.test_sasl import Door
from tests.runtime.test_upstream_passage import Brokers, Ours, Transport, UpstreamPassage, _Half, answer, fetch
from tests.upstream.test_brokers import framed
from tests.upstream.test_looks import read_request
from tests.wire.test_connection import raw

SCRAM = "SCRAM-SHA-512"
SALT = b"salt" * 4
KNOWN = credential_of(ScramMechanism.SHA_512, salted_password(ScramMechanism.SHA_512, "canary", SALT, 4096), SALT, 4096)
OFFERED = ListenerSasl(mechanisms=MECHANISMS, reauth_ms={}, elsewhere=True)


class Broker:
    """Answers what is written to it, one frame at a time."""

    def __init__(self) -> None:
        self.transport = Transport()
        self.seen = 0
        self.mechanism = ""
        self.server: PlainServer | ScramServer | None = None
        self.codes: list[int] = []
        """Of the next answers; none: what the servers say."""
        self.lifetime_ms = 0

    def answer(self) -> bytes:
        """To the next frame that it was sent."""
        frame = b"".join(self.transport.writes)[self.seen :]
        size = struct.unpack_from(">i", frame)[0] + 4
        self.seen += size
        api = struct.unpack_from(">h", frame, 4)[0]
        if api == Api.SASL_HANDSHAKE:
            return self._handshake(frame[:size])
        assert api == Api.SASL_AUTHENTICATE
        assert self.server is not None
        request: Any = read_request(Api.SASL_AUTHENTICATE, 1, frame[:size])
        return self._authenticate(self.server.step(request.auth_bytes))

    def _handshake(self, frame: bytes) -> bytes:
        request: Any = read_request(Api.SASL_HANDSHAKE, 1, frame)
        self.mechanism = request.mechanism
        self.server = (
            PlainServer({"alice": "canary"})
            if self.mechanism == "PLAIN"
            else ScramServer(ScramMechanism.SHA_512, lambda user: KNOWN if user == "alice" else None, "n", bytes(32))
        )
        values = {"error_code": self.codes.pop() if self.codes else 0, "mechanisms": (SCRAM,)}
        return framed(Api.SASL_HANDSHAKE, 1, values, 0)

    def _authenticate(self, outcome: Outcome) -> bytes:
        said = outcome.message if isinstance(outcome, Challenge | Accepted) else b""
        refused = 0 if isinstance(outcome, Challenge | Accepted) else int(Code.SASL_AUTHENTICATION_FAILED)
        values = {
            "error_code": self.codes.pop() if self.codes else refused, "error_message": "not here", "auth_bytes": said,
            "session_lifetime_ms": self.lifetime_ms,
        }  # fmt: skip
        return framed(Api.SASL_AUTHENTICATE, 1, values, 0)


class Way(Door):
    """From a client to a broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: int | None = 1) -> None:
        super().__init__(OFFERED, users=())
        self.loop = loop
        self.brokers = Brokers()
        self.brokers.passes_logins = True
        self.passage = UpstreamPassage(loop, self.brokers, node, Ours(), self.client.connection)
        self.client.connection.passage = self.passage
        self.broker = Broker()
        self.half = _Half(self.passage)

    def connect(self) -> None:
        self.half.connection_made(self.broker.transport)  # type: ignore[arg-type]
        if not self.brokers.made.done():
            self.brokers.made.set_result(None)

    def turns(self) -> None:
        for _ in range(5):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def say(self, message: bytes, *, begins: bool) -> Any:
        """The answer to this message of the client."""
        self.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=message)
        for _ in range(2 if begins else 1):
            self.half.data_received(self.broker.answer())
        answers = self.client.receive()
        if not answers:
            self.surface.loop.run(SASL_FAILURE_MS_MAX)
            answers = self.client.receive()
        return answers[0] if answers else None

    def plain(self, user: str = "alice", password: str = "canary") -> Any:
        assert code(self.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code) == 0
        return self.say(f"\0{user}\0{password}".encode(), begins=True)

    def scram(self, user: str = "alice", password: str = "canary", version: int = 2) -> Any:
        assert code(self.ask(Api.SASL_HANDSHAKE, 1, mechanism=SCRAM).error_code) == 0
        client = ScramClient(user, password, SCRAM)
        challenge = self.say(_bytes(client.first_message()), begins=True)
        assert code(challenge.error_code) == 0
        client.process_server_first_message(challenge.auth_bytes)
        last = self.say(_bytes(client.final_message()), begins=False)
        if last is not None and code(last.error_code) == 0:
            client.process_server_final_message(last.auth_bytes)
        return last


def _bytes(message: str | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.encode()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    try:
        yield made
    finally:
        asyncio.set_event_loop(None)
        made.close()


@pytest.fixture
def way(loop: asyncio.AbstractEventLoop) -> Iterator[Way]:
    made = Way(loop)
    yield made
    made.client.connection.close()
    made.turns()


@pytest.fixture
def anywhere(loop: asyncio.AbstractEventLoop) -> Iterator[Way]:
    """At an address that stands for no broker."""
    made = Way(loop, None)
    yield made
    made.client.connection.close()
    made.turns()


def test_a_client_logs_in_there_and_is_that_user_here(way: Way) -> None:
    way.connect()
    last = way.scram()
    assert code(last.error_code) == 0
    assert (way.state, way.client.connection.principal) == (State.READY, "User:alice")
    way.client.connection.receive(fetch(7))
    assert b"".join(way.broker.transport.writes)[way.broker.seen :] == fetch(7), "on the connection of its own login"
    assert way.dispatcher.sasl.counts == {("PLAINTEXT", SCRAM, "successful"): 1}
    assert way.brokers.dialled == []


def test_the_first_message_is_what_connects(way: Way) -> None:
    way.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    way.turns()
    assert way.brokers.dialled == [], "a handshake alone costs the upstream nothing"
    way.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0canary")
    way.turns()
    assert way.brokers.dialled == [1]
    way.connect()
    way.half.data_received(way.broker.answer())
    way.half.data_received(way.broker.answer())
    assert code(way.client.receive()[0].error_code) == 0
    assert way.state is State.READY


@pytest.mark.parametrize("who", [("alice", "wrong"), ("nobody", "canary")])
@pytest.mark.parametrize("by", ["plain", "scram"])
def test_a_refusal_is_told_in_that_brokers_words_before_the_connection_is_closed(
    way: Way, who: tuple[str, str], by: str
) -> None:
    way.connect()
    last = getattr(way, by)(*who)
    way.half.connection_lost(None)
    assert (code(last.error_code), last.error_message) == (Code.SASL_AUTHENTICATION_FAILED, "not here")
    assert way.client.closed
    assert way.broker.transport.aborted
    assert [told["user"] for told in way.told] == [who[0]]
    assert way.surface.topic_questions == 0, "nothing here is behind: this replica knows no users"


def test_a_brokers_close_and_more_bytes_after_a_refusal_are_not_the_clients_answer(way: Way) -> None:
    way.connect()
    way.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    way.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0wrong")
    way.half.data_received(way.broker.answer())
    way.half.data_received(way.broker.answer() + b"more")
    way.half.connection_lost(None)
    assert way.state is State.UNAUTHENTICATED
    way.surface.loop.run(SASL_FAILURE_MS_MAX)
    assert code(way.client.receive()[0].error_code) == Code.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize("said", [7, 34, -1])
def test_neither_yes_nor_no_closes_the_connection_and_refuses_nobody(way: Way, answers: int, said: int) -> None:
    way.connect()
    way.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    way.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0canary")
    for _ in range(answers - 1):
        way.half.data_received(way.broker.answer())
    way.broker.codes.append(said)
    way.half.data_received(way.broker.answer())
    assert way.state is State.FAILED
    assert way.client.receive() == []
    assert way.told == []


@pytest.mark.parametrize("node", [1, None])
def test_nobody_is_refused_while_the_upstream_is_away(loop: asyncio.AbstractEventLoop, node: int | None) -> None:
    way = Way(loop, node)
    way.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    way.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0canary")
    way.turns()
    way.brokers.made.set_exception(ConnectionRefusedError("refused"))
    way.turns()
    assert way.state is State.FAILED
    assert "cannot be reached" in way.client.connection.failure
    assert (way.client.receive(), way.told) == ([], [])
    way.client.connection.close()
    way.turns()


def test_a_mechanism_that_the_broker_does_not_take_is_told(way: Way) -> None:
    way.connect()
    way.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    way.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0canary")
    way.broker.codes.append(33)
    way.half.data_received(way.broker.answer())
    way.surface.loop.run(SASL_FAILURE_MS_MAX)
    (told,) = way.client.receive()
    assert code(told.error_code) == Code.SASL_AUTHENTICATION_FAILED
    assert told.error_message == f"The upstream does not take PLAIN, but {SCRAM}"
    assert b"canary" not in b"".join(way.broker.transport.writes), "no password to who does not ask for it"


def test_an_answer_to_a_login_has_a_limit(way: Way) -> None:
    way.connect()
    way.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    way.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0canary")
    way.half.data_received(struct.pack(">ii", LOGIN_ANSWER_BYTES_MAX + 1, 0))
    assert way.state is State.FAILED


def test_a_session_ends_when_that_broker_says_so_and_goes_on_by_another_login(way: Way) -> None:
    way.connect()
    way.broker.lifetime_ms = 60_000
    last = way.plain()
    assert last.session_lifetime.total_seconds() == 60
    way.surface.loop.run(50_000)
    assert code(way.plain().error_code) == 0
    way.surface.loop.run(50_000)
    assert way.state is State.READY
    way.surface.loop.run(20_000)
    way.client.send(Api.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m")
    assert way.client.closed


def test_nobody_becomes_another_user(way: Way) -> None:
    way.connect()
    way.plain()
    way.surface.loop.run(2_000)
    way.broker.codes = [0, 0]
    last = way.plain("bob", "canary")
    assert code(last.error_code) == Code.SASL_AUTHENTICATION_FAILED
    assert way.client.closed


def test_requests_before_it_go_nowhere(way: Way) -> None:
    way.client.connection.receive(fetch(1))
    assert way.state is State.FAILED
    assert way.brokers.dialled == []


def test_a_message_before_the_answer_to_the_one_before_ends_it(way: Way) -> None:
    way.connect()
    way.plain()
    way.surface.loop.run(2_000)
    way.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    way.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0canary")
    way.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0canary")
    way.half.data_received(way.broker.answer())
    way.half.data_received(way.broker.answer())
    way.surface.loop.run(SASL_FAILURE_MS_MAX)
    assert way.client.receive() == []
    assert way.client.closed


def test_a_member_outlives_its_connection_there_until_it_needs_the_broker(anywhere: Way) -> None:
    anywhere.connect()
    anywhere.plain()
    anywhere.half.connection_lost(None)
    assert anywhere.state is State.READY, "its group is here"
    anywhere.client.send(Api.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m")
    assert len(anywhere.client.receive()) == 1
    anywhere.client.connection.receive(fetch(9))
    assert anywhere.state is State.FAILED, "nothing of it goes on as anybody"
    assert anywhere.brokers.dialled == []


def test_at_an_address_of_a_broker_its_end_is_the_clients(way: Way) -> None:
    way.connect()
    way.plain()
    way.half.connection_lost(None)
    assert way.state is State.FAILED


def test_who_logs_in_again_has_a_connection_there_again(anywhere: Way) -> None:
    anywhere.connect()
    anywhere.plain()
    anywhere.half.connection_lost(None)
    anywhere.surface.loop.run(2_000)
    anywhere.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    anywhere.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0canary")
    anywhere.turns()
    anywhere.broker, anywhere.half = Broker(), _Half(anywhere.passage)
    anywhere.connect()
    anywhere.half.data_received(anywhere.broker.answer())
    anywhere.half.data_received(anywhere.broker.answer())
    assert code(anywhere.client.receive()[0].error_code) == 0
    anywhere.client.connection.receive(fetch(9))
    anywhere.half.data_received(answer(9))
    assert anywhere.client.connection.take() == [answer(9)]


def test_a_client_that_goes_in_the_middle(way: Way) -> None:
    way.connect()
    way.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    way.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0canary")
    way.client.connection.close()
    assert way.broker.transport.aborted
    way.half.data_received(framed(Api.SASL_HANDSHAKE, 1, {"error_code": 0, "mechanisms": ("PLAIN",)}, 0))
    way.half.connection_lost(None)
    assert way.state is State.CLOSED


@pytest.mark.parametrize("passes", [True, False])
def test_users_are_administered_where_they_are_judged(way: Way, passes: bool) -> None:
    way.connect()
    way.plain()
    way.brokers.passes_logins = passes
    sent = len(way.broker.transport.writes)
    way.client.connection.receive(raw(Api.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, b"\0\1\0", 5))
    assert len(way.broker.transport.writes) - sent == passes
