"""A connection that has to show who it is: what is answered, when, and what is closed (KIP-43, 152, 368)."""

import base64
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from kafka.net.sasl.scram import ScramClient
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.limits import SASL_FAILURE_MS_MAX, SASL_FAILURE_MS_MIN
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import DeleteScramCredential, NewScramCredential, SetScramCredential
from muster_coordinator.errors import Code
from muster_coordinator.events import AUTHENTICATION_FAILED, Event
from muster_coordinator.security.oauth import INVALID_TOKEN, Keys, TokenJudge
from muster_coordinator.security.scram import ScramMechanism, credential_of, salted_password
from muster_coordinator.security.session import ListenerSasl, SaslSession
from muster_coordinator.wire import limits
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings
from tests.security.test_oauth import KEYS, NOW, RULES, message, token
from tests.wire.kio_entities import encode_request

PASSWORD = "canary-pencil"
SCRAM = "SCRAM-SHA-256"
OFFERED = ListenerSasl(
    mechanisms=("PLAIN", SCRAM, "SCRAM-SHA-512"), reauth_ms={SCRAM: 60_000}, plain_users={"bob": "canary-bob"}
)
INVALID = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {SCRAM}"


def sets(user: str = "alice", password: str = PASSWORD) -> SetScramCredential:
    made = credential_of(
        ScramMechanism.SHA_256, salted_password(ScramMechanism.SHA_256, password, b"s", 4096), b"s", 4096
    )
    new = NewScramCredential(
        user=user, mechanism=1, iterations=4096, salt=b"s", stored_key=made.stored_key, server_key=made.server_key
    )
    return SetScramCredential(credential=new, secret=b"x" * 32)


class Door:
    """A listener that asks, and one connection to it."""

    def __init__(self, offered: ListenerSasl = OFFERED, *, users: tuple[str, ...] = ("alice",), seed: int = 7) -> None:
        self.surface = FakeSurface()
        self.surface.rand = Random(seed)
        for user in users:
            self.surface.apply(sets(user))
        self.events: list[Event] = []
        self.contexts: list[RequestContext] = []

        def authorize(context: RequestContext, *_: Any) -> bool:
            self.contexts.append(context)
            return True

        self.dispatcher = Dispatcher(self.surface, api_settings(), authorize, tell=self.events.append)
        self.session = SaslSession(offered)
        self.client = KafkaClient(self.surface, dispatcher=self.dispatcher, sasl=self.session, listener="PLAINTEXT")

    def ask(self, api: int, version: int, **values: Any) -> Any:
        """The answer, at once or after the time that a refusal takes."""
        self.client.send(api, version, **values)
        answers = self.client.receive()
        if not answers:
            self.surface.loop.run(100)
            assert not self.client.closed
            self.surface.loop.run(400)
            answers = self.client.receive()
        return answers[0] if answers else None

    def scram(self, user: str = "alice", password: str = PASSWORD, version: int = 2) -> Any:
        """The answer to the last message."""
        handshake = self.ask(Api.SASL_HANDSHAKE, 1, mechanism=SCRAM)
        assert code(handshake.error_code) == 0, handshake
        client = ScramClient(user, password, SCRAM)
        challenge = self.ask(Api.SASL_AUTHENTICATE, version, auth_bytes=client.first_message())
        assert code(challenge.error_code) == 0
        client.process_server_first_message(challenge.auth_bytes)
        last = self.ask(Api.SASL_AUTHENTICATE, version, auth_bytes=client.final_message())
        if last is not None and code(last.error_code) == 0:
            client.process_server_final_message(last.auth_bytes)
        return last

    @property
    def told(self) -> list[dict[str, object]]:
        assert "canary" not in repr(self.events)
        return [dict(event.fields) for event in self.events if event.kind is AUTHENTICATION_FAILED]

    @property
    def state(self) -> State:
        return self.client.connection.state


def test_who_shows_its_password_is_that_user_from_then_on() -> None:
    door = Door()
    assert code(door.ask(Api.API_VERSIONS, 4, client_software_name="t", client_software_version="1").error_code) == 0
    last = door.scram()
    assert (code(last.error_code), last.session_lifetime.total_seconds()) == (0, 60.0)
    assert door.state is State.READY
    door.ask(Api.METADATA, 9, topics=None)
    assert {context.principal for context in door.contexts} == {"User:alice"}
    assert door.dispatcher.sasl.counts == {("PLAINTEXT", SCRAM, "successful"): 1}
    assert door.told == []


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD), ("bob", "canary-bob")])
def test_a_wrong_password_and_an_unknown_user_are_told_apart_by_nothing(user: str, password: str, version: int) -> None:
    door = Door()
    last = door.scram(user, password, version)
    assert (code(last.error_code), last.error_message) == (Code.SASL_AUTHENTICATION_FAILED, INVALID)
    assert door.client.closed
    assert door.surface.topic_questions == 1, "it was made sure that this replica is not behind, for both"
    assert [(one["user"], one["why"], one["mechanism"]) for one in door.told] == [
        (user, "no such user, or a wrong password", SCRAM)
    ]
    assert door.dispatcher.sasl.counts == {("PLAINTEXT", SCRAM, "failed"): 1}


