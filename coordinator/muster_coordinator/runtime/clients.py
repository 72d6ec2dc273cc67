"""The listener of Kafka clients: TCP under `wire.connection.Connection`.

* Requests are handled as they arrive, for a few milliseconds a turn; the rest waits for later turns (`turns`).
* Answers of all connections are written once per turn: a connection with ready answers is marked, and one call at the
  end of the turn writes each marked connection with one `write`, as many connections as fit into a turn. Only answers
  to repeated heartbeats, which no other answer precedes, are written where they were read (docs/adr/0012).
* Flow control both ways: a connection with too many unanswered requests or untaken answers is not read; one whose
  socket takes nothing for `limits.CONNECTION_UNSENT_MS_MAX` while more than `limits.CONNECTION_UNSENT_BYTES_MAX` waits
  is closed.
* Limits: connections, accepts per second (a connection above the rate waits unread and is refused only if it would
  wait too long), incomplete frames and untaken answers over all connections, idle time. Limits per address are off by
  default (decision 24): after a failover thousands of clients behind one NAT must reconnect within seconds.
* On a listener with TLS an admitted connection handshakes first (`tls_connection`), which counts as a connection; then
  it is a client as any other, known by its certificate if it has shown one.
* On a listener that asks who its clients are, a connection whose client has not shown it in time is closed, and so is
  one whose user was deleted.

What it does not do: judge credentials, or know the meaning of requests (`api`).
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from typing_extensions import override

from muster_coordinator.errors import CallerError, EnvironmentFault, WireError
from muster_coordinator.events import CONNECTION_FAILED, CONNECTION_REFUSED, USER_REVOKED, Event, Tell, untold
from muster_coordinator.limits import CONNECTION_UNSENT_BYTES_MAX, KIB, MIB
from muster_coordinator.ports import Clock, Notice, unnoticed
from muster_coordinator.quotas.admission import Admission, AdmissionLimits, Admitted, Refused
from muster_coordinator.quotas.limits import DELAYED_CLOSES_MAX
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.tls_connection import Handshakes, TlsConnection
from muster_coordinator.runtime.tls_store import TlsStore
from muster_coordinator.runtime.turns import Turns
from muster_coordinator.security.addresses import java_address
from muster_coordinator.security.principal_mapping import PrincipalRules
from muster_coordinator.security.session import ListenerSasl, SaslSession
from muster_coordinator.wire.codecs import preload
from muster_coordinator.wire.connection import ANONYMOUS, Connection
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.exchange import Handle
from muster_coordinator.wire.repeated_heartbeat import HeartbeatAtOnce, never_at_once
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.throttling import DEFAULT_WINDOWS, NOBODY_THROTTLED, Throttling

WRITE_HIGH_BYTES = MIB
"""Above this the transport's buffer takes no more. Further answers stay in the connection, and reading stops."""
WRITE_LOW_BYTES = MIB // 4
JOIN_BYTES_MAX = 64 * KIB
"""Answers of one turn are joined into one buffer up to this size; larger ones are written without another copy."""
LINGER_SECONDS = 5.0
"""How long a client may take to read its last answers after the connection was closed by us."""
ACCEPT_DELAY_MS_MAX = 5_000
"""A new connection that would have to wait longer before it is read is refused."""


