"""A request's place in the line of its connection, from its arrival to the bytes of its answer.

Problem: requests are handled at once and answered whenever their handlers are done, in any order, while a client
expects the answers in the order of its requests; what a request takes of memory and of its client's quotas has to be
counted until that moment, also if the client is gone by then. Mechanism: an `Exchange` is what the handler gets as
`reply`. It encodes the answer, counts, and tells its connection, which sends from the head of the line only. What it
does not do: read requests, or write to a socket (`wire.connection`), or know what a quota allows (`wire.throttling`).
"""

import struct
from collections.abc import Callable
from typing import Protocol

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import ends_process
from muster_coordinator.security.outcome import Elsewhere, Judged
from muster_coordinator.security.session import SaslSession
from muster_coordinator.wire.bare_messages import BARE_MESSAGES
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.route import Route
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.throttling import EMPTY_FETCH, UNBOUNDED, Mutations, Throttling, Use
from muster_coordinator.wire.versions import Api

_PACK_SIZE_INTO = struct.Struct(">i").pack_into
_SIZE_BYTES = 4


class Sentinel:
    """An answer that is not sent as bytes."""


NO_ANSWER = Sentinel()
"""The request gets no response frame (Produce with acks=0)."""
CLOSE = Sentinel()
"""Close the connection: the API's answer has no way to refuse."""


class Held:
    """Memory of an unanswered request. It counts until nothing refers to this any more: a handler that has dropped its
    exchange, whether it answered or not, has let go of the request as well."""

    __slots__ = ("_meter", "bytes")

    def __init__(self, meter: RequestMeter, held_bytes: int) -> None:
        self._meter = meter
        self.bytes = held_bytes
        meter.held_bytes += held_bytes

    def __del__(self) -> None:
        self._meter.held_bytes -= self.bytes


class Work:
    """What a request takes of its client's quotas."""

    __slots__ = ("_began_ns", "_spent_ns", "context", "mutations", "request_bytes")

    def __init__(self, context: RequestContext, request_bytes: int, began_ns: int) -> None:
        self.context = context
        self.request_bytes = request_bytes
        self._began_ns: int | None = began_ns
        """When the loop's thread began to work for it; None: it does something else now."""
        self._spent_ns = 0
        self.mutations: Mutations | None = None

    def handed_on(self, now_ns: int) -> None:
        """The handler has returned."""
        if self._began_ns is not None:
            self._spent_ns += now_ns - self._began_ns
            self._began_ns = None

    def encoding(self, now_ns: int) -> None:
        """The answer is there: in the handler's own turn, or later."""
        if self._began_ns is None:
            self._began_ns = now_ns

    def spent_ns(self, now_ns: int) -> int:
        return self._spent_ns + (0 if self._began_ns is None else now_ns - self._began_ns)


class LoginServer(Protocol):
    """A server that judges this one's clients: the part of `wire.passage.Passage` that is about it."""

    def log_in(self, mechanism: str, message: Elsewhere, judged: Callable[[Judged], None]) -> None:
        """See `wire.passage.Passage.log_in`."""


class Line(Protocol):
    """What an exchange needs of its connection (`wire.connection.Connection`)."""

    meter: RequestMeter
    throttling: Throttling
    sasl: SaslSession | None
    state: State
    tokens: bool
    """Do bare messages come instead of requests?"""
    patient: int
    """Number of exchanges in the line with an `on_followed` call."""

    @property
    def passage(self) -> LoginServer | None:
        """Where requests go that are not for this replica; None: all are."""

    def authenticated(self, principal: str, session_ends_ms: int | None) -> None:
        """The client has shown who it is; None: for good."""

    def mute(self, throttle_ms: int) -> None:
        """Read nothing for this time."""

    def contain(self, what: str, api: int, version: int, error: Exception) -> None:
        """Report a bug of ours that costs only this connection."""

    def answered(self) -> None:
        """An exchange of the line has its answer."""


