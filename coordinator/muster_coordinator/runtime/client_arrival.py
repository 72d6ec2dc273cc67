"""A new socket of a listener of Kafka clients, until it is a `ClientConnection` or has ended.

It is admitted or refused by the limits of connections and accepts. One above the rate of accepts waits unread, and is
refused only if it would wait too long. On a listener with TLS an admitted connection handshakes first
(`tls_connection`), which counts as a connection; then it is a client as any other, known by its certificate if it has
shown one. What it does not do: read requests.
"""

import asyncio
import socket
from dataclasses import dataclass
from typing import Protocol, cast

from typing_extensions import override

from muster_coordinator.errors import CallerError, WireError
from muster_coordinator.events import CONNECTION_FAILED, Event
from muster_coordinator.limits import MIB
from muster_coordinator.quotas.admission import Admitted, Refused
from muster_coordinator.runtime.client_connection import ClientConnection, Door, Listener, Open
from muster_coordinator.runtime.tls_connection import Handshakes, TlsConnection
from muster_coordinator.runtime.tls_store import TlsStore
from muster_coordinator.security.principal_mapping import PrincipalRules
from muster_coordinator.wire.connection import ANONYMOUS

WRITE_HIGH_BYTES = MIB
"""Above this the transport's buffer takes no more. Further answers stay in the connection, and reading stops."""
WRITE_LOW_BYTES = MIB // 4


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How a listener encrypts."""

    store: TlsStore
    rules: PrincipalRules
    handshakes: Handshakes


class ArrivalListener(Listener, Protocol):
    """The part of `client_listener.ClientListener` that arrivals use."""

    tls: ClientTls | None

    def admit(self, address: str) -> Admitted | Refused:
        """Count a new connection, or say why it is refused."""

    def close_later(self, transport: asyncio.Transport, after_ms: int) -> None:
        """A refused socket of an address above its rate: it is neither read nor closed until then (KIP-612)."""

    def begun(self, client: Open) -> None:
        """The connection that was admitted."""

    def greeted(self, handshaking: Open, client: Open) -> None:
        """The same connection, now encrypted."""


class Arrival(asyncio.Protocol):
    """A new socket. It is refused, or a `ClientConnection` takes its place."""

    def __init__(self, listener: ArrivalListener, door: Door) -> None:
        self._listener = listener
        self._door = door

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from asyncio's.
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else "unknown"
        answer = self._listener.admit(address)
        if isinstance(answer, Refused):
            if answer.close_ms:
                self._listener.close_later(transport, answer.close_ms)
            else:
                transport.abort()
            return
        wait_seconds = answer.delay_ms / 1_000
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        if self._listener.tls is not None:
            tls = self._listener.tls
            self._listener.begun(Handshaking(self._listener, tls, transport, address, wait_seconds, self._door))
            return
        client = ClientConnection(self._listener, transport, address, wait_seconds, self._door)
        self._listener.begun(client)
        transport.set_protocol(client)


class Handshaking:
    """An admitted connection of a listener with TLS, until it is a `ClientConnection` or has ended."""

    def __init__(
        self,
        listener: ArrivalListener,
        tls: ClientTls,
        transport: asyncio.Transport,
        address: str,
        wait_seconds: float,
        door: Door,
    ) -> None:
        """`wait_seconds`: no handshake before."""
        self._listener = listener
        self._door = door
        self._tls = tls
        self._address = address
        self._connection = TlsConnection(
            transport, tls.store.server, tls.handshakes, ready=self._ready, failed=self._failed
        )
        transport.set_protocol(self._connection)
        self._timer: asyncio.TimerHandle | None = None
        if wait_seconds > 0:
            transport.pause_reading()
            self._timer = listener.loop.call_later(wait_seconds, self._connection.begin)
        else:
            self._connection.begin()

    def _ready(self, connection: TlsConnection) -> "ClientConnection | None":
        from muster_coordinator.runtime.tls_files import subject_of

        der = connection.certificate
        try:
            principal = ANONYMOUS if der is None else f"User:{self._tls.rules.user(subject_of(der))}"
        except (CallerError, WireError) as error:
            self._failed(str(error))
            return None
        client = ClientConnection(self._listener, connection, self._address, 0, self._door, principal)
        self._listener.greeted(self, client)
        return client

    def _failed(self, why: str) -> None:
        listener = self._listener
        if self._timer is not None:
            self._timer.cancel()
        listener.stats.handshakes += 1
        fields = {"listener": listener.name, "peer": self._address, "why": why}
        listener.tell(Event(CONNECTION_FAILED, fields))
        listener.gone(self, self._address)

    def close(self) -> None:
        """The listener stops: nobody waits for an answer."""
        self._connection.give_up("the listener stops")

    def abort(self) -> None:
        self._connection.give_up("the listener stops")
