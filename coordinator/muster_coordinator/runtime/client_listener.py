"""A named listener of Kafka clients: the connections that it has admitted, and what they share.

* Answers of all connections are written once per turn: a connection with ready answers is marked, and one call at the
  end of the turn writes each marked connection with one `write`, as many connections as fit into a turn.
* Limits: connections, accepts per second, incomplete frames and untaken answers over all connections, idle time. Limits
  per address are off by default (decision 24): after a failover thousands of clients behind one NAT must reconnect
  within seconds.

What it does not do: admit (`client_arrival`), read or write (`client_connection`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster_coordinator.errors import EnvironmentFault
from muster_coordinator.events import CONNECTION_REFUSED, Event, Tell, untold
from muster_coordinator.ports import Clock, Notice, unnoticed
from muster_coordinator.quotas.admission import Admission, AdmissionLimits, Admitted, Refused
from muster_coordinator.quotas.limits import DELAYED_CLOSES_MAX
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.client_arrival import Arrival, ClientTls
from muster_coordinator.runtime.client_connection import LINGER_SECONDS, ClientConnection, Door, Open
from muster_coordinator.runtime.client_stats import ClientStats
from muster_coordinator.runtime.turns import Turns
from muster_coordinator.security.addresses import java_address
from muster_coordinator.security.session import ListenerSasl, SaslSession
from muster_coordinator.wire.codecs import preload
from muster_coordinator.wire.exchange import Handle
from muster_coordinator.wire.repeated_heartbeat import HeartbeatAtOnce, never_at_once
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.throttling import DEFAULT_WINDOWS, NOBODY_THROTTLED, Throttling

ACCEPT_DELAY_MS_MAX = 5_000
"""A new connection that would have to wait longer before it is read is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Limits that a configuration may change."""

    connections_max: int
    connections_per_address_max: int | None
    accepts_per_second_max: int
    idle_ms: int


def admission_of(most: ClientLimits) -> Admission:
    """Of one listener, without limits of its own."""
    overall = AdmissionLimits(
        connections_max=most.connections_max,
        per_address_max=most.connections_per_address_max,
        rate_max=most.accepts_per_second_max,
        per_address_overrides={},
        listeners={},
    )
    return Admission(overall, DEFAULT_WINDOWS, ACCEPT_DELAY_MS_MAX)


class ClientListener:
    """One named listener: call `listen`, later `close`. All calls are made on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        *,
        name: str,
        handle: Handle,
        heartbeat_at_once: HeartbeatAtOnce = never_at_once,
        client_limits: ClientLimits,
        notice: Notice = unnoticed,
        tell: Tell = untold,
        meter: RequestMeter | None = None,
        tls: ClientTls | None = None,
        sasl: ListenerSasl | None = None,
        throttling: Throttling = NOBODY_THROTTLED,
        admission: Admission | None = None,
    ) -> None:
        """`admission`: of all listeners of a process; None: this one's alone."""
        self.throttling = throttling
        self._admission = admission or admission_of(client_limits)
        self.meter = meter
        self.tls = tls
        self.sasl = sasl
        self.notice = notice
        self.tell = tell
        self.loop = loop
        self.clock = clock
        self.name = name
        self.handle = handle
        self.heartbeat_at_once = heartbeat_at_once
        self.idle_ms = client_limits.idle_ms
        self.stats = ClientStats()
        self._servers: list[asyncio.Server] = []
        self._clients: set[Open] = set()
        self.turns = Turns(clock, loop.call_soon)
        self._dirty: list[ClientConnection] = []
        self._closing_later = 0
        """Refused sockets that are still open."""
        self._next_id = 0
        self._emptied: asyncio.Event | None = None

    async def listen(self, host: str, port: int, door: Door | None = None) -> int:
        """Accept clients; returns the port. Raises `EnvironmentFault` when the address cannot be bound.

        `door`: what clients of this address want; None: this replica. May be called for several addresses.
        """
        entered = door or Door(self.handle, None)
        # Takes 60 ms. Later it would compile at first requests, and delay the loop while it serves.
        preload()
        try:
            server = await self.loop.create_server(
                lambda: Arrival(self, entered), host, port, backlog=limits.LISTEN_BACKLOG, reuse_address=True
            )
        except OSError as error:
            raise EnvironmentFault(f"cannot listen for clients on {host}:{port}: {error}") from error
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def close(self, over_ms: int = limits.CLIENTS_CLOSE_MS) -> None:
        """Stop accepting, and close the connections evenly over `over_ms`, so that their clients do not reconnect all
        at once."""
        for server in self._servers:
            server.close()
        clients = list(self._clients)
        if not clients:
            return
        self._emptied = asyncio.Event()
        seconds = over_ms / 1000
        for place, client in enumerate(clients):
            self.loop.call_later(seconds * place / len(clients), client.close)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._emptied.wait(), seconds + LINGER_SECONDS)
        for client in list(self._clients):
            client.abort()

    def revoke(self, holds: Callable[[SaslSession], bool], after: Sequence[ClientConnection] | None = None) -> None:
        """Close the connections of users for whom `holds` is false, a part of them in each turn."""
        if self.sasl is None:
            return
        # One that handshakes has not said who it is: when it does, it is judged by what holds then.
        clients = [one for one in self._clients if isinstance(one, ClientConnection)] if after is None else after
        for client in clients[: limits.REVOKED_A_TURN_MAX]:
            session = client.connection.sasl
            if session is not None and session.user is not None and not holds(session):
                client.revoked(session.user)
        rest = clients[limits.REVOKED_A_TURN_MAX :]
        if rest:
            self.loop.call_soon(lambda: self.revoke(holds, rest))

    # -- called by the clients

    def admit(self, address: str) -> Admitted | Refused:
        """Count a new connection, or say why it is refused."""
        stats = self.stats
        answer = self._admission.admit(self.name, java_address(address), self.loop.time() * 1_000)
        if isinstance(answer, Refused):
            stats.refused += 1
            self.tell(Event(CONNECTION_REFUSED, {"listener": self.name, "peer": address, "why": answer.why}))
        else:
            stats.accepted += 1
            stats.connections += 1
        return answer

    def close_later(self, transport: asyncio.Transport, after_ms: int) -> None:
        """A refused socket of an address above its rate: it is neither read nor closed until then (KIP-612)."""
        if self._closing_later >= DELAYED_CLOSES_MAX:
            transport.abort()
            return
        self._closing_later += 1
        transport.pause_reading()

        def over() -> None:
            self._closing_later -= 1
            transport.abort()

        self.loop.call_later(after_ms / 1_000, over)

    def begun(self, client: Open) -> None:
        """The connection that was admitted."""
        self._clients.add(client)

    def greeted(self, handshaking: Open, client: Open) -> None:
        """The same connection, now encrypted."""
        self._clients.discard(handshaking)
        self._clients.add(client)

    def gone(self, client: Open, address: str) -> None:
        """Uncount an admitted connection that has ended."""
        self._clients.discard(client)
        self.stats.connections -= 1
        self._admission.gone(self.name, java_address(address))
        if self._emptied is not None and not self._clients:
            self._emptied.set()

    def next_id(self) -> int:
        """A new connection id; ids are never reused."""
        self._next_id += 1
        return self._next_id

    def mark(self, client: ClientConnection) -> None:
        """Write this client's answers at the end of the turn."""
        if not self._dirty:
            self.loop.call_soon(self._flush)
        self._dirty.append(client)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        ends_ms = self.clock.monotonic_ms() + limits.CLIENTS_TURN_MS_MAX
        for place, client in enumerate(dirty, 1):
            client.flush()
            if self.clock.monotonic_ms() >= ends_ms and place < len(dirty):
                if not self._dirty:
                    self.loop.call_soon(self._flush)
                self._dirty[:0] = dirty[place:]
                return
