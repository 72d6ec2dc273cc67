"""The admin adapter over TLS: the pod's name and its authority are verified, and the token goes to nobody else."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from muster_operator.admin.adapter import AdminAdapter
from muster_operator.errors import Transient
from muster_operator.world.admin_at import SecuredAdmin

from tests.certificates import Authority

OURS = Authority("ours")
POD = "c-1.c-peers.ns.svc"


class Coordinator:
    """Answers every request, and remembers the tokens that it was shown."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers["Authorization"])
        return web.json_response({})


def served(
    folder: Path, host: str, question: Callable[[AdminAdapter, str], Awaitable[Any]], *, tls: bool = True
) -> Coordinator:
    async def scene() -> Coordinator:
        it = Coordinator()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", it.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        context = None
        if tls:
            issued = OURS.issue("server", (host,))
            (folder / "tls.crt").write_text(issued.pem)
            (folder / "tls.key").write_text(issued.key_pem())
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        adapter = AdminAdapter()
        try:
            await question(adapter, f"127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await adapter.close()
            await runner.cleanup()
        return it

    return asyncio.run(scene())


def test_a_pod_is_known_by_its_name_and_authority_though_it_is_asked_by_its_address(tmp_path: Path) -> None:
    async def ask(adapter: AdminAdapter, address: str) -> None:
        at = SecuredAdmin(address, POD, OURS.pem)
        await adapter.drain(host=at, token="t")
        await adapter.undrain(host=at, token="t")

    assert served(tmp_path, "*.c-peers.ns.svc", ask).tokens == ["Bearer t"] * 2


@pytest.mark.parametrize(
    ("ca", "name", "reason"),
    [
        (OURS.pem, "c-1.other-peers.ns.svc", "CertificateNotTrusted"),
        (Authority("theirs").pem, POD, "CertificateNotTrusted"),
        ("", POD, "CertificateNotTrusted"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", POD, "SecretUnusable"),
        ("no certificate at all", POD, "SecretUnusable"),
    ],
)
def test_who_cannot_show_it_gets_no_token(tmp_path: Path, ca: str, name: str, reason: str) -> None:
    async def ask(adapter: AdminAdapter, address: str) -> None:
        with pytest.raises(Transient) as told:
            await adapter.drain(host=SecuredAdmin(address, name, ca), token="t")
        assert told.value.reason == reason
        assert address in told.value.message

    assert served(tmp_path, "*.c-peers.ns.svc", ask).tokens == []


def test_a_port_without_tls_is_told_no_token_either(tmp_path: Path) -> None:
    async def ask(adapter: AdminAdapter, address: str) -> None:
        with pytest.raises(Transient):
            await adapter.drain(host=SecuredAdmin(address, POD, OURS.pem), token="t")

    assert served(tmp_path, "", ask, tls=False).tokens == []