@dataclass(slots=True)
class ClientStats:
    """Counters since the start, but for the gauges `connections`, `buffered`, `unsent` and `throttled`."""

    connections: int = 0
    """Open connections now."""
    accepted: int = 0
    refused: int = 0
    """Connections refused by a limit of connections or accepts."""
    failed: int = 0
    """Connections closed because of bytes that are no request, by a handler, or by a bug of ours."""
    slow: int = 0
    """Connections closed because they did not take their answers, or exceeded a sum over all connections."""
    idle: int = 0
    """Connections closed after the idle time."""
    handshakes: int = 0
    """Connections closed because their TLS handshake failed or took too long."""
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    buffered: int = 0
    """Bytes of incomplete or held-back frames now."""
    unsent: int = 0
    """Bytes of answers that clients have not taken now."""
    throttled: int = 0
    """Connections that are not read now, because their clients are above a quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Limits that a configuration may change."""

    connections_max: int
    connections_per_address_max: int | None
    accepts_per_second_max: int
    idle_ms: int


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How a listener encrypts."""

    store: TlsStore
    rules: PrincipalRules
    handshakes: Handshakes


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
        self.limits = client_limits
        self.stats = ClientStats()
        self._server: asyncio.Server | None = None
        self._clients: set[_Client | _Handshaking] = set()
        self.turns = Turns(clock, loop.call_soon)
        self._dirty: list[_Client] = []
        self._closing_later = 0
        """Refused sockets that are still open."""
        self._next_id = 0
        self._emptied: asyncio.Event | None = None

    async def listen(self, host: str, port: int) -> int:
        """Accept clients; returns the port. Raises `EnvironmentFault` when the address cannot be bound."""
        # Takes 60 ms. Later it would compile at first requests, and delay the loop while it serves.
        preload()
        try:
            self._server = await self.loop.create_server(
                lambda: _Arrival(self), host, port, backlog=limits.LISTEN_BACKLOG, reuse_address=True
            )
        except OSError as error:
            raise EnvironmentFault(f"cannot listen for clients on {host}:{port}: {error}") from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self, over_ms: int = limits.CLIENTS_CLOSE_MS) -> None:
        """Stop accepting, and close the connections evenly over `over_ms`, so that their clients do not reconnect all
        at once."""
        if self._server is not None:
            self._server.close()
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

    def revoke(self, holds: Callable[[SaslSession], bool], after: Sequence["_Client"] | None = None) -> None:
        """Close the connections of users for whom `holds` is false, a part of them in each turn."""
        if self.sasl is None:
            return
        # One that handshakes has not said who it is: when it does, it is judged by what holds then.
        clients = [one for one in self._clients if isinstance(one, _Client)] if after is None else after
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

    def begun(self, client: "_Client | _Handshaking") -> None:
        """The connection that was admitted."""
        self._clients.add(client)

    def greeted(self, handshaking: "_Handshaking", client: "_Client") -> None:
        """The same connection, now encrypted."""
        self._clients.discard(handshaking)
        self._clients.add(client)

    def gone(self, client: "_Client | _Handshaking", address: str) -> None:
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

    def mark(self, client: "_Client") -> None:
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


class _Arrival(asyncio.Protocol):
    """A new socket. It is refused, or a `_Client` takes its place."""

    def __init__(self, listener: ClientListener) -> None:
        self._listener = listener

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
            self._listener.begun(_Handshaking(self._listener, self._listener.tls, transport, address, wait_seconds))
            return
        client = _Client(self._listener, transport, address, wait_seconds)
        self._listener.begun(client)
        transport.set_protocol(client)


class _Handshaking:
    """An admitted connection of a listener with TLS, until it is a `_Client` or has ended."""

    def __init__(
        self, listener: ClientListener, tls: ClientTls, transport: asyncio.Transport, address: str, wait_seconds: float
    ) -> None:
        """`wait_seconds`: no handshake before."""
        self._listener = listener
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

    def _ready(self, connection: TlsConnection) -> "_Client | None":
        from muster_coordinator.runtime.tls_files import subject_of

        der = connection.certificate
        try:
            principal = ANONYMOUS if der is None else f"User:{self._tls.rules.user(subject_of(der))}"
        except (CallerError, WireError) as error:
            self._failed(str(error))
            return None
        client = _Client(self._listener, connection, self._address, 0, principal)
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


class _Client(asyncio.Protocol):
    """An admitted connection and its transport. It has ended when `connection` is CLOSED: the transport has gone."""

    def __init__(
        self,
        listener: ClientListener,
        transport: asyncio.Transport,
        address: str,
        wait_seconds: float,
        principal: str = ANONYMOUS,
    ) -> None:
        """`wait_seconds`: not read before."""
        self._listener = listener
        self._transport = transport
        self._address = address
        self.connection = Connection(
            listener=listener.name,
            connection_id=listener.next_id(),
            client_host=f"/{address}",
            clock=listener.clock,
            handle=listener.handle,
            heartbeat_at_once=listener.heartbeat_at_once,
            notice=listener.notice,
            meter=listener.meter,
            wake=self._wake,
            authenticated=listener.sasl is None,
            sasl=None if listener.sasl is None else SaslSession(listener.sasl),
            principal=principal,
            throttling=listener.throttling,
        )
        self._marked = False
        self._postponed = False
        self._reading = True
        self._delayed = wait_seconds > 0
        self._write_paused = False
        self._closing = False
        self._buffered = 0
        self._unsent = 0
        self._requests = 0
        self._stall_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._written = 0
        self._taken_at_stall = 0
        self._idle_timer = listener.loop.call_later(listener.limits.idle_ms / 1000, self._check_idle)
        self._auth_timer: asyncio.TimerHandle | None = None
        if listener.sasl is not None:
            seconds = limits.AUTHENTICATION_MS_MAX / 1000
            self._auth_timer = listener.loop.call_later(seconds, self._check_authenticated)
        self._mute_timer: asyncio.TimerHandle | None = None
        self._delay_timer: asyncio.TimerHandle | None = None
        if self._delayed:
            self._set_reading()
            self._delay_timer = listener.loop.call_later(wait_seconds, self._delay_over)

    # -- asyncio.Protocol

    @override
    def data_received(self, data: bytes) -> None:
        connection = self.connection
        if connection.state is State.CLOSED:
            return
        listener = self._listener
        listener.stats.bytes_in += len(data)
        if self._delayed:
            # uvloop starts reading after `connection_made` even if that has paused it, so it is paused again here.
            connection.hold(data)
            self._account()
            if not self._transport.is_closing():
                self._transport.pause_reading()
            return
        if not self._postponed and listener.turns.may_work():
            if not self._marked and not self._write_paused:
                answers = connection.answer_at_once(data)
                if answers is not None:
                    self._write_at_once(answers)
                    return
            connection.receive(data)
            if not self._marked:  # Else the flush at the end of this turn does both.
                self._account()
                self._set_reading()
            return
        connection.hold(data)
        self._account()
        if self._postponed:
            self._set_reading()  # The client keeps sending: stop reading until its turn.
        else:
            self._postpone(connection)

    def _postpone(self, connection: Connection) -> None:
        self._postponed = True
        self._listener.turns.postpone(connection.subject(), self._go_on)

    def _go_on(self) -> None:
        """The turn of a postponed connection: read its held-back frames."""
        self._postponed = False
        connection = self.connection
        if connection.state is State.CLOSED:
            return
        connection.resume()
        self._account()
        self._set_reading()

    @override
    def pause_writing(self) -> None:
        self._write_paused = True
        if self._stall_timer is None:
            self._watch_stall()

    @override
    def resume_writing(self) -> None:
        self._write_paused = False
        self._wake()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Leave no circle of references: a pending timer, or a connection that wakes this client, would keep some 5 KB
        of each ended connection until the timer fires or the garbage collector runs. The transport drops its protocol
        by itself."""
        for timer in (
            self._idle_timer, self._stall_timer, self._delay_timer, self._linger_timer, self._auth_timer,
            self._mute_timer,
        ):  # fmt: skip
            if timer is not None:
                timer.cancel()
        if self._mute_timer is not None:
            self._listener.stats.throttled -= 1
        self.connection.close()
        self._account()
        self._listener.gone(self, self._address)

    # -- output

    def _wake(self) -> None:
        if not self._marked:
            self._marked = True
            self._listener.mark(self)

    def flush(self) -> None:
        """Write ready answers, resume held-back frames, set the flow control."""
        self._marked = False
        connection, transport = self.connection, self._transport
        if connection.state is State.CLOSED:
            return
        if not self._write_paused:
            frames = connection.take()
            if frames:
                self._write(transport, frames)
            # Below its high-water mark the transport drains without a callback, so its bytes are not counted then.
            connection.note_unsent(self._held_bytes(transport))
            if connection.holds_frames and not self._postponed:
                if self._listener.turns.may_work():
                    connection.resume()
                else:
                    self._postpone(connection)
        self._account()
        if connection.state is State.FAILED:
            self._fail(connection)
        else:
            if connection.muted_until_ms and self._mute_timer is None:
                self._listener.stats.throttled += 1
                self._watch_mute()
            self._set_reading()

    def _write_at_once(self, answers: bytes) -> None:
        """Write answers before the end of the turn. No other answer is unsent, so the flow control does not change."""
        stats, requests = self._listener.stats, self.connection.requests
        stats.requests += requests - self._requests
        self._requests = requests
        stats.bytes_out += len(answers)
        self._written += len(answers)
        self._transport.write(answers)

    def _held_bytes(self, transport: asyncio.Transport) -> int:
        return transport.get_write_buffer_size() if self._write_paused else 0

    def _write(self, transport: asyncio.Transport, frames: list[bytes | bytearray]) -> None:
        total = sum(map(len, frames))
        self._listener.stats.bytes_out += total
        self._written += total
        if len(frames) == 1:
            transport.write(frames[0])
        elif total <= JOIN_BYTES_MAX:
            transport.write(b"".join(frames))
        else:
            transport.writelines(frames)

    def _fail(self, connection: Connection) -> None:
        if self._closing:
            return
        self._listener.stats.failed += 1
        why = {"listener": self._listener.name, "peer": self._address, "why": connection.failure}
        self._listener.tell(Event(CONNECTION_FAILED, why))
        self.close()

    # -- flow control

    def _watch_mute(self) -> None:
        """Unmute the connection when its time is over; it may have become longer meanwhile."""
        left_ms = self.connection.muted_until_ms - self._listener.clock.monotonic_ms()
        self._mute_timer = self._listener.loop.call_later(max(left_ms, 1) / 1_000, self._check_mute)

    def _check_mute(self) -> None:
        if self.connection.muted_until_ms > self._listener.clock.monotonic_ms():
            self._watch_mute()
            return
        self._mute_timer = None
        self._listener.stats.throttled -= 1
        self.connection.unmute()
        self._go_on_reading()

    def _delay_over(self) -> None:
        self._delay_timer = None
        self._delayed = False
        self._go_on_reading()

    def _go_on_reading(self) -> None:
        """The connection may be read again."""
        connection = self.connection
        if self._postponed or connection.state is State.CLOSED:
            return
        if connection.buffered_bytes:
            if self._listener.turns.may_work():
                connection.resume()
                self._account()
            else:
                self._postpone(connection)
        self._set_reading()

    def _set_reading(self) -> None:
        connection, transport = self.connection, self._transport
        if transport.is_closing():
            return
        wanted = connection.wants_bytes and not self._delayed
        if wanted != self._reading:
            self._reading = wanted
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _account(self) -> None:
        """Update the listener's sums. The connection whose growth exceeds the limit of a sum is closed."""
        connection, stats = self.connection, self._listener.stats
        buffered, unsent, requests = connection.buffered_bytes, connection.unsent_bytes, connection.requests
        stats.buffered += buffered - self._buffered
        stats.unsent += unsent - self._unsent
        stats.requests += requests - self._requests
        grew_in, grew_out = buffered > self._buffered, unsent > self._unsent
        self._buffered, self._unsent, self._requests = buffered, unsent, requests
        if (grew_in and stats.buffered > limits.CLIENTS_BUFFERED_BYTES_MAX) or (
            grew_out and stats.unsent > limits.CLIENTS_UNSENT_BYTES_MAX
        ):
            stats.slow += 1
            self.abort()

    # -- ends

    def _check_idle(self) -> None:
        connection, listener = self.connection, self._listener
        idle_ms = listener.clock.monotonic_ms() - connection.last_request_ms
        left_ms = listener.limits.idle_ms - idle_ms
        if left_ms <= 0 and connection.unanswered == 0:
            listener.stats.idle += 1
            self.close()
            return
        self._idle_timer = listener.loop.call_later(max(left_ms, 1_000) / 1000, self._check_idle)

    def _check_authenticated(self) -> None:
        self._auth_timer = None
        if self.connection.state is State.UNAUTHENTICATED:
            self.connection.end("not authenticated in time")

    def revoked(self, user: str) -> None:
        """The client's user is none any more."""
        listener = self._listener
        listener.tell(Event(USER_REVOKED, {"listener": listener.name, "peer": self._address, "user": user}))
        self.connection.end("the user was deleted")

    def _watch_stall(self) -> None:
        self._taken_at_stall = self._taken()
        self._stall_timer = self._listener.loop.call_later(limits.CONNECTION_UNSENT_MS_MAX / 1000, self._check_stall)

    def _taken(self) -> int:
        """Bytes of this connection's answers that the kernel has taken since it was opened."""
        return self._written - self._transport.get_write_buffer_size()

    def _check_stall(self) -> None:
        self._stall_timer = None
        connection, transport = self.connection, self._transport
        if not self._write_paused:
            return
        left = transport.get_write_buffer_size() + connection.ready_bytes
        if left > CONNECTION_UNSENT_BYTES_MAX and self._taken() == self._taken_at_stall:
            self._listener.stats.slow += 1
            self.abort()
        else:
            self._watch_stall()

    def close(self) -> None:
        """Close gracefully: bytes in the transport are still written, for `LINGER_SECONDS` at most."""
        transport = self._transport
        if self._closing:
            return
        self._closing = True
        transport.close()
        if transport.get_write_buffer_size():
            self._linger_timer = self._listener.loop.call_later(LINGER_SECONDS, self.abort)

    def abort(self) -> None:
        """Close at once; unsent bytes are lost."""
        self._closing = True
        self._transport.abort()
