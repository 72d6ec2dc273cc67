"""One watch for each scope, of every kind that was found by listing; started anew when it ends.

A watch is started only after a list of its scope succeeded, so a namespace that refuses us and a kind that is not
defined cost no attempts of their own: the lists, with their back-off, tell when there is something to watch. When a
watch ends by itself (a right is gone, a definition was deleted, the API server broke), a list has to succeed first and
tells what is left. When a list finds other kinds than are watched, the watch is started over with them.

What watches is handed in (`runtime.kopf_watch`); no other scope notices any of this.
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
"""How often a watch is asked what it watches."""


class Watch(Protocol):
    """A watch of some kinds in one scope."""

    def live(self) -> frozenset[Kind]:
        """Kinds of which a watch runs now."""
        ...

    async def run(self) -> None:
        """Until cancelled, or until it ends by itself: normally or by raising, both are failures."""
        ...


class Watches:
    """`start` makes a watch of kinds in a namespace ("" for all), not yet running; `ask` has a scope listed soon."""

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
                continue  # other kinds are to be watched
            failures = failures + 1 if self._clock.monotonic_ms() - started < WATCH_STEADY_MS else 1
            _log.warning("a watch ended", extra={"scope": scope.title, "error": failure})
            scope.suspect = True
            self._ask(scope)
            await pause(min(BACKOFF_FIRST_MS << min(failures - 1, 16), RELIST_RETRY_MAX_MS))

    async def _watch(self, scope: Scope, kinds: frozenset[Kind]) -> str | None:
        """One watch to its end: what ended it, None when `kinds` are no longer those to watch."""
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
            await asyncio.wait([task])  # raises only what cancels ourselves
        error = None if task.cancelled() else task.exception()
        return f"{type(error).__name__}: {error}"[:1_000] if error is not None else "it ended"


async def _listed(scope: Scope) -> frozenset[Kind]:
    """Wait for a list that succeeded since the last watch ended; the kinds to watch."""
    while scope.suspect or scope.listed_ms is None or scope.trouble is not None:
        scope.news.clear()
        await scope.news.wait()
    return scope.wanted
