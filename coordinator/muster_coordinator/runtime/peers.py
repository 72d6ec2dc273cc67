"""TCP under the peer links: dials, listens, sets socket options, and hands bytes to `links.mesh.Mesh`.

It decides only on socket options: TCP_NODELAY (a turn's messages are one write already); keep-alive and
TCP_USER_TIMEOUT, so that the connection to a peer behind a network partition ends (else TCP retransmits ever more
rarely, and the link stays stuck long after the partition); TCP_NOTSENT_LOWAT, so that a heartbeat does not queue behind
megabytes in the kernel. Names are resolved at each dial, because a pod that moved has another address.

With TLS both sides show a certificate of the configured CAs. The dialler checks the host that it dials, the acceptor
that the certificate covers the host at which it would dial whoever the other side says it is. While a cluster changes
over, the first byte of an accepted connection says whether it is encrypted.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from typing_extensions import override

from muster_coordinator.errors import EnvironmentFault, WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import LINK_WRITE_BYTES
from muster_coordinator.links.limits import LINK_HANDSHAKE_TIMEOUT_MS, LINK_HANDSHAKES_MAX
from muster_coordinator.links.link import Link
from muster_coordinator.links.mesh import Dialler, Mesh
from muster_coordinator.runtime.limits import LINK_UNACKNOWLEDGED_MS, LISTEN_BACKLOG
from muster_coordinator.runtime.tls_connection import TLS_FIRST_BYTE, Handshakes, TlsConnection
from muster_coordinator.runtime.tls_store import TlsStore
from muster_coordinator.security.certificates import covers

_KEEPALIVE = (
    ("TCP_KEEPIDLE", 5),
    ("TCP_KEEPINTVL", 2),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", LINK_UNACKNOWLEDGED_MS),
)
_NOTSENT_LOWAT_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class PeerTls:
    """How peer links are encrypted."""

    store: TlsStore
    handshakes: Handshakes
    dials: bool
    """With TLS, or without it."""
    plain: bool
    """Are connections without TLS accepted, too?"""
    refused: Callable[[str], None]
    """An accepted connection's handshake failed: why."""


