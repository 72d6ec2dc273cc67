"""HTTP to the API server: aiohttp, which kopf uses too. Every call has a time-out, and a bounded number run at a time.

Credentials come from `Login`; they are read again every minute, and at once when the API server answers 401: a
projected token is rotated long before it expires, and a request that was refused with the old token is repeated once
with the new one. Objects are plain dictionaries.

A call is repeated once if no connection could be made. aiohttp itself repeats GET, PUT and DELETE once if the
connection breaks, since kept-alive connections go stale; our PUT and DELETE carry a resource version or uid, so a
repetition cannot do more than the first request. Every other retry is the caller's decision.

A client belongs to one event loop.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Self

import aiohttp
import kopf

from muster_operator.errors import Transient
from muster_operator.kube.answers import Answer, decode
from muster_operator.kube.login import Login
from muster_operator.limits import (
    KUBE_CONNECT_TIMEOUT_S,
    KUBE_CONNECTIONS_MAX,
    KUBE_LOGIN_AGE_MAX_MS,
    KUBE_READ_TIMEOUT_S,
)
from muster_operator.ports import Clock

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json"
_HEADERS = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "muster-operator"}
_DECODED_HERE_BYTES_MAX = 256 * 1024
"""Longer answers (pages of a list) are decoded on a thread, so that they do not block the event loop."""

Observer = Callable[[str, str, int, float], None]
"""(verb, kind, HTTP status or 0, seconds) of every call, for metrics."""


class ApiClient:
    """`call` sends one request and returns the answer, whatever its status; it raises Transient if there is none. Call
    `close` at the end."""

    def __init__(
        self, login: Login, *, clock: Clock, observe: Observer, connections: int = KUBE_CONNECTIONS_MAX
    ) -> None:
        self._login = login
        self._clock = clock
        self._observe = observe
        self._turn = asyncio.Semaphore(connections)
        self._logging_in = asyncio.Lock()
        self._info: kopf.ConnectionInfo | None = None
        self._since_ms = 0
        self._tls: ssl.SSLContext | bool = True
        self._session: aiohttp.ClientSession | None = None

    async def call(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        kind: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        read_timeout_s: float = KUBE_READ_TIMEOUT_S,
    ) -> Answer:
        """Raises Transient if no answer came; it is unknown then whether a write was carried out."""

        async def send(info: kopf.ConnectionInfo) -> Answer:
            return await self._send(info, method, path, query, body, content_type, read_timeout_s)

        async with self._turn:
            started = self._clock.monotonic_ms()
            status = 0
            try:
                info = await self._connection(read_timeout_s)
                answer = await _twice(send, info)
                if answer.status == HTTPStatus.UNAUTHORIZED:
                    answer = await _twice(send, await self._connection(read_timeout_s, refused=info))
                status = answer.status
            except (aiohttp.ClientError, OSError, ValueError) as error:  # TimeoutError is an OSError
                if isinstance(error, aiohttp.ClientSSLError):
                    self._info = None  # the trusted certificate authority may have changed
                what = type(error).__name__
                raise Transient("ApiUnreachable", f"{verb} {kind}: no answer from the API server ({what})") from error
            finally:
                self._observe(verb, kind, status, (self._clock.monotonic_ms() - started) / 1_000)
        return answer

    async def _connection(self, timeout_s: float, *, refused: kopf.ConnectionInfo | None = None) -> kopf.ConnectionInfo:
        """The credentials to use now. If several requests were refused with the same ones, only one logs in again.
        Raises Transient, and TimeoutError if a credential plug-in does not answer."""
        async with asyncio.timeout(timeout_s), self._logging_in:
            known, now = self._info, self._clock.monotonic_ms()
            anew = known is not None and known is refused
            if known is not None and not anew and now - self._since_ms < KUBE_LOGIN_AGE_MAX_MS:
                return known
            info = await asyncio.to_thread(self._login.connection, anew=anew)
            if known is None or anew or _trust(info) != _trust(known):
                self._tls = await asyncio.to_thread(info.as_ssl_context) if info.server.startswith("https:") else True
            self._info, self._since_ms = info, now
            return info

    async def _send(
        self,
        info: kopf.ConnectionInfo,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        content_type: str,
        read_timeout_s: float,
    ) -> Answer:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
            self._session = aiohttp.ClientSession(connector=connector, headers=_HEADERS)
        headers = info.as_http_headers() | ({"Content-Type": content_type} if body is not None else {})
        async with self._session.request(
            method,
            info.server.rstrip("/") + path,
            params=query,
            json=body,
            headers=headers,
            ssl=self._tls,
            proxy=info.proxy_url,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=KUBE_CONNECT_TIMEOUT_S
                + 2 * read_timeout_s,  # bounds an answer that arrives slowly, piece by piece
                connect=KUBE_CONNECT_TIMEOUT_S,
                sock_read=read_timeout_s,
            ),
        ) as response:
            data = await response.read()
            retry_after = response.headers.get("Retry-After")
            if len(data) > _DECODED_HERE_BYTES_MAX:
                return await asyncio.to_thread(decode, response.status, data, retry_after)
            return decode(response.status, data, retry_after)

    async def close(self) -> None:
        """Call it last; a call in progress fails."""
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _trust(info: kopf.ConnectionInfo) -> tuple[object, ...]:
    """The fields that the TLS context is made from."""
    return info.server, info.ca_path, info.insecure, info.certificate_path, info.private_key_path


async def _twice(send: Callable[[kopf.ConnectionInfo], Awaitable[Answer]], info: kopf.ConnectionInfo) -> Answer:
    """Repeat once if no connection was made. A call that timed out is not repeated."""
    try:
        return await send(info)
    except aiohttp.ServerTimeoutError:
        raise
    except aiohttp.ClientConnectorError:
        return await send(info)
