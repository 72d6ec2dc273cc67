"""Calls of Redis that are under way: tasks, each of which tells its caller once.

What it does not do: make a call (`redis_server`, `redis_cluster`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from muster_coordinator.redis_streams.server import Answer, Failure, Trouble
from muster_coordinator.runtime.limits import REDIS_CALLS_MAX
from muster_coordinator.runtime.redis_news import raise_bug
from muster_coordinator.runtime.redis_tasks import ended


class Calls:
    """At most `REDIS_CALLS_MAX`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, call: Callable[[], Awaitable[Answer]], done: Callable[[Answer], None]) -> None:
        """`done` is called once, unless `cancel` is called before."""
        if len(self._tasks) >= REDIS_CALLS_MAX:
            done(Failure(Trouble.AWAY, "too many calls of Redis are under way"))
            return

        async def told() -> None:
            done(await call())

        self.keep(told())

    def keep(self, job: Coroutine[Any, Any, None]) -> None:
        """Run it to its end. An error that it does not expect is a bug (`raise_bug`)."""
        task = self._loop.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(raise_bug)

    def cancel(self) -> None:
        """All of them; nobody is told."""
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> None:
        """After `cancel`: each has ended."""
        await ended(self._tasks)
