"""The end of tasks that use Redis.

Problem: a task that is cancelled may go on. `asyncio.wait_for` of Python 3.11, by which the library writes, drops a
cancellation that comes in the same turn of the loop as what it waits for; a task without an end would then ask a server
for ever that nobody wants any more. Mechanism: it is cancelled again until it has ended. What this does not do: bound
how long that takes; each wait of such a task has a bound of its own.
"""

import asyncio
from collections.abc import Iterable

from muster_coordinator.runtime.limits import REDIS_CANCEL_AGAIN_MS


async def ended(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    """Each of them is cancelled and has ended. What they raised is not looked at here."""
    left = {task for task in tasks if task is not None and not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=REDIS_CANCEL_AGAIN_MS / 1_000)
