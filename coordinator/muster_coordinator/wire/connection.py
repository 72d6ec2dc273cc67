"""One client connection as a state machine without I/O: bytes in, requests to a handler, answers out in order.

Mechanism (decision 23): frames are split in place; each request is decoded and handed on at once, without waiting for
the previous answer; an `Exchange` keeps its place in line, and answers leave from the head only, so later answers
wait for that of a parked JoinGroup, as in Kafka. A handler that parks only for more data (a long-polling Fetch)
may ask to be told when another request queues up after it (docs/adr/0007). A heartbeat that repeats the previous one is
answered at once when the line is empty (docs/adr/0012). Reading stops at `limits.PIPELINED_REQUESTS_MAX` unanswered
requests, at what they hold in memory, or at `limits.CONNECTION_UNSENT_BYTES_MAX` unsent bytes. Sizes are checked before
anything is buffered for a frame (decision 24). Bytes that are no request fail the connection: `failure` says why and
the driver closes it. A request or an answer that meets a bug of ours fails its connection too; other connections go on.

State (decision 12): a connection of a listener that wants authentication starts in UNAUTHENTICATED, where only
ApiVersions and the SASL requests are parsed at all, one at a time, and no more of them than an honest client needs.
Their handler makes it READY, and says until when: after that only the same requests are parsed, with which the client
may show again who it is (KIP-368). After SaslHandshake v0 bare messages follow, with nothing but their length. What it
does not do: sockets, timers, logging (`runtime.clients`), or the meaning of requests (`api`).
"""

import struct
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from typing_extensions import override

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code, WireError, ends_process
from muster_coordinator.groups.requests import Heartbeat
from muster_coordinator.limits import CONNECTION_UNSENT_BYTES_MAX, PROPOSAL_TIMEOUT_MS
from muster_coordinator.ports import Clock, Notice, unnoticed
from muster_coordinator.security.session import SaslSession
from muster_coordinator.wire import limits
from muster_coordinator.wire.codecs import BAD_BYTES
from muster_coordinator.wire.fairness import subject_of
from muster_coordinator.wire.header import FIRST_BYTES, ClientId, read_first
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.repeated_heartbeat import HeartbeatAtOnce, RepeatedHeartbeat, never_at_once
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.route import Route, route_of
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.throttling import EMPTY_FETCH, NOBODY_THROTTLED, UNBOUNDED, Mutations, Throttling, Use
from muster_coordinator.wire.versions import ADVERTISED, BEFORE_AUTHENTICATION, LARGE_FRAMES, Api

ANONYMOUS = "User:ANONYMOUS"
_UNPACK_SIZE = struct.Struct(">i").unpack_from
_UNPACK_SIZE_AND_API = struct.Struct(">ih").unpack_from
_PACK_SIZE_INTO = struct.Struct(">i").pack_into
_SIZE_BYTES = 4
_PEEK_BYTES = 6
_TLS_RECORD = 0x1603
"""How a TLS handshake begins; no frame is as large."""


class State(Enum):
    """Life phases of a connection."""

    UNAUTHENTICATED = "unauthenticated"
    READY = "ready"
    FAILED = "failed"
    """Bytes were no request, a handler asked to close, or a bug was met: close once the ready answers are written."""
    CLOSED = "closed"


class _Sentinel:
    """An answer that is not sent as bytes."""


NO_ANSWER = _Sentinel()
"""The request gets no response frame (Produce with acks=0)."""
CLOSE = _Sentinel()
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