class Exchange:
    """One request's place in line. Handlers get it as `reply` and call it once, with the answer."""

    __slots__ = (
        "_answered", "_began_ns", "_cancel", "_connection", "_correlation", "_followed", "ends", "frame", "held",
        "route", "work",
    )  # fmt: skip

    def __init__(self, connection: Line, route: Route, correlation: int, began_ns: int) -> None:
        self._connection = connection
        self._began_ns = began_ns
        self.route = route
        self._correlation = correlation
        self._cancel: Callable[[], None] | None = None
        self._followed: Callable[[], None] | None = None
        self._answered: Callable[[Value], None] | None = None
        self.work: Work | None = None
        """None: no quota counts this request."""
        self.held: Held | None = None
        """None for a small request, and once the answer has left the line."""
        self.frame: bytearray | Sentinel | None = None
        self.ends = ""
        """Why the connection is closed once the answer is written; "": it is not."""

    def mutations(self, *, strict: bool) -> Mutations:
        """What this request creates and deletes is to be taken from here (`wire.throttling`)."""
        work = self.work
        if work is None:
            return UNBOUNDED
        work.mutations = self._connection.throttling.mutations(work.context, strict=strict)
        return work.mutations

    def mutations_by_the_way(self, context: RequestContext) -> Mutations:
        """As `mutations`, of a request that was not sent for them: its client is refused, and not told to pause."""
        return self._connection.throttling.mutations(context, strict=True)

    @property
    def sasl(self) -> SaslSession | None:
        """How the connection authenticates; None: its listener asks nobody."""
        return self._connection.sasl

    def log_in_elsewhere(self, mechanism: str, message: Elsewhere, judged: Callable[[Judged], None]) -> bool:
        """See `wire.passage.Passage.log_in`. False: the connection has ended, or no server is behind this one."""
        passage = self._connection.passage
        if passage is None or self._connection.state is State.CLOSED:
            return False
        passage.log_in(mechanism, message, judged)
        return True

    def authenticated(self, principal: str, session_ends_ms: int | None) -> None:
        """The client is this user for the requests that are read from now on."""
        self._connection.authenticated(principal, session_ends_ms)

    def tokens_follow(self) -> None:
        """The client's next frames are bare messages, until it is authenticated (SaslHandshake v0)."""
        self._connection.tokens = True

    def pause_reading(self, for_ms: int) -> None:
        """Read nothing more of the client for this time."""
        self._connection.mute(for_ms)

    def last(self, answer: Value, why: str) -> None:
        """Answer, and close the connection then. A bare message has no answer that refuses."""
        self.ends = why
        self(CLOSE if self.route is BARE_MESSAGES else answer)

    def __call__(self, answer: Value) -> None:
        """Answer in the shape that the API's encoder takes, NO_ANSWER or CLOSE. Harmless on a closed connection."""
        assert self.frame is None, "a request is answered once"
        self._cancel = None
        if self._answered is not None:
            self._answered(answer)
        if self._followed is not None:
            self._followed = None
            self._connection.patient -= 1
        meter = self._connection.meter
        if self.work is not None:
            self.work.encoding(meter.now_ns())
        if self._connection.state is State.CLOSED:
            self._drop()
            return
        if isinstance(answer, Sentinel):
            self.frame = answer
            if self.work is not None and answer is NO_ANSWER:
                self._throttle(self.work, None, answer)
        else:
            route = self.route
            try:
                frame = route.start_answer(self._correlation)
                route.encode(frame, answer)
                if self.work is not None:
                    frame = self._throttle(self.work, frame, answer)
                _PACK_SIZE_INTO(frame, 0, len(frame) - _SIZE_BYTES)
                self.frame = frame
            except Exception as error:
                if ends_process(error):
                    raise
                # What the request did is durable and stays; only this client does not learn of it.
                self._connection.contain("an answer could not be written", route.api, route.version, error)
                self.frame = CLOSE
            try:
                for code in route.errors(answer):
                    if code:
                        meter.note_error(route.api, code)
            except Exception as error:
                if ends_process(error):
                    raise
                # The answer itself is sound and is sent.
                self._connection.contain("an answer's errors could not be counted", route.api, route.version, error)
        meter.seconds[self.route.api].observe((meter.now_ns() - self._began_ns) / 1e9)
        self._connection.answered()

    def passed_back(self, frame: "bytearray | Sentinel") -> None:
        """The answer as another server gave it, size and header included; or NO_ANSWER. No quota of ours counts it."""
        assert self.frame is None, "a request is answered once"
        meter = self._connection.meter
        self.frame = frame
        if self._connection.state is State.CLOSED:
            return
        meter.seconds[self.route.api].observe((meter.now_ns() - self._began_ns) / 1e9)
        self._connection.answered()

    def _drop(self) -> None:
        """Nobody hears the answer. Who does not wait for answers is held to its quotas as well."""
        self.frame = NO_ANSWER
        self.held = None
        if self.work is not None:
            self._charge(self.work, 0, timed=True)

    def _throttle(self, work: Work, frame: bytearray | None, answer: Value) -> bytearray:
        """Count what the request has taken, and mute the connection if that is more than its client's quota. Returns
        the answer to send; `frame` is None if there is none."""
        route = self.route
        timed = frame is not None
        frame = frame if frame is not None else bytearray()
        throttle_ms = self._charge(work, len(frame), timed=timed)
        if not throttle_ms:
            return frame
        self._connection.mute(throttle_ms)
        if not frame:
            return frame
        if route.api == Api.FETCH:
            answer, frame = EMPTY_FETCH, route.start_answer(self._correlation)
            route.encode(frame, answer)
        return route.throttled(frame, self._correlation, answer, throttle_ms)

    def _charge(self, work: Work, answer_bytes: int, *, timed: bool) -> int:
        """Returns for how long the client is to be throttled."""
        connection = self._connection
        spent_ns = work.spent_ns(connection.meter.now_ns()) if timed else None
        return connection.throttling.throttle_ms(
            Use(work.context, work.request_bytes, answer_bytes, spent_ns, work.mutations)
        )

    def on_answer(self, call: Callable[[Value], None]) -> None:
        """Register `call` for the answer, before it is written, also if the client is gone by then. It may complete the
        answer, and must not call the exchange."""
        self._answered = call

    def on_close(self, call: Callable[[], None]) -> None:
        """Register `call` for the case that the connection ends before the answer."""
        self._cancel = call

    def on_followed(self, call: Callable[[], None]) -> None:
        """Register `call` for the case that a request of another API queues up after this one, whose answer it waits
        for.

        A request of the same API does not count: a client that pipelines long polls wants each to wait its full time.
        """
        assert self._followed is None
        self._followed = call
        self._connection.patient += 1

    def hurry(self, api: int) -> None:
        """A request of `api` has queued up after this one."""
        if self._followed is not None and api != self.route.api:
            self._followed()

    def cancel(self) -> None:
        """The connection has ended: make the call that `on_close` registered."""
        call, self._cancel = self._cancel, None
        if call is not None:
            call()


Handle = Callable[[RequestContext, Value, Exchange], None]
"""Handles a decoded request; calls the exchange now or later, on the same thread."""
