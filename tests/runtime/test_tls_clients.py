"""The client listener under TLS, over real sockets: handshakes in turns, limits, who a client is, memory at rest."""

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from muster_coordinator.context import RequestContext
from muster_coordinator.events import CONNECTION_FAILED, Event
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.client_arrival import ClientTls
from muster_coordinator.runtime.client_listener import ClientListener
from muster_coordinator.runtime.loop import AsyncLoop, new_event_loop
from muster_coordinator.runtime.tls_connection import Handshakes
from muster_coordinator.runtime.tls_store import TlsStore
from muster_coordinator.security.principal_mapping import principal_rules
from muster_coordinator.security.tls_config import ClientAuth, TlsConfig
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.versions import Api

from tests.certificates import DAY, Authority, tls_config
from tests.made_settings import client_limits
from tests.wire.kio_entities import encode_request

FRAME = encode_request(Api.API_VERSIONS, 0, {}, 1, "c")
ROOT = Authority()
SERVER = ROOT.issue()


class Served:
    """A listener with TLS on a loop of its own, and what it said and was asked."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.clock = AsyncLoop(loop, on_fatal=lambda error, where: pytest.fail(f"{where}: {error!r}"))
        self.events: list[Event] = []
        self.principals: list[str] = []
        self.listeners: list[ClientListener] = []
        self.answer = 0
        self.seconds_max = 0.0

    def handle(self, context: RequestContext, request: object, exchange: Exchange) -> None:
        self.principals.append(context.principal)
        exchange({"error_code": 0, "api_keys": [{"api_key": 3, "min_version": 0, "max_version": 1}] * self.answer})

    async def listen(
        self,
        config: TlsConfig | None = None,
        *,
        open_max: int = limits.TLS_HANDSHAKES_MAX,
        timeout_ms: int = limits.TLS_HANDSHAKE_MS,
        rules: str = "DEFAULT",
        rate: int = 10_000,
    ) -> int:
        config = config or tls_config(keystore_chain=SERVER.pem, keystore_key=SERVER.key_pem())
        self.store = TlsStore(self.clock, config, name="SSL", hosts=("localhost",), tell=self.events.append)
        self.store.load()
        self.handshakes = Handshakes(self.loop, open_max=open_max, timeout_ms=timeout_ms)
        tls = ClientTls(self.store, principal_rules(rules), self.handshakes)
        most = client_limits(connections_max=20_000, accepts_per_second_max=rate)
        self.listener = ClientListener(
            self.loop, self.clock, name="SSL", handle=self.handle, client_limits=most, tell=self.events.append, tls=tls
        )
        self.listeners.append(self.listener)
        return await self.listener.listen("127.0.0.1", 0)

    def failures(self) -> list[str]:
        assert all(event.kind is CONNECTION_FAILED for event in self.events)
        return [str(event.fields["why"]) for event in self.events]

    async def settled(self, check: Callable[[], bool]) -> None:
        ends = self.loop.time() + 10
        while not check():
            assert self.loop.time() < ends, (self.listener.stats, self.failures())
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.005)

    def run(self, body: Callable[["Served"], Awaitable[None]]) -> None:
        async def whole() -> None:
            await body(self)
            await asyncio.gather(*(listener.close(0) for listener in self.listeners))
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        self.loop.run_until_complete(asyncio.wait_for(whole(), 30))


@pytest.fixture(params=[new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    loop = request.param()
    made = Served(loop)
    try:
        yield made
    finally:
        made.clock.close()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        gc.collect()


def client_context(**pair: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ROOT.pem)
    if pair:
        context.load_cert_chain(pair["crt"], pair["key"])
    return context


async def ask(port: int, context: ssl.SSLContext, host: str = "localhost", frame: bytes = FRAME) -> bytes:
    """One request, one answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host)
    try:
        writer.write(frame)
        size = struct.unpack(">i", await reader.readexactly(4))[0]
        return await reader.readexactly(size)
    finally:
        writer.close()


def test_small_and_large_requests_and_answers_go_through(served: Served) -> None:
    async def body(it: Served) -> None:
        port = await it.listen()
        for answer in (0, 1, 10_000):  # 60,000 bytes: several records
            it.answer = answer
            assert len(await ask(port, client_context())) == 10 + 6 * answer
        # A request that is much larger than a record and a read: its frame is one of Produce, which may be.
        large = struct.pack(">ihhi", 1_000_000, Api.PRODUCE, 99, 0) + bytes(1_000_000 - 8)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ssl.SSLError)):
            await ask(port, client_context(), frame=large)
        await it.settled(lambda: it.listener.stats.failed == 1)
        assert it.failures() == ["API 0 version 99 is not served"]
        assert it.principals == ["User:ANONYMOUS"] * 3
        await it.settled(lambda: it.listener.stats.connections == 0)
        assert len(it.handshakes) == 0

    served.run(body)