class Exchange:
    """One request's place in line. Handlers get it as `reply` and call it once, with the answer."""

    __slots__ = (
        "_answered", "_began_ns", "_cancel", "_connection", "_correlation", "_followed", "ends", "frame", "held",
        "route", "work",
    )  # fmt: skip

    def __init__(self, connection: "Connection", route: Route, correlation: int, began_ns: int) -> None:
        self._connection = connection
        self._began_ns = began_ns
        self.route = route
        self._correlation = correlation
        self._cancel: Callable[[], None] | None = None
        self._followed: Callable[[], None] | None = None
        self._answered: Callable[[Value], None] | None = None
        self.work: _Work | None = None
        """None: no quota counts this request."""
        self.held: Held | None = None
        """None for a small request, and once the answer has left the line."""
        self.frame: bytearray | _Sentinel | None = None
        self.ends = ""
        """Why the connection is closed once the answer is written; "": it is not."""

    def mutations(self, *, strict: bool) -> Mutations:
        """What this request creates and deletes is to be taken from here (`wire.throttling`)."""
        work = self.work
        if work is None:
            return UNBOUNDED
        work.mutations = self._connection.throttling.mutations(work.context, strict=strict)
        return work.mutations

    @property
    def sasl(self) -> SaslSession | None:
        """How the connection authenticates; None: its listener asks nobody."""
        return self._connection.sasl

    def authenticated(self, principal: str, session_ends_ms: int | None) -> None:
        """The client is this user for the requests that are read from now on."""
        self._connection.authenticated(principal, session_ends_ms)

    def tokens_follow(self) -> None:
        """The client's next frames are bare messages, until it is authenticated (SaslHandshake v0)."""
        self._connection.tokens = True

    def last(self, answer: Value, why: str) -> None:
        """Answer, and close the connection then. A bare message has no answer that refuses."""
        self.ends = why
        self(CLOSE if self.route is TOKEN_ROUTE else answer)

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
        if isinstance(answer, _Sentinel):
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

    def _drop(self) -> None:
        """Nobody hears the answer. Who does not wait for answers is held to its quotas as well."""
        self.frame = NO_ANSWER
        self.held = None
        if self.work is not None:
            self._charge(self.work, 0, timed=True)

    def _throttle(self, work: "_Work", frame: bytearray | None, answer: Value) -> bytearray:
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

    def _charge(self, work: "_Work", answer_bytes: int, *, timed: bool) -> int:
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


class _Work:
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


Handle = Callable[[RequestContext, Value, Exchange], None]
"""Handles a decoded request; calls the exchange now or later, on the same thread."""


_UNREAD = RequestMeter(lambda: 0)
"""For connections without a meter; its numbers are never read."""


class Token(NamedTuple):
    """A bare message, in the form of a SaslAuthenticate request."""

    auth_bytes: bytes