def refused_after(door: Door, handshake: str, *messages: bytes) -> int:
    """The time in ms until the last of these messages, which is refused, is answered; the loop goes on meanwhile."""
    assert code(door.ask(Api.SASL_HANDSHAKE, 1, mechanism=handshake).error_code) == 0
    for data in messages[:-1]:
        assert code(door.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=data).error_code) == 0
    began_ms = door.surface.loop.monotonic_ms()
    door.client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=messages[-1])
    while not (answers := door.client.receive()):
        assert not door.client.closed, "it is answered first"
        door.surface.loop.run(1)
        assert door.surface.loop.monotonic_ms() - began_ms <= SASL_FAILURE_MS_MAX
    assert code(answers[0].error_code) == Code.SASL_AUTHENTICATION_FAILED
    assert door.client.closed
    return int(door.surface.loop.monotonic_ms() - began_ms)


@pytest.mark.parametrize(
    ("mechanism", "messages"), [("PLAIN", (b"\0carol\0wrong",)), (SCRAM, (b"no message of the RFC",))]
)
def test_who_is_refused_hears_of_it_late_and_not_always_equally_late(
    mechanism: str, messages: tuple[bytes, ...]
) -> None:
    """100 to 500 ms, so that guessing is slow, and by chance, so that the time tells nothing."""
    took = [refused_after(Door(seed=seed), mechanism, *messages) for seed in range(20)]
    assert min(took) >= SASL_FAILURE_MS_MIN
    assert len(set(took)) > 10


def test_who_does_not_exist_is_challenged_as_the_users_of_this_cluster_are() -> None:
    """Made by any tool; and by the users of now."""
    shapes = []
    door = Door(users=())
    for iterations, salt in ((8_192, b"ten bytes."), (16_384, b"s" * 20)):
        keys = {"stored_key": b"k" * 32, "server_key": b"k" * 32}
        new = NewScramCredential(user="alice", mechanism=1, iterations=iterations, salt=salt, **keys)
        door.surface.apply(SetScramCredential(credential=new, secret=b"x" * 32))
        for user in ("alice", "nobody"):
            client = KafkaClient(
                door.surface, dispatcher=door.dispatcher, sasl=SaslSession(OFFERED), listener="PLAINTEXT"
            )
            client.send(Api.SASL_HANDSHAKE, 1, mechanism=SCRAM)
            client.send(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"n,,n=%b,r=abc" % user.encode())
            _, salted, rounds = bytes(client.receive()[-1].auth_bytes).split(b",")
            shapes.append((len(base64.b64decode(salted[2:])), int(rounds[2:])))
    assert shapes == [(10, 8_192)] * 2 + [(20, 16_384)] * 2


def test_a_user_that_this_replica_does_not_know_yet_is_not_refused_but_comes_again() -> None:
    """Clients give up for good when they are refused."""
    door = Door(users=())

    def arrives() -> bool:
        door.surface.apply(sets())
        return True

    door.surface.on_image_question = arrives
    assert door.scram() is None
    assert door.client.closed
    assert door.told == []


def test_without_proof_that_it_is_not_behind_a_replica_refuses_nobody() -> None:
    door = Door(users=())
    door.surface.on_image_question = lambda: False
    assert door.scram() is None
    assert door.client.closed
    assert door.dispatcher.sasl.counts == {}


def test_a_password_that_arrives_between_two_messages_is_not_held_against_its_user() -> None:
    door = Door(users=())
    door.ask(Api.SASL_HANDSHAKE, 1, mechanism=SCRAM)
    client = ScramClient("alice", PASSWORD, SCRAM)
    challenge = door.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=client.first_message())
    door.surface.apply(sets())
    client.process_server_first_message(challenge.auth_bytes)
    assert door.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=client.final_message()) is None
    assert door.client.closed
    assert door.told == []


