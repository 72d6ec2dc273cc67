"""Looks at the upstream's ACLs, as a part of each look at a broker (ADR 100).

Problem: a right that is taken away there has to be gone here soon, and 100,000 ACLs are no reason to stop the loop.
Mechanism: all are asked for at each look, or less often if they are many; an answer of the same bytes as the last one
is not read, and one that is, is read beside the loop. What was known stays while none can be had, as Kafka's brokers go
on by what they knew last; nothing is known before the first. A broker that is behind tells what it judges by itself.
What this does not do: connect (`runtime.upstream`), or judge.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping

from muster_coordinator.errors import WireError
from muster_coordinator.ports import Notice
from muster_coordinator.upstream import limits
from muster_coordinator.upstream.acls import KnownAcls, ToldAcls, acls_version, ask_acls, read_acls
from muster_coordinator.upstream.apis import Offered


class UpstreamAcls:
    """Of one process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, notice: Notice) -> None:
        self._loop = loop
        self._notice = notice
        self._last: ToldAcls | None = None
        self._known: KnownAcls | None = None
        self._due_s = -math.inf
        """When they are asked for next, by the loop's clock."""

    def known(self) -> KnownAcls | None:
        """The latest; None: nobody has told them yet."""
        return self._known

    async def look(self, ask: Callable[[bytes], Awaitable[bytes]], versions: Mapping[int, Offered]) -> None:
        """Ask a broker that speaks these versions, if it is time. What comes of it is told, and is no end of anything:
        the connection is of no more use then."""
        if self._loop.time() < self._due_s:
            return
        try:
            version = acls_version(versions)
            async with asyncio.timeout(limits.LOOK_TIMEOUT_MS / 1_000):
                told = ToldAcls(version, await ask(ask_acls(version, limits.ACLS_CORRELATION)))
            few = len(told.frame) <= limits.FEW_TOPICS_BYTES_MAX
            self._due_s = self._loop.time() + (0 if few else limits.TOPICS_LOOK_MS / 1_000)
            if told != self._last:
                acls = await self._loop.run_in_executor(None, read_acls, told)
                self._known, self._last = KnownAcls(acls), told
        except (OSError, TimeoutError, WireError) as error:
            why = str(error) or type(error).__name__
            self._notice("the ACLs of the upstream cannot be read", {"why": why}, None)
