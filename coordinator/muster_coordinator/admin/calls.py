"""Awaiting the replica's callback-style calls from an aiohttp handler.

Every call ends: the surface answers each request by its deadline. If the handler was cancelled (the HTTP client
disconnected), the answer goes to a future that is dropped.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import Command, CommandResult
from muster_coordinator.limits import PROPOSAL_TIMEOUT_MS
from muster_coordinator.ports import Loop

T = TypeVar("T")
CALL_MS_MAX = 10_000
"""Deadline of an admin request."""
assert PROPOSAL_TIMEOUT_MS < CALL_MS_MAX


async def answer_of(ask: Callable[[Callable[[T], None]], None]) -> T:
    """Await what `ask(done)` passes to `done`."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(value: T) -> None:
        if not future.done():
            future.set_result(value)

    ask(done)
    return await future


async def proposed(replica: AdminReplica, command: Command) -> CommandResult:
    """Await the result of a command that the controller's leader is to propose."""
    deadline_ms = replica.loop.monotonic_ms() + PROPOSAL_TIMEOUT_MS
    return await answer_of(lambda done: replica.submit(command, deadline_ms=deadline_ms, done=done))


async def next_turn() -> None:
    """Continue in the loop's next turn."""
    loop = asyncio.get_running_loop()

    def ask(done: Callable[[None], None]) -> None:
        loop.call_soon(done, None)

    await answer_of(ask)


async def until(loop: Loop, check: Callable[[], bool], *, every_ms: int, within_ms: int) -> bool:
    """Poll `check` on the loop's clock; False when it was not true within `within_ms`."""
    deadline_ms = loop.monotonic_ms() + within_ms
    while not check():
        now_ms = loop.monotonic_ms()
        if now_ms >= deadline_ms:
            return False
        await _wake_at(loop, min(now_ms + every_ms, deadline_ms))
    return True


async def _wake_at(loop: Loop, monotonic_ms: int) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    timer = loop.call_at(monotonic_ms, wake)
    try:
        await future
    finally:
        timer.cancel()


def admin_context(loop: Loop, api_key: int) -> RequestContext:
    """The context of an operator's request: authenticated by the bearer token, without a Kafka listener."""
    return RequestContext(
        principal="User:admin",
        listener="",
        connection_id=0,
        client_id="muster-admin",
        client_host="/admin",
        api_key=api_key,
        api_version=0,
        deadline_ms=loop.monotonic_ms() + CALL_MS_MAX,
    )
