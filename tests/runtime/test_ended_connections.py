"""An ended connection leaves nothing behind: with the collector off, reference counts alone must free it.

Otherwise memory grows with the number of connections that were ever made: by whatever a circle of references keeps
until a collection, and by what timers hold that go on waiting after the end.
"""

import asyncio
import gc
import socket
from collections.abc import Callable

import pytest
from muster_coordinator.admin.calls import until
from muster_coordinator.context import RequestContext
from muster_coordinator.runtime.client_connection import ClientConnection
from muster_coordinator.runtime.client_listener import ClientListener
from muster_coordinator.runtime.loop import AsyncLoop, new_event_loop
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.versions import Api

from tests.made_settings import client_limits
from tests.wire.kio_entities import encode_request

CONNECTIONS = 40
ENDED_WITHIN_MS = 30_000
"""Liveness only: the slowest case waits 0.4 s for its turns on a machine that has nothing else to do."""
TURNS_AFTER_THE_END = 20
"""Of the loop, for callbacks that were due when the last connection ended."""


def _answer(_: RequestContext, request: object, exchange: Exchange) -> None:
    exchange({"error_code": 0, "api_keys": []})


def _there() -> dict[int, object]:
    """Every connection of this process by its id; those of other tests too, whose tracebacks may outlive them."""
    return {id(one): one for one in gc.get_objects() if isinstance(one, ClientConnection | Connection)}


async def _talk(loop: asyncio.AbstractEventLoop, port: int, *, answered: bool) -> None:
    frame = encode_request(Api.API_VERSIONS, 0, {}, 1, "c")
    with socket.socket() as one:
        one.setblocking(False)
        await loop.sock_connect(one, ("127.0.0.1", port))
        await loop.sock_sendall(one, frame)
        if answered:
            assert await loop.sock_recv(one, 4096)


@pytest.mark.parametrize("new_loop", [new_event_loop, asyncio.new_event_loop])
@pytest.mark.parametrize("accepts_per_second", [1_000_000, 100])
def test_ended_connections_are_freed_without_the_collector(
    new_loop: Callable[[], asyncio.AbstractEventLoop], accepts_per_second: int
) -> None:
    """At a hundred accepts a second some of these wait for their turn when their client leaves."""
    loop = new_loop()
    clock = AsyncLoop(loop, on_fatal=lambda error, where: pytest.fail(f"{where}: {error!r}"))
    most = client_limits(accepts_per_second_max=accepts_per_second)
    listener = ClientListener(loop, clock, name="test", handle=_answer, client_limits=most)

    async def body() -> None:
        port = await listener.listen("127.0.0.1", 0)
        for _ in range(CONNECTIONS):
            await _talk(loop, port, answered=accepts_per_second > 100)
        # Looking at all objects takes as long as there are objects of other tests: once, not in each turn.
        await until(clock, lambda: listener.stats.connections == 0, every_ms=5, within_ms=ENDED_WITHIN_MS)
        assert listener.stats.accepted == CONNECTIONS
        assert listener.stats.connections == 0
        turns = iter(range(TURNS_AFTER_THE_END))
        await until(clock, lambda: next(turns, None) is None, every_ms=1, within_ms=ENDED_WITHIN_MS)
        assert [one for key, one in _there().items() if key not in before] == []

    gc.collect()
    gc.disable()
    # Kept alive until the end, so none of these ids can be another's later.
    before = _there()
    try:
        loop.run_until_complete(body())
    finally:
        gc.enable()
        # uvloop never comes back from the close of a loop that has open transports where warnings are errors.
        loop.run_until_complete(listener.close(over_ms=0))
        clock.close()
        loop.close()
