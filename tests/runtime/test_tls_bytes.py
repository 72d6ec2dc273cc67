"""TLS without sockets: damaged handshakes and records end their connection and nothing else; handshakes take turns."""

import asyncio
import random
import ssl
import time
from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.tls_connection import Handshakes, TlsConnection
from muster_coordinator.runtime.tls_store import TlsStore
from muster_coordinator.security.tls_config import ClientAuth

from tests.certificates import Authority, tls_config
from tests.runtime.test_tls_files import FileLoop
from tests.sim.loop import World

ROOT = Authority()
PAIR = ROOT.issue()


class Raw:
    """A socket's transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False
        self.paused = False

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_write_buffer_size(self) -> int:
        return 0


class Turns:
    """The loop: calls that wait for their turn, and timers that never come."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def call_later(self, seconds: float, call: Callable[..., None], *arguments: object) -> Any:
        return self

    def cancel(self) -> None:
        pass

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Above(asyncio.Protocol):
    def __init__(self) -> None:
        self.made = self.lost = 0
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made += 1

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost += 1


class Pair:
    """A server's connection and a client, flight by flight; `change` may damage what the client sends."""

    def __init__(self, context: ssl.SSLContext, client: ssl.SSLContext, change: Callable[[bytes], bytes]) -> None:
        self.loop, self.raw, self.above = Turns(), Raw(), Above()
        self.failures: list[str] = []
        self.change = change
        self.handshakes = Handshakes(self.loop)  # type: ignore[arg-type]
        self.server = TlsConnection(
            self.raw,  # type: ignore[arg-type]
            context,
            self.handshakes,
            ready=lambda _: self.above,
            failed=self.failures.append,
        )
        self.into, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self.into, self.out, server_hostname="localhost")
        self.server.begin()

    def flight(self) -> None:
        """What the client has to say, and the server's answer."""
        data = self.change(self.out.read())
        if data:
            self.server.data_received(data)
        while self.loop.calls:
            self.loop.turn()
        self.into.write(self.raw.written)
        self.raw.written = b""

    def run(self, plain: bytes) -> None:
        for _ in range(4):
            try:
                self.client.do_handshake()
                self.client.write(plain)
                self.flight()
                break
            except ssl.SSLWantReadError:
                self.flight()
            except ssl.SSLError:
                self.flight()
                break
        self.server.connection_lost(None)


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    config = tls_config(keystore_chain=PAIR.pem, keystore_key=PAIR.key_pem(), truststore_certificates=ROOT.pem)
    store = TlsStore(
        FileLoop(World()), config, name="SSL", hosts=("localhost",), tell=lambda _: None,
        client_auth=ClientAuth.REQUESTED, both_ways=True,
    )  # fmt: skip
    store.load()
    assert store.client is not None
    return store.server, store.client


def test_a_whole_handshake_and_its_data_arrive(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    for size in (1, limits.TLS_RECORD_BYTES, 10 * limits.TLS_RECORD_BYTES + 1):
        pair = Pair(*contexts, lambda data: data)
        pair.run(b"x" * size)
        assert pair.above.data == b"x" * size
        assert (pair.above.made, pair.above.lost, pair.failures) == (1, 1, [])
        assert len(pair.handshakes) == 0


def test_damaged_bytes_end_their_connection_and_nothing_else(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    drawn = random.Random(18)
    ends: dict[str, int] = {}
    for number in range(600):
        place = drawn.randrange(4)
        seen = iter(range(10))

        def damage(data: bytes, place: int = place, seen: Any = seen) -> bytes:
            if next(seen) != place or not data:
                return data
            changed = bytearray(data)
            kind = drawn.randrange(4)
            at = drawn.randrange(len(changed))
            if kind == 0:
                changed[at] ^= 1 << drawn.randrange(8)
            elif kind == 1:
                del changed[at:]
            elif kind == 2:
                changed[at:at] = drawn.randbytes(drawn.randrange(1, 40_000))
            else:
                changed += drawn.randbytes(drawn.randrange(1, 300))
            return bytes(changed)

        pair = Pair(*contexts, damage)
        pair.run(b"plain %d" % number)
        assert len(pair.handshakes) == 0
        assert pair.above.made == pair.above.lost, "whoever was told of it is told of its end"
        assert len(pair.failures) == 1 - pair.above.made, "and of the others one reason"
        assert b"plain %d" % number == pair.above.data or not pair.above.data
        ends[pair.failures[0] if pair.failures else "made"] = ends.get((pair.failures or ["made"])[0], 0) + 1
    assert ends["made"] > 100
    assert len(ends) > 5, ends


def test_handshakes_stop_when_a_turn_has_had_its_milliseconds() -> None:
    loop = Turns()
    handshakes = Handshakes(loop)  # type: ignore[arg-type]
    turn = [0]
    done: list[int] = []

    class Slow:
        def shake(self) -> None:
            ends_ns = time.monotonic_ns() + 1_100_000
            while time.monotonic_ns() < ends_ns:
                pass
            done.append(turn[0])

    for _ in range(10):
        handshakes.step(Slow())  # type: ignore[arg-type]
    while loop.calls:
        turn[0] += 1
        loop.turn()
    assert len(done) == 10
    assert max(done.count(one) for one in set(done)) <= limits.TLS_HANDSHAKES_TURN_MS
