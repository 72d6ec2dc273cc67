"""One kopf operator (`handlers`) per scope, on its own thread and event loop.

kopf lists, watches, reconnects, keeps bookmarks and logs in. It is made for a process of its own: one refused watch
(403, 404) ends the whole kopf operator, and its end cancels every task on its event loop. So each scope has its own
kopf and loop, which may end without any other part of the operator.

One name that kopf does not export is used: `Insights`, an argument of `kopf.operator`, which shows what it watches. It
fits kopf 1.45; `tests/operator/runtime/test_kopf_watch.py` fails where an installed release has changed it.
"""

import asyncio
import logging
import threading
from typing import Any

import kopf
from kopf._cogs.structs.references import Insights

from muster_operator.handlers import Memo, Observe, registry
from muster_operator.kube.kinds import Kind
from muster_operator.kube.login import Login
from muster_operator.limits import WATCH_STOP_MAX_S

_log = logging.getLogger("muster.operator.watches")
Untyped = Any


class KopfWatch:
    """A `runtime.watches.Watch`. `observe` is called on the event loop that calls `run`; `namespace`: "" for all."""

    def __init__(self, *, namespace: str, kinds: frozenset[Kind], observe: Observe, login: Login) -> None:
        self._namespace, self._kinds, self._observe, self._login = namespace, kinds, observe, login
        self._insights: Insights | None = None
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def live(self) -> frozenset[Kind]:
        """Kinds that kopf has found and watches. If a watch is refused, `run` ends."""
        insights = self._insights
        if insights is None or not insights.ready_resources.is_set():
            return frozenset()
        found = {(one.group, one.version, one.plural) for one in insights.watched_resources.copy()}
        return frozenset(kind for kind in self._kinds if (kind.group, kind.version, kind.plural) in found)

    async def run(self) -> None:
        """See `runtime.watches.Watch`."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def observe(kind: Kind, change: str | None, body: Untyped) -> None:
            loop.call_soon_threadsafe(self._hand_over, kind, change, body)

        def tell(error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(None) if error is None else ended.set_exception(error)

        def thread() -> None:
            error: BaseException | None = None
            try:
                asyncio.run(self._kopf(observe))
            except asyncio.CancelledError:
                pass
            except Exception as caught:  # noqa: BLE001 (handed to the caller)
                error = caught
            self._insights = None
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell, error)

        threading.Thread(target=thread, name=f"kopf {self._namespace}", daemon=True).start()
        try:
            await asyncio.shield(ended)
        finally:
            self._end()
            done, _ = await asyncio.wait([ended], timeout=WATCH_STOP_MAX_S)
            if done and not ended.cancelled():
                ended.exception()  # retrieved: `run` has raised it already, or no caller awaits this watch any more
            if not done:
                _log.warning("a watch does not end", extra={"scope": self._namespace})

    def _hand_over(self, kind: Kind, change: str | None, body: Untyped) -> None:
        if not self._stopped:  # events of a stopped watch are dropped: its successor has newer ones
            self._observe(kind, change, body)

    def _end(self) -> None:
        with self._lock:
            self._stopped = True
            if self._stop is not None:
                loop, flag = self._stop
                loop.call_soon_threadsafe(flag.set)

    async def _kopf(self, observe: Observe) -> None:
        stop = asyncio.Event()
        with self._lock:
            if self._stopped:
                return
            self._stop = (asyncio.get_running_loop(), stop)
        self._insights = Insights()
        try:
            await kopf.operator(
                registry=registry,
                memo=Memo(observe=observe, login=self._login),
                standalone=True,
                namespaces=[self._namespace] if self._namespace else [],
                clusterwide=not self._namespace,
                insights=self._insights,
                stop_flag=stop,
            )
        finally:
            with self._lock:
                self._stop = None
