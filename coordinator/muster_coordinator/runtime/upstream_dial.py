"""Connections to brokers of the upstream: TCP, then TLS, then a login, and then the protocol that wanted it (ADR 96).

Problem: what uses such a connection must not know whether it is encrypted, or who the replica is there; and a broker
that hangs in the middle must cost no more than one that is away. Mechanism: the protocol is told of its connection when
all of that is done. Certificate and name of the broker are always verified; files are looked at for each connection.
What this does not do: set a time-out (its callers do, by cancelling), or log in again when a session ends.
"""

import asyncio
import base64
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from typing_extensions import override

from muster_coordinator.errors import WireError
from muster_coordinator.runtime.client_context import context_of
from muster_coordinator.runtime.tls_connection import Handshakes, TlsConnection
from muster_coordinator.security.limits import NONCE_BYTES
from muster_coordinator.upstream import limits
from muster_coordinator.upstream.account import Account
from muster_coordinator.upstream.login import Login

_SIZE = struct.Struct(">i")
Made = Callable[[], asyncio.Protocol]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files."""

    ca: Path | None
    """None: the system's authorities."""
    keystore: Path | None
    """Certificate chain and private key; None: no certificate is shown."""
    key_password: str
    key: Path | None = None
    """Private key; None: it is in the keystore."""

    def paths(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.ca, self.keystore, self.key) if path is not None)


class UpstreamDialler:
    """How one upstream is connected to."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, handshakes: Handshakes, tls: TlsFiles | None, account: Account | None
    ) -> None:
        self._loop = loop
        self._handshakes = handshakes
        self._tls = tls
        self._account = account

    async def connect(self, address: tuple[str, int], made: Made) -> None:
        """The protocol is `made`, and told of its connection, before this returns. Raises `OSError`, and `WireError`
        if the broker refuses the login."""
        if self._tls is None and self._account is None:
            await self._open(made, address)
            return
        done: asyncio.Future[None] = self._loop.create_future()
        context = None
        if self._tls is not None:
            files = (self._tls.ca, self._tls.keystore, self._tls.key)
            ca, keystore, key = (None if path is None else str(path) for path in files)
            context = context_of(ca, keystore, key, self._tls.key_password)
        transport = await self._open(asyncio.Protocol, address)
        top = made if self._account is None else self._logging_in(self._account, made, done)
        try:
            if context is None:
                above = top()
                transport.set_protocol(above)
                above.connection_made(transport)
            else:
                encrypted = TlsConnection(
                    transport,
                    context,
                    self._handshakes,
                    ready=lambda _: _when_made(top(), None if self._account is not None else done),
                    failed=lambda why: _fail(done, ConnectionError(why)),
                    server_side=False,
                    host=address[0],
                )
                transport.set_protocol(encrypted)
                encrypted.begin()
            await done
        except BaseException:
            transport.abort()
            raise

    async def _open(self, made: Made, address: tuple[str, int]) -> asyncio.Transport:
        """A TCP connection. A broker tells the others' names and ports, also such that cannot be any."""
        try:
            transport, _ = await self._loop.create_connection(made, *address)
        except (ValueError, OverflowError) as error:
            raise ConnectionError(f"{address[0]!r}:{address[1]} is no address: {error}") from error
        return transport

    @staticmethod
    def _logging_in(account: Account, made: Made, done: "asyncio.Future[None]") -> Made:
        return lambda: _LoggingIn(Login(account, _nonce), made, done)


def _nonce() -> str:
    return base64.b64encode(os.urandom(NONCE_BYTES)).decode()


def _fail(done: "asyncio.Future[None]", error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _when_made(protocol: asyncio.Protocol, done: "asyncio.Future[None] | None") -> asyncio.Protocol:
    """The caller of `TlsConnection`'s `ready` tells the protocol of its connection before anything else runs."""
    if done is not None and not done.done():
        done.set_result(None)
    return protocol


class _LoggingIn(asyncio.Protocol):
    """Logs in, and is a part of the way to the protocol that wanted the connection from then on."""

    def __init__(self, login: Login, made: Made, done: "asyncio.Future[None]") -> None:
        self._login = login
        self._made = made
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._data = b""
        self._above: asyncio.Protocol | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._login.begin())

    @override
    def data_received(self, data: bytes) -> None:
        if self._above is not None:
            self._above.data_received(data)
            return
        self._data += data
        try:
            self._read()
        except WireError as error:
            _fail(self._done, error)

    def _read(self) -> None:
        """One answer at a time, since the next request follows from it."""
        if len(self._data) < _SIZE.size or self._transport is None or self._done.done():
            return
        size: int = _SIZE.unpack_from(self._data)[0]
        if not 0 < size <= limits.LOGIN_ANSWER_BYTES_MAX:
            raise WireError(f"an answer of {size} bytes to a login")
        stop = _SIZE.size + size
        if len(self._data) < stop:
            return
        frame, self._data = self._data[:stop], self._data[stop:]
        request = self._login.receive(frame)
        if self._data:
            raise WireError("more than one answer to a login")
        if request is not None:
            self._transport.write(request)
            return
        self._above = self._made()
        self._above.connection_made(self._transport)
        self._done.set_result(None)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._above is not None:
            self._above.connection_lost(exc)
        _fail(self._done, ConnectionError(f"it closed the connection during the login: {exc or 'without a word'}"))

    @override
    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    @override
    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()
