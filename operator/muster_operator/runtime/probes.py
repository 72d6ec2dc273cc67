"""/livez, /readyz and /metrics on one read-only port."""

from collections.abc import Callable

from aiohttp import web

from muster_operator.runtime.health import Pulse, not_live, not_ready
from muster_operator.runtime.metrics import Metrics


class Probes:
    """`pulse` is called for every request; `before_metrics` refreshes gauges before a scrape."""

    def __init__(self, *, pulse: Callable[[], Pulse], metrics: Metrics, before_metrics: Callable[[], None]) -> None:
        self._pulse = pulse
        self._metrics = metrics
        self._before_metrics = before_metrics
        app = web.Application()
        app.add_routes(
            [
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._exposition),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        return _verdict(not_live(self._pulse()))

    async def _readyz(self, _: web.Request) -> web.Response:
        return _verdict(not_ready(self._pulse()))

    async def _exposition(self, _: web.Request) -> web.Response:
        self._before_metrics()
        return web.Response(body=self._metrics.exposition(), headers={"Content-Type": "text/plain; version=0.0.4"})


def _verdict(reasons: list[str]) -> web.Response:
    return web.Response(status=503 if reasons else 200, text="\n".join(reasons or ["ok"]) + "\n")
