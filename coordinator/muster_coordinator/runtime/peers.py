"""TCP under the peer links: dials, listens, sets socket options, and hands bytes to `links.mesh.Mesh`.

It decides only on socket options: TCP_NODELAY (a turn's messages are one write already); keep-alive and
TCP_USER_TIMEOUT, so that the connection to a peer behind a network partition ends (else TCP retransmits ever more
rarely, and the link stays stuck long after the partition); TCP_NOTSENT_LOWAT, so that a heartbeat does not queue behind
megabytes in the kernel. Names are resolved at each dial, because a pod that moved has another address.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import cast

from typing_extensions import override

from muster_coordinator.errors import EnvironmentFault
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import LINK_WRITE_BYTES
from muster_coordinator.links.link import Link
from muster_coordinator.links.mesh import Dialler, Mesh
from muster_coordinator.runtime.limits import LINK_UNACKNOWLEDGED_MS, LISTEN_BACKLOG

_KEEPALIVE = (
    ("TCP_KEEPIDLE", 5),
    ("TCP_KEEPINTVL", 2),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", LINK_UNACKNOWLEDGED_MS),
)
_NOTSENT_LOWAT_BYTES = 128 * 1024


class TcpPeers:
    """The `Dialler` of a mesh, and its listener. Call `close` at the end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        addresses: Mapping[BrokerId, tuple[str, int]],
        make_mesh: Callable[[Dialler], Mesh],
    ) -> None:
        """`make_mesh` is called once, with this."""
        self._loop = loop
        self._addresses = dict(addresses)
        self._server: asyncio.Server | None = None
        self._attempts: set[_Attempt] = set()
        self.mesh = make_mesh(self)

    async def listen(self, host: str, port: int) -> int:
        """Accept peers; returns the port. Raises `EnvironmentFault` when the address cannot be bound."""
        try:
            self._server = await self._loop.create_server(
                lambda: _Connection(self, None), host, port, backlog=LISTEN_BACKLOG, reuse_address=True
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

    async def _connect(self, attempt: "_Attempt") -> None:
        host, port = self._addresses[attempt.peer]
        try:
            await self._loop.create_connection(lambda: _Connection(self, attempt), host, port)
        except OSError:
            if self.finish(attempt):
                self.mesh.dial_failed(attempt.peer)

    def finish(self, attempt: "_Attempt") -> bool:
        """End an attempt. True at the first call, False if it has ended or was cancelled before."""
        if attempt not in self._attempts:
            return False
        self._attempts.remove(attempt)
        return True


class _Attempt:
    """`links.mesh.Attempt` over a task."""

    __slots__ = ("_peers", "peer", "task")

    def __init__(self, peers: TcpPeers, peer: BrokerId) -> None:
        self._peers = peers
        self.peer = peer
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        if self._peers.finish(self) and self.task is not None:
            self.task.cancel()


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
        if self._attempt is None:
            self._link = self._peers.mesh.accepted(self)
        elif self._peers.finish(self._attempt):
            self._link = self._peers.mesh.dial_connected(self._attempt.peer, self)
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