class _TokenRoute(Route):
    """Of bare messages: an answer is its message and its length."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Api.SASL_AUTHENTICATE, 0)
        self.encode = lambda out, answer: out.extend(answer["auth_bytes"])

    @override
    def start_answer(self, correlation: int) -> bytearray:
        return bytearray(_SIZE_BYTES)


TOKEN_ROUTE: Route = _TokenRoute()
NEVER_MS = 2**63


class Connection:
    """See the module. `wake` is called when answers have become ready or the connection has failed."""

    __slots__ = (
        "_buffered", "_chunks", "_client_host", "_client_id", "_clock", "_handle", "_heartbeat_at_once", "_held_ns",
        "_line", "_line_bytes", "_listener", "_needed", "_notice", "_ready", "_repeated", "_session_ends_ms", "_unsent",
        "_wake", "connection_id", "failure", "last_request_ms", "meter", "muted_until_ms", "patient", "principal",
        "requests", "sasl", "state", "throttling", "tokens",
    )  # fmt: skip

    def __init__(
        self,
        *,
        listener: str,
        connection_id: int,
        client_host: str,
        clock: Clock,
        handle: Handle,
        wake: Callable[[], None],
        heartbeat_at_once: HeartbeatAtOnce = never_at_once,
        notice: Notice = unnoticed,
        meter: RequestMeter | None = None,
        authenticated: bool = True,
        principal: str = ANONYMOUS,
        sasl: SaslSession | None = None,
        throttling: Throttling = NOBODY_THROTTLED,
    ) -> None:
        self.meter = meter or _UNREAD
        self.throttling = throttling
        self.muted_until_ms = 0
        """Nothing is read before, because the client is above a quota; 0: it is not muted."""
        self._held_ns = 0
        """When buffered frames began to wait for a turn; 0 while none waits."""
        self.connection_id = connection_id
        self.state = State.READY if authenticated else State.UNAUTHENTICATED
        self.principal = principal
        """Who the client is, for the requests that are read from now on."""
        self.sasl = sasl
        self.tokens = False
        """Do bare messages come instead of requests?"""
        self._session_ends_ms = NEVER_MS
        self.failure = ""
        self.requests = 0
        self.patient = 0
        """Number of exchanges in the line with an `on_followed` call."""
        self.last_request_ms = clock.monotonic_ms()
        self._listener = listener
        self._client_host = client_host
        self._client_id = ClientId()
        self._clock = clock
        self._handle = handle
        self._heartbeat_at_once = heartbeat_at_once
        self._repeated: RepeatedHeartbeat | None = None
        self._wake = wake
        self._notice = notice
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._needed = _SIZE_BYTES
        self._line: deque[Exchange] = deque()
        self._line_bytes = 0
        """Estimated memory of the requests in the line that are not small."""
        self._ready: list[bytes | bytearray] = []
        self._unsent = 0

    # -- input

    def receive(self, data: bytes) -> None:
        """Take bytes from the client, in any pieces."""
        if self.state in (State.FAILED, State.CLOSED) or not data:
            return
        self._chunks.append(data)
        self._buffered += len(data)
        self._read()

    def answer_at_once(self, data: bytes) -> bytes | None:
        """The answers, for the driver to write now, if `data` is whole repetitions of the client's last heartbeat and
        nothing else, and no partial frame, unanswered request or untaken answer is left. None: nothing was done, call
        `receive`."""
        repeated = self._repeated
        if repeated is None or self._line or self._buffered or self._unsent or self.state is not State.READY:
            return None
        if self.muted_until_ms or self.throttling.times_requests:
            return None
        times, rest = divmod(len(data), repeated.size_bytes)
        if rest or not 0 < times <= limits.CONNECTION_TURN_REQUESTS_MAX:
            return None
        correlations = repeated.run(data, 0, times)
        if len(correlations) != times:
            return None
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._session_ends_ms:
            return None
        self.last_request_ms = now_ms
        return self._judge(repeated, correlations)

    def _judge(self, repeated: RepeatedHeartbeat, correlations: list[bytes]) -> bytes | None:
        """The answers to repetitions that arrived together. The code is looked up once: the state cannot change between
        two of them."""
        code = self._heartbeat_at_once(repeated.request, len(correlations))
        if code is None:
            return None
        self.requests += len(correlations)
        return repeated.answers(correlations, code)

    def hold(self, data: bytes) -> None:
        """Keep bytes from the client for a later `resume`, because this turn has no time left."""
        if self.state not in (State.FAILED, State.CLOSED):
            self._chunks.append(data)
            self._buffered += len(data)
            self._wait()

    def _wait(self) -> None:
        if not self._held_ns:
            self._held_ns = self.meter.now_ns()

    @property
    def holds_frames(self) -> bool:
        """True when `resume` would read a frame."""
        return self._may_go_on() and self._buffered >= self._needed

    def subject(self) -> bytes:
        """The subject of the next frame (`wire.fairness`): its group, or this connection when it names none."""
        named = subject_of(self._chunks[0]) if self._chunks else b""
        return named or b"\0%d" % self.connection_id

    @property
    def wants_bytes(self) -> bool:
        """False: stop reading from the socket until `wake` is called. Also False while whole frames wait for a turn."""
        return self._may_go_on() and self._buffered < self._needed

    def resume(self) -> None:
        """Read frames that were held back."""
        if self.holds_frames:
            self._read()

    def _may_go_on(self) -> bool:
        return self.state in (State.READY, State.UNAUTHENTICATED) and not self._is_full()

    def mute(self, throttle_ms: int) -> None:
        """Read nothing for this time. The driver calls `unmute` then."""
        self.muted_until_ms = max(self.muted_until_ms, self._clock.monotonic_ms() + throttle_ms)
        self._wake()

    def unmute(self) -> None:
        """The time is over; call `resume` for what has been held back."""
        self.muted_until_ms = 0

    def _is_full(self) -> bool:
        if self.muted_until_ms:
            return True
        line = self._line
        if line and self.state is State.UNAUTHENTICATED:
            return True
        if len(line) >= limits.PIPELINED_REQUESTS_MAX or self._unsent > CONNECTION_UNSENT_BYTES_MAX:
            return True
        # Only with a line that is not empty: its next answer makes this connection look again.
        return self._line_bytes > limits.CONNECTION_HELD_BYTES_MAX or (
            bool(line) and self.meter.held_bytes > limits.REQUESTS_HELD_BYTES_MAX
        )

    def _read(self) -> None:
        if self._buffered < self._needed or self._is_full():
            return
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        try:
            pos = self._split(data)
        except WireError as error:
            self._fail(str(error))
            return
        self._held_ns = 0
        if pos < len(data) and self.state is not State.CLOSED:
            rest = data[pos:] if pos else data
            self._chunks.insert(0, rest)
            self._buffered += len(rest)
            if self._buffered >= self._needed:
                self._wait()

    def _split(self, data: bytes) -> int:
        """Hand on whole frames, at most one turn's share; returns the position of the first byte that stays.

        The share is needed because requests that are answered at once never fill the line: thousands of small ones in
        one read would delay the heartbeats of all other connections.
        """
        pos, size, count = 0, len(data), 0
        self.last_request_ms = now_ms = self._clock.monotonic_ms()
        while not self._is_full():
            self._needed = _SIZE_BYTES
            repeated = self._repeated if now_ms < self._session_ends_ms and not self.throttling.times_requests else None
            if repeated is not None and not self._line and count < limits.CONNECTION_TURN_REQUESTS_MAX:
                taken = self._repeat(repeated, data, pos, limits.CONNECTION_TURN_REQUESTS_MAX - count)
                count += taken
                pos += taken * repeated.size_bytes
            left = size - pos
            if left < _SIZE_BYTES:
                break
            frame_size = self._frame_size(data, pos, left)
            stop = pos + _SIZE_BYTES + frame_size
            if stop > size:
                # With fewer than _PEEK_BYTES the API is unknown, and with it the size limit that applies.
                self._needed = _PEEK_BYTES if left < _PEEK_BYTES else _SIZE_BYTES + frame_size
                break
            if (
                count >= limits.CONNECTION_TURN_REQUESTS_MAX
                or self._clock.monotonic_ms() - now_ms > limits.CONNECTION_TURN_MS_MAX
            ):
                self._wake()
                break
            count += 1
            if self.tokens:
                self._token(data[pos + _SIZE_BYTES : stop])
            else:
                self._request(data, pos + _SIZE_BYTES, stop)
            pos = stop
            if self.state not in (State.READY, State.UNAUTHENTICATED):
                break
        return pos

    def _repeat(self, repeated: RepeatedHeartbeat, data: bytes, pos: int, most: int) -> int:
        """Answer the repetitions of the last heartbeat at `pos`; returns their number.

        Precondition: the line is empty. Invariant: answers leave in the order of their requests.
        """
        correlations = repeated.run(data, pos, most)
        answers = self._judge(repeated, correlations) if correlations else None
        if answers is None:
            return 0
        self._ready.append(answers)
        self._unsent += len(answers)
        self._wake()
        return len(correlations)

    def _frame_size(self, data: bytes, pos: int, left: int) -> int:
        if self.tokens:
            length: int = _UNPACK_SIZE(data, pos)[0]
            if not 0 <= length <= limits.UNAUTHENTICATED_FRAME_BYTES_MAX:
                raise WireError(f"message of {length} bytes")
            return length
        if left < _PEEK_BYTES:
            size: int = _UNPACK_SIZE(data, pos)[0]
            highest = limits.FRAME_BYTES_MAX_LARGE
        else:
            size, api = _UNPACK_SIZE_AND_API(data, pos)
            highest = limits.FRAME_BYTES_MAX_LARGE if api in LARGE_FRAMES else limits.FRAME_BYTES_MAX
        if self.state is State.UNAUTHENTICATED:
            highest = limits.UNAUTHENTICATED_FRAME_BYTES_MAX
        if not FIRST_BYTES <= size <= highest:
            if size >> 16 == _TLS_RECORD:
                raise WireError("the client speaks TLS, this listener does not")
            raise WireError(f"frame of {size} bytes")
        return size

    def _request(self, data: bytes, pos: int, stop: int) -> None:
        api, version, correlation = read_first(data, pos)
        if api not in BEFORE_AUTHENTICATION:
            self._require_user()
        self._count_request()
        route = route_of(api, version)
        if route is None:
            self._refuse_version(api, version, correlation)
            return
        counted_from_ns = self._counted_from_ns(api) if self.throttling.active else None
        frame = Frame(data, stop)
        client_id = self._client_id
        try:
            body = client_id.read(frame, pos + FIRST_BYTES, flexible=route.flexible)
            context = RequestContext(
                principal=self.principal,
                listener=self._listener,
                connection_id=self.connection_id,
                client_id=client_id.text,
                client_host=self._client_host,
                api_key=api,
                api_version=version,
                deadline_ms=self.last_request_ms + PROPOSAL_TIMEOUT_MS,
            )
            request, end = route.decode(frame, body, context)
        except BAD_BYTES as error:
            raise WireError(f"request ends early or is no UTF-8: {error}") from error
        except WireError:
            raise
        except Exception as error:
            raise self._failed_by(api, version, error) from error
        if end > stop:
            raise WireError("request is longer than its frame")
        held_bytes = frame.held_bytes(pos)
        small = held_bytes <= limits.SMALL_REQUEST_BYTES_MAX
        if not small and self.meter.held_bytes + held_bytes > limits.REQUESTS_HELD_BYTES_MAX:
            raise WireError("the unanswered requests of all clients hold too much memory for another of this size")
        if self.patient:
            self._hurry(api)
        if api == Api.HEARTBEAT:
            self._remember(data, pos - _SIZE_BYTES, stop, route, request)
        meter = self.meter
        began_ns = meter.now_ns()
        meter.in_flight += 1
        meter.request_bytes[api] += stop - pos
        if self._held_ns:
            meter.queue_seconds.observe((began_ns - self._held_ns) / 1e9)
        exchange = Exchange(self, route, correlation, began_ns)
        if not small:
            exchange.held = Held(meter, held_bytes)
            self._line_bytes += held_bytes
        self._line.append(exchange)
        try:
            if counted_from_ns is not None:
                self._count_work(context, request, exchange, _Work(context, stop - pos, counted_from_ns))
            else:
                self._handle(context, request, exchange)
        except Exception as error:
            raise self._failed_by(api, version, error) from error

    def _hurry(self, api: int) -> None:
        for earlier in tuple(self._line):
            earlier.hurry(api)

    def _counted_from_ns(self, api: int) -> int | None:
        """When the work for a request begins; None: no quota counts it, as nobody knows yet whose it is."""
        counted = self.state is State.READY and self.throttling.counts(api)
        return self.meter.now_ns() if counted else None

    def _count_work(self, context: RequestContext, request: Value, exchange: Exchange, work: _Work) -> None:
        """Handle a request of which quotas count what it takes."""
        exchange.work = work
        self._handle(context, request, exchange)
        work.handed_on(self.meter.now_ns())

    def _require_user(self) -> None:
        if self.state is State.UNAUTHENTICATED:
            raise WireError("request before authentication")
        if self.last_request_ms >= self._session_ends_ms:
            raise WireError("the session has ended, and the client has not authenticated again")

    def _count_request(self) -> None:
        self.requests += 1
        if self.state is State.UNAUTHENTICATED and self.requests > limits.UNAUTHENTICATED_REQUESTS_MAX:
            raise WireError("too many requests before authentication")

    def _token(self, message: bytes) -> None:
        """A bare message is handled as the request that came after it in Kafka's history."""
        self._count_request()
        context = RequestContext(
            principal=self.principal,
            listener=self._listener,
            connection_id=self.connection_id,
            client_id=self._client_id.text,
            client_host=self._client_host,
            api_key=Api.SASL_AUTHENTICATE,
            api_version=0,
            deadline_ms=self.last_request_ms + PROPOSAL_TIMEOUT_MS,
        )
        self.meter.in_flight += 1
        exchange = Exchange(self, TOKEN_ROUTE, 0, self.meter.now_ns())
        self._line.append(exchange)
        try:
            self._handle(context, Token(message), exchange)
        except Exception as error:
            raise self._failed_by(Api.SASL_AUTHENTICATE, 0, error) from error

    def authenticated(self, principal: str, session_ends_ms: int | None) -> None:
        """The client has shown who it is, for the first time or again; None: for good."""
        self.principal = principal
        self._session_ends_ms = NEVER_MS if session_ends_ms is None else session_ends_ms
        self.tokens = False
        if self.state is State.UNAUTHENTICATED:
            self.state = State.READY

    def end(self, why: str) -> None:
        """Close the connection, whatever it was doing."""
        if self.state in (State.READY, State.UNAUTHENTICATED):
            self._fail(why)

    def _failed_by(self, api: int, version: int, error: Exception) -> Exception:
        """The exception to raise for a failure that the request's bytes did not cause: `error` itself when it must end
        the process, else a WireError that ends this connection."""
        if ends_process(error):
            return error
        self.contain("a request met an error of this replica", api, version, error)
        return WireError("a request met an error of this replica, see the log")

    def contain(self, what: str, api: int, version: int, error: Exception) -> None:
        """Report a bug of ours that costs only this connection."""
        self._notice(what, {"api": api, "version": version, "peer": self._client_host}, error)

    def _remember(self, data: bytes, pos: int, stop: int, route: Route, request: Heartbeat) -> None:
        if self._heartbeat_at_once is not never_at_once and RepeatedHeartbeat.remembers(stop - pos):
            self._repeated = RepeatedHeartbeat(data, pos, stop, route, request)

    def _refuse_version(self, api: int, version: int, correlation: int) -> None:
        """Answer ApiVersions of an unknown version in version 0 with error 35 and the whole table (KIP-511; Kafka gives
        only the range of ApiVersions, which the table contains). Any other unknown version fails the connection."""
        if api != Api.API_VERSIONS:
            raise WireError(f"API {api} version {version} is not served")
        oldest = route_of(api, 0)
        assert oldest is not None, "version 0 of ApiVersions is served"
        self.meter.in_flight += 1
        exchange = Exchange(self, oldest, correlation, self.meter.now_ns())
        self._line.append(exchange)
        exchange({"error_code": Code.UNSUPPORTED_VERSION, "api_keys": ADVERTISED})

    # -- output

    def answered(self) -> None:
        """An exchange has its answer: move answers from the head of the line to the output, up to the first missing."""
        line = self._line
        if line[0].frame is None:
            return
        while line and line[0].frame is not None:
            exchange = line.popleft()
            frame = exchange.frame
            self.meter.in_flight -= 1
            if exchange.held is not None:
                self._line_bytes -= exchange.held.bytes
                exchange.held = None
            if isinstance(frame, bytearray):
                self._ready.append(frame)
                self._unsent += len(frame)
            elif frame is CLOSE:
                self._fail(exchange.ends or "closed by the handler")
                return
            if exchange.ends:
                self._fail(exchange.ends)
                return
        self._wake()

    def take(self) -> list[bytes | bytearray]:
        """Frames to write now, in order; a piece holds one frame or several. Each is returned once."""
        ready, self._ready = self._ready, []
        return ready

    def note_unsent(self, transport_bytes: int) -> None:
        """The driver has taken answers and still holds `transport_bytes` of them."""
        self._unsent = transport_bytes + sum(map(len, self._ready))

    @property
    def ready_bytes(self) -> int:
        """Bytes of ready answers that the driver has not taken yet."""
        return sum(map(len, self._ready))

    @property
    def buffered_bytes(self) -> int:
        """Bytes of frames that are incomplete or held back."""
        return self._buffered

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the kernel has not taken yet."""
        return self._unsent

    @property
    def unanswered(self) -> int:
        """Number of requests in the line."""
        return len(self._line)

    # -- end

    def _fail(self, why: str) -> None:
        self.state, self.failure = State.FAILED, why
        self._chunks.clear()
        self._buffered = 0
        self._wake()

    def close(self) -> None:
        """The socket is closed: cancel all exchanges in the line."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        line, self._line = self._line, deque()
        self.meter.in_flight -= len(line)
        self._chunks.clear()
        self._buffered = self._unsent = self._line_bytes = 0
        self._ready.clear()
        self._wake = _nobody  # who is woken holds this connection: the circle would keep both
        for exchange in line:
            exchange.cancel()


def _nobody() -> None:
    """Is woken by a closed connection."""
