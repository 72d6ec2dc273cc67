"""Handshakes with mistakes of all kinds, to a listener that asks who a client is: `Strangers(seed).run(frames)`.

The product's connection, session, mechanisms and handlers, on virtual time.
"""

import struct
from collections.abc import Callable
from random import Random
from typing import Any

from kafka.net.sasl.scram import ScramClient
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.security.oauth import TokenJudge
from muster_coordinator.security.session import ListenerSasl, SaslSession
from muster_coordinator.wire import limits
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.test_sasl import PASSWORD, Issuer, sets
from tests.made_settings import api_settings
from tests.security.test_oauth import KEYS, NOW, RULES, message, token
from tests.wire.kio_entities import encode_request

OFFERED = ListenerSasl(
    mechanisms=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    reauth_ms={},
    plain_users={"bob": "canary-bob"},
)
FIRST = ScramClient("alice", PASSWORD, "SCRAM-SHA-256").first_message()


def auth(version: int, message: bytes) -> bytes:
    return encode_request(Api.SASL_AUTHENTICATE, version, {"auth_bytes": message}, 1, "c")


SANE = [
    encode_request(Api.API_VERSIONS, 0, {}, 1, "c"),
    encode_request(Api.API_VERSIONS, 4, {"client_software_name": "a", "client_software_version": "1"}, 1, "c"),
    *(
        encode_request(Api.SASL_HANDSHAKE, version, {"mechanism": name}, 1, "c")
        for version in (0, 1)
        for name in (*OFFERED.mechanisms, "GSSAPI")
    ),
    *(auth(version, FIRST) for version in (0, 1, 2)),
    auth(2, b"c=biws,r=abc,p=AAAA"),
    auth(1, b"\0bob\0wrong"),
    auth(2, message(token(aud="others"))),
    auth(1, message(token(exp=NOW - 600))),
    auth(2, b"\x01"),
    struct.pack(">i", len(FIRST)) + FIRST,
    encode_request(Api.HEARTBEAT, 3, {"group_id": "g"}, 1, "c"),
    encode_request(Api.METADATA, 9, {"topics": None}, 1, "c"),
]


def flipped(rand: Random, frame: bytes) -> bytes:
    out = bytearray(frame)
    for _ in range(rand.randrange(1, 4)):
        out[rand.randrange(len(out))] ^= 1 << rand.randrange(8)
    return bytes(out)


def resized(rand: Random, frame: bytes) -> bytes:
    size = rand.choice((-1, 0, 7, len(frame), 65_536, 65_537, 2**31 - 1, -(2**31)))
    return struct.pack(">i", size) + frame[4:]


def cut(rand: Random, frame: bytes) -> bytes:
    body = frame[4 : rand.randrange(4, len(frame) + 1)]
    return struct.pack(">i", len(body)) + body


def stuffed(rand: Random, frame: bytes) -> bytes:
    place = rand.randrange(4, len(frame) + 1)
    more = rand.choice((b"\xff" * 5, b"\0" * 40, b"n,,n=", rand.randbytes(rand.randrange(60_000))))
    body = frame[4:place] + more + frame[place:]
    return struct.pack(">i", len(body)) + body


def same(_rand: Random, frame: bytes) -> bytes:
    return frame


MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (flipped, flipped, flipped, resized, cut, cut, stuffed, same)
PIPELINED = 0.6
"""How often one more frame comes with those before it, in one read."""
STEP_MS, ANSWERED_MS_MAX = 100, 10_000
WEIGHTS = (4, 4, 4, 2, 3, 3, 1, 6)


class Strangers:
    """Connections, one after the other, and what became of them."""

    def __init__(self, seed: int | str) -> None:
        self.rand, self.surface = Random(seed), FakeSurface()
        self.surface.apply(sets())
        self.surface.loop.wall_ms = lambda: NOW * 1_000  # type: ignore[method-assign]
        self.dispatcher = Dispatcher(self.surface, api_settings())
        self.dispatcher.sasl._tokens = TokenJudge(RULES, Issuer(KEYS, KEYS))
        self.states: set[State] = set()
        self.sent = self.connections = 0

    def run(self, frames: int) -> None:
        """Nobody gets in, nothing escapes, and no connection holds more than its frames may be."""
        until = self.sent + frames
        while self.sent < until:
            self._one()
        self.surface.loop.run(500)
        assert self.surface.loop.pending == 0

    def _one(self) -> None:
        rand = self.rand
        self.connections += 1
        session = SaslSession(OFFERED)
        connection = Connection(
            listener="PLAINTEXT", connection_id=self.connections, client_host="/10.0.0.1", clock=self.surface.loop,
            handle=self.dispatcher.handle, wake=lambda: None, authenticated=False, sasl=session, notice=_noticed,
        )  # fmt: skip
        for _ in range(12):
            if not self._is_read(connection):
                break
            read = self._frame()
            while rand.random() < PIPELINED and len(read) < limits.UNAUTHENTICATED_FRAME_BYTES_MAX:
                read += self._frame()
            try:
                connection.receive(read)
            except Exception as error:
                raise AssertionError(f"frame {self.sent}: {read[:400].hex()}") from error
            assert connection.buffered_bytes <= 2 * limits.UNAUTHENTICATED_FRAME_BYTES_MAX
            connection.take()
            connection.note_unsent(0)
            connection.resume()
            if rand.random() < 0.2:
                self.surface.loop.run(500)
        assert session.user is None
        assert connection.principal == "User:ANONYMOUS"
        self.states.add(connection.state)
        connection.close()

    def _frame(self) -> bytes:
        self.sent += 1
        mutate = self.rand.choices(MUTATIONS, WEIGHTS)[0]
        return mutate(self.rand, self.rand.choice(SANE))

    def _is_read(self, connection: Connection) -> bool:
        """As its driver reads from the socket: nothing more until the connection wants it. False: it has failed."""
        left_ms = ANSWERED_MS_MAX
        while not connection.wants_bytes and connection.state is not State.FAILED:
            assert left_ms > 0, "a connection that answers no more"
            left_ms -= STEP_MS
            self.surface.loop.run(STEP_MS)
            connection.take()
            connection.note_unsent(0)
            connection.resume()
        return connection.state is not State.FAILED


def _noticed(*what: Any) -> None:
    raise AssertionError(f"a contained error: {what}")
