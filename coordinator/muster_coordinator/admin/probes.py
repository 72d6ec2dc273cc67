"""`/livez`, `/readyz` and `/metrics`: read-only and without a token, on a port of their own (decision 28).

Live: the loop answers at all. Ready (decision 30): the replica has joined, knows a controller leader, has caught up
once in every Raft group since the start, and is not draining. A partition without quorum removes no replica from a
Service.

A page of metrics takes a tenth of a second with a thousand groups, so it is made in pieces, and the loop runs in
between; its lines are therefore not from one moment. A family may come in several pieces, which are joined on the page.
One page is made at a time.
"""

import asyncio
from collections.abc import Callable, Iterable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from typing_extensions import override

from muster_coordinator.admin.calls import next_turn
from muster_coordinator.admin.view import AdminReplica


class Probes:
    """Handlers over one replica. While `stopping()` is True it is not ready, though it still serves."""

    def __init__(self, replica: AdminReplica, registry: CollectorRegistry, *, stopping: Callable[[], bool]) -> None:
        self._replica = replica
        self._registry = registry
        self._stopping = stopping
        self._page = asyncio.Lock()

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/livez", self.live)
        app.router.add_get("/readyz", self.ready)
        app.router.add_get("/metrics", self.metrics)
        return app

    async def live(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def ready(self, request: web.Request) -> web.StreamResponse:
        reasons = self._replica.not_ready()
        if self._stopping():
            reasons = (*reasons, "stopping")
        if reasons:
            return web.Response(status=503, text="".join(f"{reason}\n" for reason in reasons))
        return web.Response(text="ok\n")

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        families: dict[str, list[bytes]] = {}
        async with self._page:
            for piece in self._registry.collect():
                parts = families.setdefault(piece.name, [])
                text = _written(piece)
                parts.append(_without_head(text) if parts else text)
                await next_turn()
        body = b"".join(part for parts in families.values() for part in parts)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


class _Family(Collector):
    """One family as a collector of its own."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    @override
    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def _written(family: Metric) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Family(family))
    return generate_latest(registry)


def _without_head(text: bytes) -> bytes:
    """The lines of a family without HELP and TYPE."""
    while text.startswith(b"#"):
        text = text.partition(b"\n")[2]
    return text
