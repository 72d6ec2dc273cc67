"""Waits of the operator's own loops: bounded in time, and ended early by an event where there is one."""

import asyncio
from contextlib import suppress


async def wait(event: asyncio.Event, milliseconds: int) -> None:
    """Wait until `event` is set, at most `milliseconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(milliseconds / 1_000):
            await event.wait()


async def pause(milliseconds: int) -> None:
    """For `milliseconds`."""
    await wait(asyncio.Event(), milliseconds)
