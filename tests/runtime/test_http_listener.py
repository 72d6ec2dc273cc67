"""Probe and admin ports under strangers: half requests end, many connections crowd nobody out, bad ones cost one line.

Real sockets on loopback; what is waited for is the other side's end of the connection, with the time-outs made short.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.http_listener import FAILED, HttpListener

SHORT_MS = 60
Told = list[tuple[str, dict[str, object], BaseException | None]]
HALF = [b"", b"GET /livez HTTP/1.1\r\n", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-", b"POST /echo HTTP/1.1\r\n\r"]


def application() -> web.Application:
    async def live(_: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def echo(request: web.Request) -> web.StreamResponse:
        return web.Response(body=await request.read())

    async def broken(_: web.Request) -> web.StreamResponse:
        raise KeyError("nobody thought of this")

    app = web.Application()
    app.router.add_get("/livez", live)
    app.router.add_post("/echo", echo)
    app.router.add_get("/broken", broken)
    return app


def serving(test: Callable[[HttpListener, int], Awaitable[None]], **how: int) -> Told:
    """Run `test(listener, port)`; what was told."""
    told: Told = []

    async def main() -> None:
        def notice(what: str, details: dict[str, object], error: BaseException | None) -> None:
            told.append((what, details, error))

        listener = HttpListener(application(), name="probes", notice=notice, **how)
        port = await listener.listen("127.0.0.1", 0)
        try:
            async with asyncio.timeout(20):
                await test(listener, port)
        finally:
            await listener.close()

    asyncio.run(main())
    return told


async def ask(port: int, data: bytes) -> bytes:
    """Everything that comes back until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def live(port: int) -> bool:
    return b"200 OK" in await ask(port, b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("half", HALF)
def test_a_request_that_is_begun_and_not_ended_ends_with_its_connection(half: bytes) -> None:
    async def test(listener: HttpListener, port: int) -> None:
        assert await ask(port, half) == b""
        assert listener.connections == 0
        assert await live(port)

    serving(test, head_ms=SHORT_MS)


def test_half_a_second_request_ends_as_soon_as_half_a_first_one() -> None:
    async def test(listener: HttpListener, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b"ok\n")
        assert listener.connections == 1, "it may rest"
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()

    serving(test, head_ms=SHORT_MS)


def test_a_body_that_does_not_come_is_answered_408() -> None:
    async def test(_: HttpListener, port: int) -> None:
        answer = await ask(port, b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
        assert answer.startswith(b"HTTP/1.1 408")

    serving(test, request_ms=SHORT_MS)


def test_a_probe_is_answered_however_many_strangers_hold_connections() -> None:
    async def test(listener: HttpListener, port: int) -> None:
        strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3 * limits.HTTP_CONNECTIONS_MAX)]
        for _, writer in strangers:
            writer.write(b"GET /livez HTTP/1.1\r\n")
        for _ in range(5):
            assert await live(port)
        assert listener.connections <= limits.HTTP_CONNECTIONS_MAX
        for _, writer in strangers:
            writer.close()

    serving(test)


def test_bytes_that_are_no_request_cost_one_line_each_and_no_trace() -> None:
    async def test(_: HttpListener, port: int) -> None:
        for bad in (b"\x16\x03\x01\x02\0", b"GET\r\n\r\n", b"GET / HTTP/9.x\r\n\r\n"):
            assert (await ask(port, bad + b"\r\n\r\n")).startswith(b"HTTP/1.0 400")

    told = serving(test, head_ms=1_000)
    assert [(what, error) for what, _, error in told] == [(FAILED, None)] * len(told)
    assert len(told) <= 3


def test_an_error_of_ours_is_told_with_its_trace() -> None:
    async def test(_: HttpListener, port: int) -> None:
        answer = await ask(port, b"GET /broken HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 500")

    ((what, details, error),) = serving(test)
    assert (what, details["port"]) == (FAILED, "probes")
    assert isinstance(error, KeyError)
