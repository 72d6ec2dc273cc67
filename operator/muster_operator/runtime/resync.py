"""Our own lists beside the watches: fill the cache at the start, repair it later, and look at everything now and then.

A watch tells nothing of what was deleted while it was broken, and a bug anywhere may lose a wake-up. So every watched
kind is
listed every five minutes and soon after a watch had to start over, and every object of ours is queued every ten
minutes.
Periods vary by a fifth, so that two operators or many clusters do not ask at the same time.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from muster_operator.errors import OperatorError
from muster_operator.kube.kinds import WATCHED, Kind, selector_for
from muster_operator.limits import JITTER, RELIST_MIN_MS, RELIST_MS, RESYNC_MS
from muster_operator.ports import Clock, Kube, Rand
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.runner import Runner

_log = logging.getLogger("muster.operator.resync")


class Resync:
    """`namespaces`: those to list; ("",) for all."""

    def __init__(
        self, *, kube: Kube, cache: Cache, runner: Runner, clock: Clock, rand: Rand, namespaces: Sequence[str]
    ) -> None:
        self._kube, self._cache, self._runner, self._clock, self._rand = kube, cache, runner, clock, rand
        self._namespaces = namespaces
        self._soon = asyncio.Event()
        self._synced_ms: int | None = None

    @property
    def synced(self) -> bool:
        """Every kind has been listed at least once."""
        return self._synced_ms is not None

    def age_ms(self) -> int | None:
        """Since the last time that every kind was listed without an error; None before the first."""
        return None if self._synced_ms is None else self._clock.monotonic_ms() - self._synced_ms

    def ask(self) -> None:
        """A watch started over: list soon."""
        self._soon.set()

    async def list_all(self) -> None:
        """List every watched kind into the cache and queue what that woke. Raises Transient or Refused."""
        for kind in WATCHED:
            for namespace in self._namespaces:
                await self._list(kind, namespace)
        self._synced_ms = self._clock.monotonic_ms()

    async def run(self) -> None:
        """Until cancelled. The first list must have been made (`list_all`)."""
        next_resync = self._clock.monotonic_ms() + self._varied(RESYNC_MS)
        while True:
            await self._pause(self._varied(RELIST_MS))
            try:
                await self.list_all()
            except OperatorError as error:
                _log.warning("list failed", extra={"error": str(error)})
                self._soon.set()  # again after the shortest pause
            if self._clock.monotonic_ms() >= next_resync:
                self.wake_all()
                next_resync = self._clock.monotonic_ms() + self._varied(RESYNC_MS)

    def wake_all(self) -> None:
        """Queue every object of ours."""
        self._runner.enqueue(self._cache.owners())

    async def _list(self, kind: Kind, namespace: str) -> None:
        mark = self._cache.begin_list(kind, namespace)
        try:
            found = await self._kube.list(
                api_version=kind.api_version, kind=kind.kind, namespace=namespace, labels=selector_for(kind) or None
            )
        except BaseException:
            self._cache.abandon_list(mark)
            raise
        self._runner.enqueue(self._cache.finish_list(mark, found))

    async def _pause(self, milliseconds: int) -> None:
        """At least RELIST_MIN_MS; then until the time is up or `ask` was called."""
        await _wait(asyncio.Event(), RELIST_MIN_MS)
        await _wait(self._soon, max(0, milliseconds - RELIST_MIN_MS))
        self._soon.clear()

    def _varied(self, milliseconds: int) -> int:
        return int(milliseconds * self._rand.uniform(1 - JITTER, 1 + JITTER))


async def _wait(event: asyncio.Event, milliseconds: int) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(milliseconds / 1_000):
            await event.wait()
