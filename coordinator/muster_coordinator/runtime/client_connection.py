"""An admitted connection of a Kafka client: `wire.connection.Connection` on a transport of asyncio.

Problem: a client may send without end, never read its answers, or be silent; and it shares one loop with all others.
Mechanism:

* Requests are handled as they arrive, for a few milliseconds a turn; the rest waits for later turns (`turns`).
* Answers are written at the end of the turn, when the listener calls `flush`. Only answers to repeated heartbeats,
  which no other answer precedes, are written where they were read (docs/adr/0012).
* Flow control both ways: a connection with too many unanswered requests or untaken answers is not read; one whose
  socket takes nothing for `limits.CONNECTION_UNSENT_MS_MAX` while more than `limits.CONNECTION_UNSENT_BYTES_MAX` waits
  is closed. So is the one whose growth exceeds what all connections together may hold, and one that is idle.
* A connection above the rate of accepts is not read before its time; one above a quota is not read for a while.
* Where a listener asks who its clients are, a connection whose client has not shown it in time is closed, and so is one
  whose user was deleted.

What it does not do: judge credentials, or know the meaning of requests (`api`).
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from typing_extensions import override

from muster_coordinator.events import CONNECTION_FAILED, USER_REVOKED, Event, Tell
from muster_coordinator.limits import CONNECTION_UNSENT_BYTES_MAX, KIB
from muster_coordinator.ports import Clock, Notice
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.client_stats import ClientStats
from muster_coordinator.runtime.turns import Turns
from muster_coordinator.security.session import ListenerSasl, SaslSession
from muster_coordinator.wire.connection import ANONYMOUS, Connection
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.exchange import Handle
from muster_coordinator.wire.passage import Passage
from muster_coordinator.wire.repeated_heartbeat import HeartbeatAtOnce
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.throttling import Throttling

JOIN_BYTES_MAX = 64 * KIB
"""Answers of one turn are joined into one buffer up to this size; larger ones are written without another copy."""
LINGER_SECONDS = 5.0
"""How long a client may take to read its last answers after the connection was closed by us."""


class Open(Protocol):
    """What a listener has admitted and can end."""

    def close(self) -> None:
        """Gracefully."""

    def abort(self) -> None:
        """At once."""


class Door(NamedTuple):
    """An address of a listener, and what its clients want there."""

    handle: Handle
    passage: Callable[[Connection], Passage] | None
    """Makes the way on to the server for which the address stands (ADR 96); None: it stands for this replica alone."""


class Listener(Protocol):
    """The part of `client_listener.ClientListener` that its connections use."""

    name: str
    loop: asyncio.AbstractEventLoop
    clock: Clock
    heartbeat_at_once: HeartbeatAtOnce
    notice: Notice
    tell: Tell
    meter: RequestMeter | None
    sasl: ListenerSasl | None
    throttling: Throttling
    idle_ms: int
    stats: ClientStats
    turns: Turns

    def next_id(self) -> int:
        """A new connection id; ids are never reused."""

    def mark(self, client: "ClientConnection") -> None:
        """Write this client's answers at the end of the turn."""

    def gone(self, client: Open, address: str) -> None:
        """Uncount an admitted connection that has ended."""


class ClientConnection(asyncio.Protocol):
    """An admitted connection and its transport. It has ended when `connection` is CLOSED: the transport has gone."""

    def __init__(
        self,
        listener: Listener,
        transport: asyncio.Transport,
        address: str,
        wait_seconds: float,
        door: Door,
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
            handle=door.handle,
            heartbeat_at_once=listener.heartbeat_at_once,
            notice=listener.notice,
            meter=listener.meter,
            wake=self._wake,
            authenticated=listener.sasl is None,
            sasl=None if listener.sasl is None else SaslSession(listener.sasl),
            principal=principal,
            throttling=listener.throttling,
        )
        if door.passage is not None:
            self.connection.passage = door.passage(self.connection)
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
        self._idle_timer = listener.loop.call_later(listener.idle_ms / 1000, self._check_idle)
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
        left_ms = listener.idle_ms - idle_ms
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