def test_plain_by_the_listeners_own_users() -> None:
    door = Door()
    door.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    last = door.ask(Api.SASL_AUTHENTICATE, 1, auth_bytes=b"\0bob\0canary-bob")
    assert (code(last.error_code), last.session_lifetime.total_seconds()) == (0, 0)
    door.ask(Api.METADATA, 9, topics=None)
    assert door.contexts[0].principal == "User:bob"
    other = Door()
    other.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    last = other.ask(Api.SASL_AUTHENTICATE, 1, auth_bytes=b"\0alice\0canary-pencil")
    assert (code(last.error_code), last.error_message) == (58, "Authentication failed: Invalid username or password")
    assert other.surface.topic_questions == 0


def test_old_clients_send_bare_messages_after_version_0_of_the_handshake() -> None:
    door = Door()
    door.ask(Api.SASL_HANDSHAKE, 0, mechanism=SCRAM)
    connection, client = door.client.connection, ScramClient("alice", PASSWORD, SCRAM)

    def bare(message: bytes) -> bytes:
        frame = struct.pack(">i", len(message)) + message
        connection.receive(frame[:5])
        connection.receive(frame[5:])
        answer = b"".join(connection.take())
        assert struct.unpack_from(">i", answer)[0] == len(answer) - 4
        return answer[4:]

    client.process_server_first_message(bare(client.first_message()))
    client.process_server_final_message(bare(client.final_message()))
    door.ask(Api.METADATA, 9, topics=None)
    assert door.contexts[0].principal == "User:alice"


def test_a_bare_message_that_is_wrong_gets_no_answer() -> None:
    door = Door()
    door.ask(Api.SASL_HANDSHAKE, 0, mechanism="PLAIN")
    door.client.connection.receive(struct.pack(">i", 6) + b"\0bob\0x")
    door.surface.loop.run(500)
    assert door.client.connection.take() == []
    assert door.client.closed
    for size in (-1, limits.UNAUTHENTICATED_FRAME_BYTES_MAX + 1):
        other = Door()
        other.ask(Api.SASL_HANDSHAKE, 0, mechanism="PLAIN")
        other.client.connection.receive(struct.pack(">i", size))
        assert other.client.closed or size == -1
        other.client.connection.receive(b"xx")
        assert other.client.closed


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "scram-sha-256", "x" * 1_000])
def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(mechanism: str) -> None:
    door = Door()
    answer = door.ask(Api.SASL_HANDSHAKE, 1, mechanism=mechanism)
    assert (code(answer.error_code), answer.mechanisms) == (33, OFFERED.mechanisms)
    assert door.client.closed
    assert door.told[0]["mechanism"] == "", "the client's own text is no label"


def test_a_message_before_the_handshake_is_answered_34_and_closed() -> None:
    door = Door()
    answer = door.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"x")
    assert code(answer.error_code) == Code.ILLEGAL_SASL_STATE
    assert door.client.closed


def test_what_comes_behind_a_refusal_is_not_read() -> None:
    door = Door()
    door.client.connection.receive(
        encode_request(Api.SASL_HANDSHAKE, 1, {"mechanism": "NO"}, 1, "c")
        + encode_request(Api.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, 2, "c")
        + encode_request(Api.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0canary-bob"}, 3, "c")
    )
    assert door.client.connection.take() == []
    door.surface.loop.run(500)
    assert door.client.closed
    assert door.session.user is None


def test_requests_that_come_with_the_last_message_are_the_users() -> None:
    """A client may send ahead; its first request is read once it is known who asks."""
    door = Door()
    frames = (
        encode_request(Api.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, 1, "c"),
        encode_request(Api.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0canary-bob"}, 2, "c"),
        encode_request(Api.METADATA, 9, {"topics": None}, 3, "c"),
    )
    connection = door.client.connection
    connection.receive(b"".join(frames))
    for _ in frames:
        connection.take()
        connection.resume()
    assert {context.principal for context in door.contexts} == {"User:bob"}


def test_a_client_has_so_many_requests_to_show_who_it_is() -> None:
    door = Door()
    for _ in range(limits.UNAUTHENTICATED_REQUESTS_MAX):
        door.ask(Api.API_VERSIONS, 0)
    assert not door.client.closed
    door.client.send(Api.API_VERSIONS, 0)
    assert door.client.closed


# Tokens (OAUTHBEARER).


class Issuer:
    """Has the keys, or will have them when they are fetched anew; None: they cannot be had."""

    def __init__(self, now: Keys, later: Keys | None) -> None:
        self.known, self.later = now, later
        self.fetches = 0

    def keys(self) -> Keys:
        return self.known

    def refresh(self, done: Callable[[bool], None]) -> None:
        self.fetches += 1
        self.known = self.known if self.later is None else self.later
        done(self.later is not None)


def with_tokens(issuer: Issuer) -> Door:
    door = Door(ListenerSasl(mechanisms=("OAUTHBEARER",), reauth_ms={}))
    door.dispatcher.sasl._tokens = TokenJudge(RULES, issuer)
    door.surface.loop.wall_ms = lambda: NOW * 1_000  # type: ignore[method-assign]
    assert code(door.ask(Api.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER").error_code) == 0
    return door


@pytest.mark.parametrize("before", [KEYS, {}])
def test_a_token_says_who_one_is_for_as_long_as_it_is_valid(before: Keys) -> None:
    """Also when its key had to be fetched first."""
    issuer = Issuer(before, KEYS)
    door = with_tokens(issuer)
    last = door.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=message(token()))
    assert (code(last.error_code), last.session_lifetime.total_seconds()) == (0, 600)
    assert issuer.fetches == (0 if before else 1)
    door.ask(Api.METADATA, 9, topics=None)
    assert door.contexts[0].principal == "User:alice"


def test_a_token_that_is_not_good_is_refused_in_two_steps() -> None:
    door = with_tokens(Issuer(KEYS, KEYS))
    first = door.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=message(token(aud="x")))
    assert (code(first.error_code), first.auth_bytes) == (0, INVALID_TOKEN)
    last = door.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\x01")
    assert (code(last.error_code), last.error_message) == (58, INVALID_TOKEN.decode())
    assert door.client.closed
    assert door.told[0]["why"] == "a token for another audience"


def test_a_key_that_nobody_has_is_refused_and_keys_that_cannot_be_had_refuse_nobody() -> None:
    door = with_tokens(Issuer({}, {}))
    last = door.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=message(token()))
    assert code(last.error_code) == 58
    unsure = with_tokens(Issuer({}, None))
    assert unsure.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=message(token())) is None
    assert unsure.client.closed
    assert unsure.told == []


