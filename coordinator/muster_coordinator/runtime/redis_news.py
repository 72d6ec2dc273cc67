"""News of entries: one blocking XREAD for all streams that somebody listens to.

Problem: many long polls must hear of an entry at once, and not each have a connection. Mechanism: one connection of its
own runs XREAD BLOCK over all wanted streams; when one is added, CLIENT UNBLOCK, on another connection, has it begin
again with all of them. A stream that has told is not listened to until its partition is read again. When the server
cannot be asked, everybody is told after a pause, and finds out by reading. What this does not do: hand on entries.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from muster_coordinator.redis_streams.answers import first_entries
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.runtime.limits import REDIS_BLOCK_MS, REDIS_RETRY_MS, REDIS_UNBLOCK_MS
from muster_coordinator.runtime.redis_tasks import ended


def raise_bug(task: asyncio.Task[None]) -> None:
    """What a task has not expected is a bug, ours or of whoever was told: it ends the process, as from any call."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


class _Wish(NamedTuple):
    stream: str
    after: EntryId
    notify: Callable[[], None]


class News:
    """See the module. `ask` sends one command on another connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[], AbstractConnection],
        ask: Callable[..., Awaitable[Any]],
        timeout_ms: int,
    ) -> None:
        self._loop = loop
        self._make = make
        self._ask = ask
        self._block_ms = min(REDIS_BLOCK_MS, timeout_ms // 2)
        self._wishes: dict[int, _Wish] = {}
        self._numbers = count()
        self._added = asyncio.Event()
        self._blocked = False
        self._client_id: int | None = None
        self._connection: AbstractConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._waker: asyncio.Task[None] | None = None
        self._wanted_s = loop.time()

    def idle_ms(self) -> int:
        """For how long nobody has begun to listen; 0: somebody listens."""
        return 0 if self._wishes else round((self._loop.time() - self._wanted_s) * 1_000)

    def want(self, stream: str, after: EntryId, notify: Callable[[], None]) -> Callable[[], None]:
        """See `StreamServer.news`."""
        number = next(self._numbers)
        self._wishes[number] = _Wish(stream, after, notify)
        self._wanted_s = self._loop.time()
        self._added.set()
        if self._task is None:
            self._task = self._loop.create_task(self._listen())
            self._task.add_done_callback(raise_bug)
        if self._blocked and self._waker is None:
            self._waker = self._loop.create_task(self._wake())
            self._waker.add_done_callback(raise_bug)
        return lambda: self._wishes.pop(number, None) and None

    def close(self) -> None:
        for task in (self._task, self._waker):
            if task is not None:
                task.cancel()

    async def disconnected(self) -> None:
        """After `close`: its tasks have ended, and its connection is closed."""
        try:
            await ended((self._task, self._waker))
        finally:
            await self._give_up()

    async def _listen(self) -> None:
        while True:
            if not self._wishes:
                self._added.clear()
                await self._added.wait()
            try:
                await self._once()
            except (RedisError, OSError, ValueError):  # the last: what came is no answer
                await self._give_up()
                await asyncio.sleep(REDIS_RETRY_MS / 1_000)
                self._tell(list(self._wishes))

    async def _once(self) -> None:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._make()
            await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_command("CLIENT", "ID")
            self._client_id = await connection.read_response()
        self._added.clear()
        since: dict[str, EntryId] = {}
        for wish in self._wishes.values():
            since[wish.stream] = min(wish.after, since.get(wish.stream, wish.after))
        ids = (entry.text for entry in since.values())
        await connection.send_command("XREAD", "COUNT", 1, "BLOCK", self._block_ms, "STREAMS", *since, *ids)
        self._blocked = True
        try:
            answer = await connection.read_response(disable_decoding=True)
        finally:
            self._blocked = False
        for name, entry in first_entries(answer):
            self._tell([n for n, wish in self._wishes.items() if wish.stream == name and wish.after < entry])

    def _tell(self, numbers: list[int]) -> None:
        for number in numbers:
            wish = self._wishes.pop(number, None)
            if wish is not None:
                wish.notify()

    async def _wake(self) -> None:
        """Until the XREAD that lacks a stream has ended; it may not have begun on the server when this is asked."""
        try:
            while self._blocked and self._added.is_set():
                with suppress(RedisError, OSError):
                    await self._ask("CLIENT", "UNBLOCK", self._client_id)
                await asyncio.sleep(REDIS_UNBLOCK_MS / 1_000)
        finally:
            self._waker = None

    async def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)
