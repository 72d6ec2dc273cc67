"""The keys that sign OAUTHBEARER's tokens, fetched from an https address or a file, off the loop (ADR 52).

Problem: keys are replaced while clients use them, and their server may hang, grow, or move. Mechanism: they are fetched
at the start, every `refresh_ms`, and when a token names one that is not known, but at most once in `JWKS_PAUSE_MS`, so
that made-up tokens cannot cause a fetch each. A fetch is limited in time and size, follows no redirect, and is parsed
in a thread. One that fails leaves the keys as they were and is an event of the log. The file with the authorities of
that server is read for each fetch, so that renewed ones count. Callers that ask while a fetch is
under way get its result. What this does not do: judge tokens (`security.oauth`), or take an address from anybody but
the configuration.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType

import aiohttp

from muster_coordinator.ports import Clock, Notice
from muster_coordinator.runtime import limits
from muster_coordinator.security.limits import JWKS_BYTES_MAX
from muster_coordinator.security.oauth import Keys, parse_jwks

FILE = "file://"
CA_FILE_KEY = "muster.sasl.oauthbearer.jwks.ca.file"


class JwksSource:
    """`security.oauth.KeySource`. Raises OSError, at its making, for a `ca_file` that cannot be used."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        url: str,
        *,
        ca_file: Path | None,
        refresh_ms: int,
        notice: Notice,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._url = url
        self._refresh_ms = refresh_ms
        self._notice = notice
        _trusting(ca_file)
        self._ca_file = ca_file
        self._keys: Keys = MappingProxyType({})
        self._fetching: asyncio.Task[None] | None = None
        self._asking: list[Callable[[bool], None]] = []
        self._tried_ms: int | None = None
        self._good = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Fetch now, and every `refresh_ms`."""
        self._timer = self._loop.call_later(self._refresh_ms / 1_000, self.start)
        self._fetch()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._fetching is not None:
            self._fetching.cancel()

    def keys(self) -> Keys:
        return self._keys

    def refresh(self, done: Callable[[bool], None]) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._fetching is None and self._tried_ms is not None and now_ms - self._tried_ms < limits.JWKS_PAUSE_MS:
            done(self._good)
            return
        self._asking.append(done)
        self._fetch()

    def _fetch(self) -> None:
        if self._fetching is None:
            self._tried_ms = self._clock.monotonic_ms()
            self._fetching = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(limits.JWKS_MS_MAX / 1_000):
                self._keys = await asyncio.to_thread(parse_jwks, await self._read())
            self._good = True
        except (OSError, aiohttp.ClientError, TimeoutError, ValueError) as error:
            self._good = False
            details: Mapping[str, object] = {"url": self._url, "why": str(error) or type(error).__name__}
            self._notice("the keys of tokens cannot be fetched", details, None)
        finally:
            self._fetching = None
        asking, self._asking = self._asking, []
        for done in asking:
            done(self._good)

    async def _read(self) -> bytes:
        if self._url.startswith(FILE):
            return await asyncio.to_thread(_read_file, Path(self._url.removeprefix(FILE)))
        # Made anew for each fetch: the authorities in the file are renewed while the process runs.
        tls = await asyncio.to_thread(_trusting, self._ca_file)
        async with (
            aiohttp.ClientSession() as session,
            session.get(self._url, allow_redirects=False, ssl=tls) as answer,
        ):
            if answer.status != HTTPStatus.OK:
                raise ValueError(f"HTTP status {answer.status}")
            body = bytearray()
            async for part in answer.content.iter_any():
                body += part
                if len(body) > JWKS_BYTES_MAX:
                    raise ValueError(f"more than {JWKS_BYTES_MAX} bytes")
            return bytes(body)


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:
        raise OSError(f"{CA_FILE_KEY}={ca_file}: {error.strerror or error}") from error


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(JWKS_BYTES_MAX + 1)