# Again (KIP-368).


def test_when_the_session_has_ended_only_another_authentication_is_read() -> None:
    door = Door()
    door.scram()
    door.surface.loop.run(59_999)
    door.ask(Api.METADATA, 9, topics=None)
    door.surface.loop.run(1)
    last = door.scram()
    assert code(last.error_code) == 0
    assert door.dispatcher.sasl.counts["PLAINTEXT", SCRAM, "successful again"] == 1
    door.ask(Api.METADATA, 9, topics=None)
    door.surface.loop.run(60_000)
    door.client.send(Api.METADATA, 9, topics=None)
    assert door.client.closed
    assert "session has ended" in door.client.connection.failure


def test_a_repeated_heartbeat_ends_with_the_session_too() -> None:
    """The fast path answers without a look at the context: it must not outlive the session (ADR 12)."""
    door = Door()
    door.surface.on_heartbeat = lambda _: Code.NONE
    door.dispatcher.services.open = True
    door.scram()
    connection = door.client.connection
    beats = [encode_request(Api.HEARTBEAT, 4, {"group_id": "g", "member_id": "m"}, n, "c") for n in range(6)]
    connection.receive(beats[0])
    connection.take()
    connection.note_unsent(0)
    assert connection.answer_at_once(beats[1]) is not None
    door.surface.loop.run(60_000)
    assert connection.answer_at_once(beats[2]) is None
    connection.receive(beats[3])
    assert door.client.closed


def test_nobody_becomes_somebody_else() -> None:
    door = Door(users=("alice", "carol"))
    door.scram()
    door.surface.loop.run(2_000)
    last = door.scram("carol")
    assert code(last.error_code) == 58
    assert last.error_message == "Cannot change principals during re-authentication"
    assert door.client.closed


def test_another_mechanism_or_a_bare_one_is_refused_to_who_is_known() -> None:
    for version, mechanism, expected in ((1, "PLAIN", 33), (0, SCRAM, 34)):
        door = Door()
        door.scram()
        door.surface.loop.run(2_000)
        answer = door.ask(Api.SASL_HANDSHAKE, version, mechanism=mechanism)
        assert code(answer.error_code) == expected
        assert door.client.closed


def test_a_user_that_was_deleted_is_none_and_one_made_again_is_another() -> None:
    door = Door()
    door.scram()
    holds = door.dispatcher.sasl.holds
    assert holds(door.session)
    door.surface.apply(sets(password="new"))
    assert holds(door.session), "a new password ends no session, as in Kafka"
    door.surface.apply(DeleteScramCredential(user="alice", mechanism=1))
    assert not holds(door.session)


def test_a_listener_that_asks_nobody_says_so() -> None:
    client = KafkaClient(FakeSurface())
    assert code(client.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code) == 34
    assert code(client.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=b"\0a\0b").error_code) == 34
    assert not client.closed