def test_who_has_a_certificate_is_who_it_says(served: Served, tmp_path: Path) -> None:
    async def body(it: Served) -> None:
        strangers = Authority("Strangers").issue("alice").write(tmp_path / "s")
        alice = ROOT.issue("alice").write(tmp_path / "a")
        late = ROOT.issue("late", begins=-3 * DAY, ends=-2 * DAY).write(tmp_path / "l")
        good = client_context(crt=str(alice[0]), key=str(alice[1]))
        pair = {"keystore_chain": SERVER.pem, "keystore_key": SERVER.key_pem(), "truststore_certificates": ROOT.pem}
        port = await it.listen(tls_config(**pair, client_auth=ClientAuth.REQUESTED))
        await ask(port, good)
        await ask(port, client_context())
        assert it.principals == ["User:CN=alice", "User:ANONYMOUS"]
        rules = "RULE:^CN=(a.*)$/$1@example/U"
        port = await it.listen(tls_config(**pair, client_auth=ClientAuth.REQUIRED), rules=rules)
        await ask(port, good)
        assert it.principals[2:] == ["User:ALICE@EXAMPLE"]
        refused = (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)
        for context, why in (
            (client_context(), "TLS: peer did not return a certificate"),
            (client_context(crt=str(strangers[0]), key=str(strangers[1])), "the certificate is not trusted"),
            (
                client_context(crt=str(late[0]), key=str(late[1])),
                "the certificate is not trusted: certificate has expired",
            ),
        ):
            with pytest.raises(refused):
                await ask(port, context)
            await it.settled(lambda why=why: it.failures()[-1:] != [] and it.failures()[-1].startswith(why))
        bob = ROOT.issue("bob").write(tmp_path / "b")
        with pytest.raises(refused):
            await ask(port, client_context(crt=str(bob[0]), key=str(bob[1])))
        await it.settled(lambda: "no rule of ssl.principal.mapping.rules is about CN=bob" in it.failures())
        assert it.listener.stats.handshakes == 4
        assert len(it.principals) == 3
        await it.settled(lambda: it.listener.stats.connections == 0)

    served.run(body)


def test_a_client_that_verifies_refuses_another_name_and_another_ca(served: Served) -> None:
    async def body(it: Served) -> None:
        port = await it.listen()
        for context, host in ((client_context(), "other.example"), (ssl.create_default_context(), "localhost")):
            with pytest.raises(ssl.SSLCertVerificationError):
                await ask(port, context, host)
        await it.settled(lambda: it.listener.stats.connections == 0)
        assert it.principals == []

    served.run(body)


def test_what_is_no_tls_is_closed_counted_and_told(served: Served) -> None:
    async def body(it: Served) -> None:
        port = await it.listen(timeout_ms=300)
        garbage = (
            FRAME,
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\xff\xff" + bytes(300),
            b"\x16",
            b"\x16\x03\x01\0\x05hello",
            b"",
        )
        lines = []
        for data in garbage:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            lines.append((reader, writer))
        for reader, writer in lines:
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 5)
            writer.close()
        await it.settled(lambda: it.listener.stats.handshakes == len(garbage))
        await it.settled(lambda: it.listener.stats.connections == 0)
        said = it.failures()
        assert said.count("the other side does not speak TLS") == 2
        assert said.count("the TLS handshake took more than 300 ms") == 2
        assert it.principals == []
        # And the other way round.
        plain = ClientListener(
            it.loop, it.clock, name="P", handle=it.handle, client_limits=client_limits(), tell=it.events.append
        )
        it.listeners.append(plain)
        port = await plain.listen("127.0.0.1", 0)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await ask(port, client_context())
        await it.settled(lambda: plain.stats.failed == 1)
        assert it.failures()[-1] == "the client speaks TLS, this listener does not"

    served.run(body)


def test_a_thousand_slow_handshakes_do_not_hold_up_who_is_honest(served: Served) -> None:
    """They are evicted oldest first; the honest client's beats go on, and its turn comes in milliseconds."""

    async def body(it: Served) -> None:
        open_max = 100
        port = await it.listen(open_max=open_max, timeout_ms=30_000)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client_context(), server_hostname="localhost"
        )
        slow: list[socket.socket] = []
        beats = 0
        try:
            for number in range(1_000):
                line = socket.create_connection(("127.0.0.1", port), 10)
                line.setblocking(False)
                line.send(b"\x16\x03\x01")
                slow.append(line)
                if number % 50 == 0:
                    writer.write(FRAME)
                    await asyncio.wait_for(reader.readexactly(14), 5)
                    beats += 1
                    await ask(port, client_context())
            await it.settled(lambda: it.listener.stats.accepted == 1_001 + beats)
            assert beats == 20
            assert len(it.handshakes) <= open_max
            assert "too many handshakes are open, and this is the oldest" in it.failures()
        finally:
            writer.close()
            for line in slow:
                line.close()
        await it.settled(lambda: it.listener.stats.connections == 0)
        assert len(it.handshakes) == 0

    served.run(body)


def test_who_comes_too_fast_handshakes_at_the_permitted_rate(served: Served) -> None:
    async def body(it: Served) -> None:
        port = await it.listen(rate=50)
        began = it.loop.time()
        await asyncio.gather(*(ask(port, client_context()) for _ in range(15)))
        assert it.loop.time() - began >= 0.16
        assert it.listener.stats.accepted == 15

    served.run(body)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_connection_at_rest_holds_little(served: Served) -> None:
    """Both ends live in this process, so its growth is at least the server's."""

    async def body(it: Served) -> None:
        port = await it.listen()
        context = client_context()
        lines: list[ssl.SSLSocket] = []

        def dial() -> ssl.SSLSocket:
            plain = socket.create_connection(("127.0.0.1", port), 10)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = context.wrap_socket(plain, server_hostname="localhost")
            line.sendall(FRAME)
            line.recv(100)
            return line

        try:
            for _ in range(50):
                lines.append(await it.loop.run_in_executor(None, dial))
            gc.collect()
            before, many = resident(), 150
            for _ in range(many):
                lines.append(await it.loop.run_in_executor(None, dial))
            gc.collect()
            each = (resident() - before) // many
            assert each <= limits.TLS_IDLE_BYTES_MAX, f"{each} bytes for both ends of a connection"
        finally:
            for line in lines:
                line.close()

    served.run(body)
