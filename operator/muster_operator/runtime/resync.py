"""Our own lists beside the watches: they fill the cache at the start and repair it later; and a periodic pass over
every object.

A watch does not report what was deleted while it was broken, and a bug may lose a trigger. So every watched kind is
listed every five minutes and soon after a watch was restarted, and each of our objects is queued every ten minutes.
Periods vary by a fifth, so that several operators or many clusters do not list at the same time.

Each scope (`scopes`) has its own lists and its own back-off. A kind of ours that is not defined (404) counts as listed
without objects, but its cached objects stay: if its definition was deleted, the watch has reported its objects' end,
and a pass reads its object from the API server before it writes. While a kind is not defined, its scope is listed more
often.
"""

import asyncio
import logging

from muster_operator.errors import NotServed, OperatorError
from muster_operator.kube.kinds import OWNERS, WATCHED, Kind, selector_for
from muster_operator.limits import (
    FIRST_LIST_MAX_MS,
    JITTER,
    RELIST_MIN_MS,
    RELIST_MS,
    RELIST_RETRY_MAX_MS,
    RESYNC_MS,
)
from muster_operator.ports import Clock, Kube, Rand
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.keys import OwnerKey
from muster_operator.runtime.runner import Runner
from muster_operator.runtime.scopes import Scope, Scopes
from muster_operator.runtime.waiting import pause, wait

_log = logging.getLogger("muster.operator.resync")


class Resync:
    def __init__(self, *, kube: Kube, cache: Cache, runner: Runner, clock: Clock, rand: Rand, scopes: Scopes) -> None:
        self._kube, self._cache, self._runner, self._clock, self._rand = kube, cache, runner, clock, rand
        self._scopes = scopes
        self._soon = {one: asyncio.Event() for one in scopes}
        self._decided = asyncio.Event()

    def ask(self, scope: Scope) -> None:
        """List the scope soon: its watch was restarted."""
        self._soon[scope].set()

    async def list_all(self) -> None:
        """List every scope once. Raises the first error, after all were tried."""
        errors = [error for scope in self._scopes if (error := await self._look(scope)) is not None]
        if errors:
            raise errors[0]

    async def run(self) -> None:
        """List every scope periodically until cancelled."""
        async with asyncio.TaskGroup() as group:
            for scope in self._scopes:
                group.create_task(self._keep(scope), name=f"lists of {scope.title}")

    async def begun(self) -> None:
        """Wait until work can start: a scope was listed, and each other one was listed, has refused us, or has run out
        of time. Requires that `run` is running."""
        started = self._clock.monotonic_ms()
        while True:
            scopes = list(self._scopes)
            late = self._clock.monotonic_ms() - started > FIRST_LIST_MAX_MS
            if any(one.listed_ms is not None for one in scopes) and (late or all(one.decided for one in scopes)):
                return
            self._decided.clear()
            await wait(self._decided, RELIST_MIN_MS)

    def wake_all(self) -> None:
        """Queue each of our objects."""
        self._runner.enqueue(self._cache.owners())

    async def _keep(self, scope: Scope) -> None:
        next_resync = self._clock.monotonic_ms() + self._varied(RESYNC_MS)
        in_vain = 0
        while True:
            error = await self._look(scope)
            incomplete = error is not None or bool(scope.undefined)
            in_vain = in_vain + 1 if incomplete else 0
            if incomplete:
                wait_ms = min(RELIST_MIN_MS << min(in_vain - 1, 16), RELIST_RETRY_MAX_MS)
            else:
                wait_ms = self._varied(RELIST_MS)
            if self._clock.monotonic_ms() >= next_resync:
                self._wake(scope)
                next_resync = self._clock.monotonic_ms() + self._varied(RESYNC_MS)
            await self._pause(scope, wait_ms)

    async def _look(self, scope: Scope) -> OperatorError | None:
        """List one scope; returns its error."""
        before = (scope.trouble is None, scope.undefined, scope.listed_ms is None)
        woken: set[OwnerKey] = set()
        try:
            undefined = await self._list(scope, woken)
        except OperatorError as error:
            scope.failed(error, self._clock.monotonic_ms())
            _log.warning("list failed", extra={"scope": scope.title, "error": str(error)})
            found: OperatorError | None = error
        else:
            scope.listed(undefined, self._clock.monotonic_ms())
            found = None
        self._runner.enqueue(woken)  # after a failed list too: the kinds before the error are in the cache
        if before != (found is None, scope.undefined, scope.listed_ms is None):
            names = ", ".join(sorted(kind.kind for kind in scope.undefined))
            _log.info("scope", extra={"scope": scope.title, "listed": found is None, "undefined": names})
            self._wake(scope)  # its objects' conditions must show it, or they may be reconciled again
        self._decided.set()
        return found

    async def _list(self, scope: Scope, woken: set[OwnerKey]) -> set[Kind]:
        """List every watched kind into the cache. Returns the kinds that are not defined, and adds the keys that need a
        pass to `woken`. Raises OperatorError."""
        undefined: set[Kind] = set()
        for kind in WATCHED:
            mark = self._cache.begin_list(kind, scope.namespace)
            try:
                found = await self._kube.list(
                    api_version=kind.api_version, kind=kind.kind, namespace=scope.namespace,
                    labels=selector_for(kind) or None,
                )  # fmt: skip
            except NotServed:
                self._cache.abandon_list(mark)
                if kind not in OWNERS:
                    raise
                undefined.add(kind)
            except BaseException:
                self._cache.abandon_list(mark)
                raise
            else:
                woken |= self._cache.finish_list(mark, found)
        return undefined

    def _wake(self, scope: Scope) -> None:
        self._runner.enqueue(key for key in self._cache.owners() if self._scopes.of(key.namespace) is scope)

    async def _pause(self, scope: Scope, milliseconds: int) -> None:
        """Wait at least RELIST_MIN_MS, then until the time is up or `ask` was called."""
        await pause(RELIST_MIN_MS)
        await wait(self._soon[scope], max(0, milliseconds - RELIST_MIN_MS))
        self._soon[scope].clear()

    def _varied(self, milliseconds: int) -> int:
        return int(milliseconds * self._rand.uniform(1 - JITTER, 1 + JITTER))
