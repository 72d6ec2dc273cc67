"""A connection that came faster than the permitted rate waits for its turn unread, on every kind of loop."""

import asyncio
import socket
from collections.abc import Callable

import pytest
from muster_coordinator.admin.calls import until
from muster_coordinator.context import RequestContext
from muster_coordinator.runtime.client_listener import ClientListener
from muster_coordinator.runtime.loop import AsyncLoop, new_event_loop
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.versions import Api

from tests.made_settings import client_limits
from tests.wire.kio_entities import encode_request

RATE = 50
BURST = RATE // 10
"""Pass at once."""
LATE = 10


def _answer(_: RequestContext, request: object, exchange: Exchange) -> None:
    exchange({"error_code": 0, "api_keys": []})


@pytest.mark.parametrize("new_loop", [new_event_loop, asyncio.new_event_loop])
def test_who_comes_too_fast_is_read_at_the_permitted_rate(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    loop = new_loop()
    clock = AsyncLoop(loop, on_fatal=lambda error, where: pytest.fail(f"{where}: {error!r}"))
    most = client_limits(accepts_per_second_max=RATE)
    listener = ClientListener(loop, clock, name="test", handle=_answer, client_limits=most)
    answered_ms: list[int] = []
    frame = encode_request(Api.API_VERSIONS, 0, {}, 1, "c")

    async def one(port: int) -> None:
        with socket.socket() as line:
            line.setblocking(False)
            await loop.sock_connect(line, ("127.0.0.1", port))
            await loop.sock_sendall(line, frame)
            assert await loop.sock_recv(line, 4096)
        answered_ms.append(clock.monotonic_ms())

    async def body() -> None:
        port = await listener.listen("127.0.0.1", 0)
        began_ms = clock.monotonic_ms()
        await asyncio.gather(*(one(port) for _ in range(BURST + LATE)))
        answered_ms.append(answered_ms[-1] - began_ms)
        await until(clock, lambda: listener.stats.connections == 0, every_ms=5, within_ms=1_000)

    try:
        loop.run_until_complete(body())
        loop.run_until_complete(listener.close())
    finally:
        clock.close()
        loop.close()
    took_ms = answered_ms[-1]
    assert took_ms >= (LATE - 1) * 1000 // RATE, f"{BURST + LATE} connections were served within {took_ms} ms"
