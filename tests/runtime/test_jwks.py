"""The keys of tokens, fetched over real sockets: what hangs, is huge, moves or lies hurts nobody."""

import asyncio
import datetime as dt
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.jwks import JwksSource
from muster_coordinator.runtime.loop import AsyncLoop, new_event_loop
from muster_coordinator.security.limits import JWKS_BYTES_MAX

from tests.security.test_oauth import EC_KEY, RSA_KEY, jwk

ONE = json.dumps({"keys": [jwk(RSA_KEY, "one")]}).encode()
TWO = json.dumps({"keys": [jwk(RSA_KEY, "one"), jwk(EC_KEY, "two")]}).encode()


def certificate(folder: Path) -> Path:
    """Of `localhost`, signed by itself; with its key in one file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "keys")])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2120, 1, 1, tzinfo=dt.UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = folder / "keys.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(made.public_bytes(Encoding.PEM) + private)
    return path


class World:
    """A loop, a server of keys that answers by `answer`, and the notices."""

    def __init__(self, folder: Path) -> None:
        self.asyncio_loop = new_event_loop()
        self.loop = AsyncLoop(self.asyncio_loop, on_fatal=lambda error, where: None)
        self.notices: list[tuple[str, dict[str, object]]] = []
        self.asked = 0
        self.answer: Callable[[web.Request], Any] = lambda _: web.Response(body=ONE)
        self.pem = certificate(folder)
        self.port = self.run(self._serve())

    def run(self, what: Any) -> Any:
        return self.asyncio_loop.run_until_complete(what)

    async def _serve(self) -> int:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.asked += 1
            answer = self.answer(request)
            return await answer if asyncio.iscoroutine(answer) else answer

        application = web.Application()
        application.router.add_get("/{path:.*}", handle)
        self.runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self.runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self.pem)
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        return int(self.runner.addresses[0][1])

    def source(self, url: str = "", ca_file: Path | None = None) -> JwksSource:
        return JwksSource(
            self.asyncio_loop,
            self.loop,
            url or f"https://localhost:{self.port}/keys",
            ca_file=ca_file or self.pem,
            refresh_ms=3_600_000,
            notice=lambda what, details, _: self.notices.append((what, dict(details))),
        )

    def refresh(self, source: JwksSource) -> bool:
        done: asyncio.Future[bool] = self.asyncio_loop.create_future()
        source.refresh(done.set_result)
        return bool(self.run(done))

    def close(self) -> None:
        self.run(self.runner.cleanup())
        left = asyncio.all_tasks(self.asyncio_loop)
        for task in left:
            task.cancel()
        self.run(asyncio.wait(left) if left else self.asyncio_loop.shutdown_asyncgens())
        self.loop.close()
        self.asyncio_loop.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    it = World(tmp_path)
    yield it
    it.close()


def test_keys_are_fetched_by_https_and_a_new_one_when_it_is_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = world.source()
    assert world.refresh(source)
    assert set(source.keys()) == {"one"}
    world.answer = lambda _: web.Response(body=TWO)
    assert world.refresh(source), "it was just done"
    assert (set(source.keys()), world.asked) == ({"one"}, 1)
    monkeypatch.setattr(limits, "JWKS_PAUSE_MS", 0)
    assert world.refresh(source)
    assert (set(source.keys()), world.asked) == ({"one", "two"}, 2)


def test_whoever_asks_meanwhile_gets_the_result_of_one_fetch(world: World) -> None:
    source = world.source()
    answers: list[bool] = []
    for _ in range(50):
        source.refresh(answers.append)
    assert world.refresh(source)
    assert (answers, world.asked) == ([True] * 50, 1)


async def hangs(_request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


async def trickles(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b" " * (JWKS_BYTES_MAX // 4))


def moved(request: web.Request) -> web.Response:
    if request.path == "/elsewhere":
        return web.Response(body=ONE)
    raise web.HTTPFound("/elsewhere")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (hangs, "TimeoutError"),
        (trickles, "more than"),
        (moved, "HTTP status 302"),
        (lambda _: web.Response(status=500), "HTTP status 500"),
        (lambda _: web.Response(body=b"[" * 50_000), "not a JWK set"),
        (lambda _: web.Response(body=b'{"keys": []}'), "without a key"),
    ],
)
def test_what_is_no_set_of_keys_leaves_those_that_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: Any, why: str
) -> None:
    monkeypatch.setattr(limits, "JWKS_PAUSE_MS", 0)
    source = world.source()
    assert world.refresh(source)
    monkeypatch.setattr(limits, "JWKS_MS_MAX", 300)
    world.answer = answer
    assert not world.refresh(source)
    assert set(source.keys()) == {"one"}
    ((what, details),) = world.notices
    assert what == "the keys of tokens cannot be fetched"
    assert why in str(details["why"])
    source.close()


def test_a_server_that_cannot_be_verified_is_not_believed(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    source = world.source(ca_file=certificate(other))
    assert not world.refresh(source)
    assert source.keys() == {}
    by_address = world.source(f"https://127.0.0.1:{world.port}/keys")
    assert not world.refresh(by_address), "the certificate is of localhost"


def test_renewed_authorities_are_read_for_the_next_fetch_and_a_broken_file_of_them_is_told(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JWKS_PAUSE_MS", 0)
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(world.pem.read_bytes())
    source = world.source(ca_file=trusted)
    assert world.refresh(source)
    (tmp_path / "other").mkdir()
    for content in (b"no certificate", certificate(tmp_path / "other").read_bytes()):
        trusted.write_bytes(content)
        assert not world.refresh(source)
        assert set(source.keys()) == {"one"}, "those that it has"
    trusted.unlink()
    assert not world.refresh(source)
    told = [str(details["why"]) for _, details in world.notices]
    assert [str(trusted) in why for why in told] == [True, False, True]
    trusted.write_bytes(world.pem.read_bytes())
    assert world.refresh(source)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_authorities_that_cannot_be_used_at_the_start_refuse_it_and_name_their_file(
    world: World, tmp_path: Path, content: bytes | None
) -> None:
    trusted = tmp_path / "ca.crt"
    if content is not None:
        trusted.write_bytes(content)
    with pytest.raises(OSError, match=r"muster\.sasl\.oauthbearer\.jwks\.ca\.file=.*ca\.crt: "):
        world.source(ca_file=trusted)


def test_keys_of_a_file(world: World, tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    assert not world.refresh(world.source(f"file://{path}"))
    path.write_bytes(TWO)
    source = world.source(f"file://{path}")
    source.start()
    assert world.refresh(source)
    assert set(source.keys()) == {"one", "two"}
    source.close()