class TcpPeers:
    """The `Dialler` of a mesh, and its listener. Call `close` at the end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        addresses: Mapping[BrokerId, tuple[str, int]],
        make_mesh: Callable[[Dialler], Mesh],
        tls: PeerTls | None = None,
    ) -> None:
        """`make_mesh` is called once, with this."""
        self._loop = loop
        self._addresses = dict(addresses)
        self._server: asyncio.Server | None = None
        self._attempts: set[_Attempt] = set()
        self.tls = tls
        self.unknown = 0
        """Accepted connections whose first byte has not come."""
        self.mesh = make_mesh(self)

    async def listen(self, host: str, port: int) -> int:
        """Accept peers; returns the port. Raises `EnvironmentFault` when the address cannot be bound."""
        try:
            self._server = await self._loop.create_server(
                self._arrival, host, port, backlog=LISTEN_BACKLOG, reuse_address=True
            )
        except OSError as error:
            raise EnvironmentFault(f"cannot listen for peers on {host}:{port}: {error}") from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def dial(self, peer: BrokerId) -> "_Attempt":
        attempt = _Attempt(self, peer)
        self._attempts.add(attempt)
        attempt.task = self._loop.create_task(self._connect(attempt))
        return attempt

    def locate(self, peer: BrokerId, host: str, port: int) -> None:
        self._addresses[peer] = (host, port)

    def close(self) -> None:
        """Stop listening and dialling. The mesh closes its links itself."""
        if self._server is not None:
            self._server.close()
        for attempt in list(self._attempts):
            attempt.cancel()

    def _arrival(self) -> asyncio.Protocol:
        return _Connection(self, None) if self.tls is None else _Arrival(self, self.tls)

    def call_later(self, ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(ms / 1_000, call)

    def speaker(self, der: bytes | None) -> Callable[[BrokerId], bool]:
        """For whom this certificate may speak. Of a broker at an unknown address, which asks to join, the CA's word is
        all there is."""
        from muster_coordinator.runtime.tls_files import hosts_of

        try:
            hosts = hosts_of(der) if der is not None else ()
        except WireError:
            hosts = ()

        def speaks_for(broker: BrokerId) -> bool:
            address = self._addresses.get(broker)
            return address is None or any(covers(name, address[0]) for name in hosts)

        return speaks_for

    async def _connect(self, attempt: "_Attempt") -> None:
        host, port = self._addresses[attempt.peer]
        try:
            if self.tls is not None and self.tls.dials:
                transport, _ = await self._loop.create_connection(asyncio.Protocol, host, port)
                self._encrypt(self.tls, attempt, transport, host)
            else:
                await self._loop.create_connection(lambda: _Connection(self, attempt), host, port)
        except OSError:
            if self.finish(attempt):
                self.mesh.dial_failed(attempt.peer)

    def _encrypt(self, tls: PeerTls, attempt: "_Attempt", transport: asyncio.Transport, host: str) -> None:
        context = tls.store.client
        if attempt not in self._attempts or context is None:
            transport.abort()
            return

        def failed(why: str) -> None:
            if self.finish(attempt):
                tls.refused(f"the dial of broker {attempt.peer}: {why}")
                self.mesh.dial_failed(attempt.peer)

        attempt.encrypting = TlsConnection(
            transport,
            context,
            tls.handshakes,
            ready=lambda _: _Connection(self, attempt),
            failed=failed,
            server_side=False,
            host=host,
        )
        transport.set_protocol(attempt.encrypting)
        attempt.encrypting.begin()

    def finish(self, attempt: "_Attempt") -> bool:
        """End an attempt. True at the first call, False if it has ended or was cancelled before."""
        if attempt not in self._attempts:
            return False
        self._attempts.remove(attempt)
        return True


class _Attempt:
    """`links.mesh.Attempt` over a task."""

    __slots__ = ("_peers", "encrypting", "peer", "task")

    def __init__(self, peers: TcpPeers, peer: BrokerId) -> None:
        self._peers = peers
        self.peer = peer
        self.task: asyncio.Task[None] | None = None
        self.encrypting: TlsConnection | None = None

    def cancel(self) -> None:
        if self._peers.finish(self) and self.task is not None:
            self.task.cancel()
            if self.encrypting is not None:
                self.encrypting.abort()


class _Arrival(asyncio.Protocol):
    """An accepted connection until it is known whether it is encrypted."""

    def __init__(self, peers: TcpPeers, tls: PeerTls) -> None:
        self._peers = peers
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        if not self._tls.plain:
            self._encrypt(transport, b"")
        elif self._peers.unknown >= LINK_HANDSHAKES_MAX:
            transport.abort()
        else:
            self._peers.unknown += 1
            self._timer = self._peers.call_later(LINK_HANDSHAKE_TIMEOUT_MS, transport.abort)

    def _known(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._peers.unknown -= 1

    @override
    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        self._known()
        if data[0] == TLS_FIRST_BYTE:
            self._encrypt(transport, data)
            return
        connection = _Connection(self._peers, None)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        connection.data_received(data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._known()

    def _encrypt(self, transport: asyncio.Transport, data: bytes) -> None:
        tls = self._tls
        connection = TlsConnection(
            transport,
            tls.store.server,
            tls.handshakes,
            ready=lambda _: _Connection(self._peers, None),
            failed=tls.refused,
        )
        transport.set_protocol(connection)
        connection.begin()
        if data:
            connection.data_received(data)


class _Connection(asyncio.Protocol):
    """One socket; also the `Wire` of its link."""

    __slots__ = ("_attempt", "_link", "_paused", "_peers", "_transport")

    def __init__(self, peers: TcpPeers, attempt: _Attempt | None) -> None:
        self._peers = peers
        self._attempt = attempt
        self._link: Link | None = None
        self._transport: asyncio.Transport | None = None
        self._paused = False

    # -- links.link.Wire -------------------------------------------------------------------------------------------

    def write(self, parts: list[bytes]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(parts)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def writable(self) -> bool:
        return not self._paused and self._transport is not None and not self._transport.is_closing()

    # -- asyncio.Protocol ------------------------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from asyncio's
        self._transport = transport
        transport.set_write_buffer_limits(high=LINK_WRITE_BYTES)
        _tune(transport.get_extra_info("socket"))
        speaks_for = self._peers.speaker(transport.certificate) if isinstance(transport, TlsConnection) else None
        if self._attempt is None:
            self._link = self._peers.mesh.accepted(self, speaks_for)
        elif self._peers.finish(self._attempt):
            self._link = self._peers.mesh.dial_connected(self._attempt.peer, self, speaks_for)
        if self._link is None:
            transport.abort()

    @override
    def data_received(self, data: bytes) -> None:
        if self._link is not None:
            self._peers.mesh.received(self._link, data)

    @override
    def pause_writing(self) -> None:
        self._paused = True

    @override
    def resume_writing(self) -> None:
        self._paused = False
        if self._link is not None:
            self._peers.mesh.writable_again(self._link)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._link is not None:
            self._peers.mesh.closed(self._link)


def _tune(sock: socket.socket | None) -> None:
    """Set the socket options. Options that the platform lacks are skipped: they affect speed, not safety."""
    if sock is None:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        lowat = getattr(socket, "TCP_NOTSENT_LOWAT", None)
        if lowat is not None:
            sock.setsockopt(socket.IPPROTO_TCP, lowat, _NOTSENT_LOWAT_BYTES)
