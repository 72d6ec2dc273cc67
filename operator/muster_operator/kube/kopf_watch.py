"""kopf's watches of some kinds in one scope, on a thread and an event loop of their own.

kopf lists, watches, reconnects, keeps bookmarks and logs in; its handlers (`kopf.on.event`) hand every event over. It
is made for a process of its own: one watch that is refused (403, 404) ends all, and its end cancels every task on its
event loop. So each scope has a kopf with its own loop, which may end without any other part of the operator.

Its scanning is off: it would watch definitions and namespaces, which are cluster-wide rights that a namespaced role
does not have, and it does not help with a role that is lost or with a definition that goes while it is watched. The
kinds are chosen by who starts a watch; kopf's own look at the API (discovery) then finds them.

One name that kopf does not export is used: `Insights`, an argument of `kopf.operator`, which tells what it watches.
A test on a real API server holds it for the release that is installed.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

import kopf
from kopf._cogs.structs.references import Insights

from muster_operator.kube.client import configuration
from muster_operator.kube.kinds import Kind, selector_for, selector_text
from muster_operator.limits import WATCH_STOP_MAX_S

_log = logging.getLogger("muster.operator.watches")
Untyped = Any
Observe = Callable[[Kind, str | None, Untyped], None]
"""(kind, ADDED, MODIFIED, DELETED or None for the first list, object)."""
_WATCH_SERVER_TIMEOUT_S: Final = 300


class KopfWatch:
    """A `runtime.watches.Watch`. `observe` is called on the event loop that calls `run`; `namespace` "" for all."""

    def __init__(self, *, namespace: str, kinds: frozenset[Kind], observe: Observe, kubeconfig: str | None) -> None:
        self._namespace, self._kinds, self._observe, self._kubeconfig = namespace, kinds, observe, kubeconfig
        self._insights: Insights | None = None
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def live(self) -> frozenset[Kind]:
        """Kinds that kopf has found and watches; a watch that is refused ends `run`."""
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
                ended.exception()  # told already, or of a watch that nobody asks any more
            if not done:
                _log.warning("a watch does not end", extra={"scope": self._namespace})

    def _hand_over(self, kind: Kind, change: str | None, body: Untyped) -> None:
        if not self._stopped:  # a watch that was ended says nothing more: its successor knows better
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
                registry=build_registry(self._kinds, observe, lambda: connection(self._kubeconfig)),
                settings=kopf_settings(self._kinds),
                standalone=True,
                namespaces=[self._namespace] if self._namespace else [],
                clusterwide=not self._namespace,
                insights=self._insights,
                stop_flag=stop,
            )
        finally:
            with self._lock:
                self._stop = None


def connection(kubeconfig: str | None) -> kopf.ConnectionInfo:
    """The very credentials of the other client, read anew: kopf asks again when the API server answers 401."""
    found = configuration(kubeconfig)
    key = (found.auth_settings().get("BearerToken") or {}).get("value") or ""
    scheme, _, token = str(key).rpartition(" ")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        insecure=not found.verify_ssl,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
        scheme=scheme or None,
        token=token or None,
    )


def build_registry(
    kinds: frozenset[Kind], observe: Observe, connect: Callable[[], kopf.ConnectionInfo]
) -> kopf.OperatorRegistry:
    """A registry with one login and one watch for each kind; nothing is registered globally."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Untyped) -> kopf.ConnectionInfo:
        return connect()

    for kind in sorted(kinds, key=lambda one: one.kind):
        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=kind.plural)(_watcher(kind, observe))
    return registry


def _watcher(kind: Kind, observe: Observe) -> Untyped:
    async def seen(event: Untyped, **_: Untyped) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **event["object"]}
        observe(kind, event["type"], body)

    return seen


def kopf_settings(kinds: frozenset[Kind]) -> kopf.OperatorSettings:
    """Watching only: nothing that writes, nothing that reads more than our own kinds and what carries our labels."""
    found = kopf.OperatorSettings()
    found.posting.enabled = False
    found.scanning.disabled = True
    found.watching.server_timeout = _WATCH_SERVER_TIMEOUT_S
    found.watching.reconnect_backoff = 1.0
    for kind in kinds:
        selector = selector_for(kind)
        if selector:
            found.watching.label_selectors[kind.group, kind.version, kind.plural] = selector_text(selector)
    return found
