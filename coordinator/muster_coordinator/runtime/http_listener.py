"""An HTTP port that unauthenticated clients cannot exhaust: an aiohttp application with timeouts and a bound.

Problem: aiohttp waits for ever for the rest of a partial request, accepts as many connections as there are descriptors,
and logs a traceback for each malformed request; and no client is authenticated before its first header. Mechanism: each
connection has a deadline. The request's head must be complete within `limits.HTTP_HEAD_MS`, its body and answer within
`limits.HTTP_REQUEST_MS`, and between two requests a connection may idle for `limits.HTTP_IDLE_MS`. At
`limits.HTTP_CONNECTIONS_MAX` the oldest connection that is not being answered is closed, so a probe still gets in.
aiohttp's log records become notices: one line without a traceback, unless the error is ours. With TLS
(`tls_connection`) a connection handshakes first, at most as many at once as may be open, each within the time of a
head; a failed one is a notice. What it does not do: limits by peer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from typing_extensions import override

from muster_coordinator.errors import EnvironmentFault
from muster_coordinator.limits import ERROR_MESSAGE_CHARS_MAX
from muster_coordinator.ports import Notice
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.tls_connection import Handshakes, TlsConnection
from muster_coordinator.runtime.tls_store import TlsStore

FAILED = "an HTTP request failed"
_Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpListener:
    """One port: call `listen`, later `close`."""

    def __init__(
        self,
        application: web.Application,
        *,
        name: str,
        notice: Notice,
        tls: TlsStore | None = None,
        head_ms: int = limits.HTTP_HEAD_MS,
        request_ms: int = limits.HTTP_REQUEST_MS,
        connections_max: int = limits.HTTP_CONNECTIONS_MAX,
    ) -> None:
        """Durations in milliseconds; `name` says which port it is."""
        application.middlewares.insert(0, self._timed)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=1.0,
            logger=_Told(name, notice),
            keepalive_timeout=limits.HTTP_IDLE_MS / 1_000,
            lingering_time=limits.HTTP_LINGER_MS / 1_000,
        )
        self._name = name
        self._notice = notice
        self._tls = tls
        self._shaking: set[TlsConnection] = set()
        """Connections that have not finished their handshake."""
        self.head_ms = head_ms
        self._request_ms = request_ms
        self._connections_max = connections_max
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.BaseTransport, _Connection] = {}
        """In the order in which they were opened."""

    async def listen(self, host: str, port: int) -> int:
        """Returns the port. Raises `EnvironmentFault` when the address cannot be bound."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        inner = cast(Callable[[], asyncio.Protocol], self._runner.server)

        def plain() -> asyncio.Protocol:
            return _Connection(self, inner())

        tls, factory = self._tls, plain
        if tls is not None:
            most, ms = self._connections_max, self.head_ms
            handshakes = Handshakes(loop, open_max=most, timeout_ms=ms)
            factory = lambda: _Arrival(self, tls, handshakes, plain)  # noqa: E731
        try:
            self._server = await loop.create_server(
                factory, host, port, reuse_address=True, backlog=limits.LISTEN_BACKLOG
            )
        except OSError as error:
            raise EnvironmentFault(f"cannot listen for {self._name} on {host}:{port}: {error}") from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """May be called after a failed `listen`, too."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._shaking):
            connection.give_up("the listener stops")
        await self._runner.cleanup()

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._open)

    # -- called by the connections

    def opened(self, connection: "_Connection", transport: asyncio.Transport) -> bool:
        """Admit a connection, in place of the oldest idle one if there is no room. False: every open connection is
        being answered."""
        if len(self._open) >= self._connections_max:
            oldest = next((one for one in self._open.values() if not one.busy), None)
            if oldest is None:
                return False
            oldest.end()
        self._open[transport] = connection
        return True

    def shakes(self, connection: TlsConnection) -> None:
        """A handshake has begun."""
        self._shaking.add(connection)

    def shaken(self, connection: TlsConnection, why: str | None) -> None:
        """It is over; `why` it failed."""
        self._shaking.discard(connection)
        if why is not None:
            self._notice(FAILED, {"port": self._name, "why": why[:ERROR_MESSAGE_CHARS_MAX]}, None)

    def gone(self, transport: asyncio.BaseTransport | None) -> None:
        """A connection was closed. Does nothing for one that was not admitted."""
        if transport is not None:
            self._open.pop(transport, None)

    @web.middleware
    async def _timed(self, request: web.Request, handler: _Answer) -> web.StreamResponse:
        connection = None if request.transport is None else self._open.get(request.transport)
        if connection is not None:
            connection.answering()
        try:
            async with asyncio.timeout(self._request_ms / 1_000):
                return await handler(request)
        except TimeoutError:
            answer = web.Response(status=408, text="the request was not complete in time\n")
            answer.force_close()
            return answer
        finally:
            if connection is not None:
                connection.answered()


class _Arrival(asyncio.Protocol):
    """A socket of a port with TLS, for which `TlsConnection` speaks from then on."""

    def __init__(
        self, listener: HttpListener, tls: TlsStore, handshakes: Handshakes, above: Callable[[], asyncio.Protocol]
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._handshakes = handshakes
        self._above = above

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw, listener = cast(asyncio.Transport, transport), self._listener

        def ready(done: TlsConnection) -> asyncio.Protocol:
            listener.shaken(done, None)
            return self._above()

        def failed(why: str) -> None:
            listener.shaken(connection, why)

        connection = TlsConnection(raw, self._tls.server, self._handshakes, ready=ready, failed=failed)
        listener.shakes(connection)
        raw.set_protocol(connection)
        connection.begin()


class _Connection(asyncio.Protocol):
    """aiohttp's protocol with a deadline."""

    def __init__(self, listener: HttpListener, inner: asyncio.Protocol) -> None:
        self._listener = listener
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._resting = False
        self.busy = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        admitted = self._listener.opened(self, transport)
        self._inner.connection_made(transport)
        if admitted:
            self._arm(self._listener.head_ms)
        else:
            transport.abort()

    @override
    def data_received(self, data: bytes) -> None:
        if self._resting:
            self._resting = False
            self._arm(self._listener.head_ms)
        self._inner.data_received(data)

    @override
    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    @override
    def pause_writing(self) -> None:
        self._inner.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._inner.resume_writing()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._listener.gone(self._transport)
        self._inner.connection_lost(exc)

    def answering(self) -> None:
        """The head is complete: from now on the request's own timeout applies."""
        self.busy = True
        self._disarm()

    def answered(self) -> None:
        """The answer is sent: the idle timeout applies until the next request."""
        self.busy = False
        self._resting = True
        self._arm(limits.HTTP_IDLE_MS)

    def end(self) -> None:
        """Close: a timeout has expired, or another connection needs the place."""
        self._disarm()
        self._listener.gone(self._transport)
        if self._transport is not None:
            self._transport.abort()

    def _arm(self, ms: int) -> None:
        self._disarm()
        self._timer = asyncio.get_running_loop().call_later(ms / 1_000, self.end)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Told(logging.Logger):
    """The logger that aiohttp uses for one port: it turns every record into a notice."""

    def __init__(self, name: str, notice: Notice) -> None:
        super().__init__(f"{__name__}.{name}", logging.WARNING)
        self._port = name
        self._notice = notice

    @override
    def handle(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        theirs = error is None or isinstance(error, HttpProcessingError | ConnectionError)
        text = record.getMessage() if error is None else f"{type(error).__name__}: {error}"
        details = {"port": self._port, "why": text[:ERROR_MESSAGE_CHARS_MAX]}
        self._notice(FAILED, details, None if theirs else error)
