"""One watch per scope, over every kind that the list found; restarted when it ends.

A watch is started only after a list of its scope succeeded, so a namespace that refuses us and a kind that is not
defined cost no watch attempts: the lists, with their back-off, find out what can be watched. When a watch ends by
itself (a right was revoked, a definition was deleted, the API server failed), a list has to succeed first, which shows
the remaining kinds. When a list finds other kinds than those watched, the watch is restarted with them.

The watch itself is handed in (`runtime.kopf_watch`); other scopes are not affected.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from muster_operator.kube.kinds import Kind
from muster_operator.limits import BACKOFF_FIRST_MS, RELIST_RETRY_MAX_MS, WATCH_START_MAX_MS, WATCH_STEADY_MS
from muster_operator.ports import Clock
from muster_operator.runtime.scopes import Scope, Scopes
from muster_operator.runtime.waiting import pause

_log = logging.getLogger("muster.operator.watches")
_LOOK_S = 0.5
"""Interval at which a watch is asked for the kinds that it watches."""


class Watch(Protocol):
    """A watch of some kinds in one scope."""

    def live(self) -> frozenset[Kind]:
        """Kinds with a running watch."""
        ...

    async def run(self) -> None:
        """Run until cancelled, or until the watch ends by itself; whether it returns or raises, that is a failure."""
        ...


class Watches:
    """`start` makes a watch of kinds in a namespace ("" for all), not yet running; `ask` requests a list of a scope."""

    def __init__(
        self,
        *,
        start: Callable[[str, frozenset[Kind]], Watch],
        ask: Callable[[Scope], None],
        scopes: Scopes,
        clock: Clock,
    ) -> None:
        self._start, self._ask, self._scopes, self._clock = start, ask, scopes, clock

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for scope in self._scopes:
                group.create_task(self._keep(scope), name=f"watch of {scope.title}")

    async def _keep(self, scope: Scope) -> None:
        failures = 0
        while True:
            kinds = await _listed(scope)
            started = self._clock.monotonic_ms()
            failure = await self._watch(scope, kinds)
            if failure is None:
                continue  # the kinds to watch have changed
            failures = failures + 1 if self._clock.monotonic_ms() - started < WATCH_STEADY_MS else 1
            _log.warning("a watch ended", extra={"scope": scope.title, "error": failure})
            scope.suspect = True
            self._ask(scope)
            await pause(min(BACKOFF_FIRST_MS << min(failures - 1, 16), RELIST_RETRY_MAX_MS))

    async def _watch(self, scope: Scope, kinds: frozenset[Kind]) -> str | None:
        """Run one watch to its end. Returns its error, None if `kinds` are no longer the ones to watch."""
        watch = self._start(scope.namespace, kinds)
        task = asyncio.ensure_future(watch.run())
        started = self._clock.monotonic_ms()
        try:
            while not task.done():
                scope.watched = watch.live()
                if scope.listed_ms is not None and scope.wanted != kinds:
                    return None
                missing = kinds - scope.watched
                if missing and self._clock.monotonic_ms() - started > WATCH_START_MAX_MS:
                    return f"no watch of {', '.join(sorted(one.kind for one in missing))}"
                await asyncio.wait([task], timeout=_LOOK_S)
        finally:
            scope.watched = frozenset()
            task.cancel()
            await asyncio.wait([task])  # raises only our own cancellation
        error = None if task.cancelled() else task.exception()
        return f"{type(error).__name__}: {error}"[:1_000] if error is not None else "it ended"


async def _listed(scope: Scope) -> frozenset[Kind]:
    """Wait for a list that succeeded after the last watch ended; returns the kinds to watch."""
    while scope.suspect or scope.listed_ms is None or scope.trouble is not None:
        scope.news.clear()
        await scope.news.wait()
    return scope.wanted
