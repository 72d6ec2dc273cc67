"""Connections to an upstream over real sockets: in the open, with TLS, with a login, and how each of them fails."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.runtime.tls_connection import Handshakes
from muster_coordinator.runtime.upstream_dial import TlsFiles, UpstreamDialler
from muster_coordinator.upstream import limits
from muster_coordinator.upstream.account import Account

from tests.certificates import Authority
from tests.upstream.test_login import answered, taken

ACCOUNT = Account("PLAIN", "muster", "canary")
WHO = b"\0muster\0canary"


class Top(asyncio.Protocol):
    """Who wanted the connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.data = b""
        self.heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        if not self.heard.done():
            self.heard.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


async def frame_of(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(int.from_bytes(head, "big"))


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"echo " + await reader.read(100))


def after_login(*answers: bytes) -> Serve:
    """These answers, one for each frame, and then an echo."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await frame_of(reader)
            writer.write(answer)
        await echo(reader, writer)

    return serve


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        self.ca = folder / "ca.crt"
        self.ca.write_text(self.authority.pem)

    def server_context(self, *names: str, asks: bool = False) -> ssl.SSLContext:
        crt, key = map(str, self.authority.issue("server", names).write(self.folder / "server"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(crt, key)
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(str(self.ca))
        return context

    def keystore(self) -> Path:
        crt, key = self.authority.issue("muster").write(self.folder / "client")
        path = self.folder / "keystore.pem"
        path.write_text(Path(key).read_text() + Path(crt).read_text())
        return path


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def dial(
    serve: Serve, tls: TlsFiles | None = None, account: Account | None = None, context: ssl.SSLContext | None = None
) -> Top:
    """Connect, say hello, hear the answer."""

    async def test() -> Top:
        ended = []

        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await serve(reader, writer)
                await reader.read()
            except (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()
                ended.append(writer)

        server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        dialler = UpstreamDialler(loop, Handshakes(loop), tls, account)
        top = Top()
        try:
            await dialler.connect(("localhost", port), lambda: top)
            assert top.transport is not None
            top.transport.write(b"hello")
            await top.heard
            top.transport.abort()
        finally:
            server.close()
        return top

    return asyncio.run(asyncio.wait_for(test(), 30))


def test_in_the_open() -> None:
    assert dial(echo).data == b"echo hello"


def test_with_tls_and_with_a_certificate_of_ours(world: World) -> None:
    files = TlsFiles(world.ca, None, "")
    assert dial(echo, files, context=world.server_context("localhost")).data == b"echo hello"
    files = TlsFiles(world.ca, world.keystore(), "")
    assert dial(echo, files, context=world.server_context("localhost", asks=True)).data == b"echo hello"


def test_with_a_certificate_whose_key_is_a_file_of_its_own(world: World) -> None:
    """As a Secret of Kubernetes has them; the key of another certificate is refused before anything is sent."""
    certificate, key = map(Path, world.authority.issue("muster").write(world.folder / "client"))
    files = TlsFiles(world.ca, certificate, "", key)
    assert dial(echo, files, context=world.server_context("localhost", asks=True)).data == b"echo hello"
    _, other = map(Path, world.authority.issue("other").write(world.folder / "other"))
    with pytest.raises(OSError, match="KEY_VALUES_MISMATCH"):
        dial(echo, TlsFiles(world.ca, certificate, "", other), context=world.server_context("localhost", asks=True))


@pytest.mark.parametrize("tls", [False, True])
def test_with_a_login(world: World, tls: bool) -> None:
    serve = after_login(taken(), answered())
    files = TlsFiles(world.ca, None, "") if tls else None
    context = world.server_context("localhost") if tls else None
    assert dial(serve, files, ACCOUNT, context).data == b"echo hello"


def test_answers_to_a_login_in_single_bytes() -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (taken(), answered()):
            await frame_of(reader)
            for byte in answer:
                writer.write(bytes((byte,)))
                await writer.drain()
        await echo(reader, writer)

    assert dial(slow, account=ACCOUNT).data == b"echo hello"


def test_a_broker_of_another_authority_or_name_is_none(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other.crt"
    other.write_text(Authority("Another one").pem)
    with pytest.raises(OSError, match="not trusted"):
        dial(echo, TlsFiles(other, None, ""), context=world.server_context("localhost"))
    with pytest.raises(OSError, match="the certificate is not"):
        dial(echo, TlsFiles(world.ca, None, ""), context=world.server_context("kafka.example"))
    with pytest.raises(OSError, match="not trusted"):
        dial(echo, TlsFiles(None, None, ""), context=world.server_context("localhost"))


def test_a_broker_that_does_not_speak_tls(world: World) -> None:
    with pytest.raises(OSError, match=r"."):
        dial(after_login(b"no TLS\r\n"), TlsFiles(world.ca, None, ""))


def test_files_that_are_not_there(world: World, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.crt"):
        dial(echo, TlsFiles(tmp_path / "none.crt", None, ""), context=world.server_context("localhost"))


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([taken(("SCRAM-SHA-256",), 33)], "does not take PLAIN"),
        ([taken(), answered(code=58, told="wrong password")], "refuses the user muster: wrong password"),
        ([taken() + b"more"], "more than one answer"),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], "an answer of"),
        ([(limits.LOGIN_ANSWER_BYTES_MAX + 1).to_bytes(4, "big")], "an answer of"),
        ([b"\0\0\0\0"], "an answer of 0 bytes"),
        ([b"\0\0\0\x05junk!"], "ends early"),
    ],
)
def test_a_login_that_fails_says_why(answers: list[bytes], why: str) -> None:
    with pytest.raises(WireError, match=why) as refused:
        dial(after_login(*answers), account=ACCOUNT)
    assert "canary" not in str(refused.value)


def test_a_broker_that_goes_in_the_middle_of_a_login() -> None:
    async def goes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await frame_of(reader)
        writer.close()

    with pytest.raises(OSError, match="during the login"):
        dial(goes, account=ACCOUNT)


@pytest.mark.parametrize("tls", [False, True])
def test_one_that_hangs_is_given_up_by_who_wanted_it(world: World, tls: bool) -> None:
    async def test() -> None:
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            came.set_result(None)
            try:
                while await reader.read(100):
                    pass
            except OSError:
                pass
            writer.close()
            ended.set_result(None)

        server = await asyncio.start_server(hangs, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        dialler = UpstreamDialler(loop, Handshakes(loop), TlsFiles(world.ca, None, "") if tls else None, ACCOUNT)
        task = loop.create_task(dialler.connect(("localhost", port), Top))
        await came
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ended
        server.close()

    asyncio.run(asyncio.wait_for(test(), 30))


@pytest.mark.parametrize("account", [None, ACCOUNT])
@pytest.mark.parametrize("address", [("x" * 70, 9092), ("..", 9092), ("a\0b", 9092), ("127.0.0.1", 70_000)])
def test_an_address_that_can_be_none_is_one_that_cannot_be_reached(
    address: tuple[str, int], account: Account | None
) -> None:
    """Brokers tell the addresses of the others; whoever dials one expects no error but `OSError`."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        await UpstreamDialler(loop, Handshakes(loop), None, account).connect(address, Top)

    with pytest.raises(OSError):
        asyncio.run(test())
