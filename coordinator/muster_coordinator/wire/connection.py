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
does not do: sockets, timers, logging (`runtime.client_connection`), or the meaning of requests (`api`).
"""

import struct
from collections import deque
from collections.abc import Callable

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code, WireError, ends_process
from muster_coordinator.groups.requests import Heartbeat
from muster_coordinator.limits import CONNECTION_UNSENT_BYTES_MAX, PROPOSAL_TIMEOUT_MS
from muster_coordinator.ports import Clock, Notice, unnoticed
from muster_coordinator.security.session import SaslSession
from muster_coordinator.wire import limits
from muster_coordinator.wire.bare_messages import BARE_MESSAGES, Token
from muster_coordinator.wire.codecs import BAD_BYTES
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.exchange import CLOSE, Exchange, Handle, Held, Work
from muster_coordinator.wire.fairness import subject_of
from muster_coordinator.wire.header import FIRST_BYTES, ClientId, read_first
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.passage import Forwarded, Passage
from muster_coordinator.wire.repeated_heartbeat import HeartbeatAtOnce, RepeatedHeartbeat, never_at_once
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.route import Route, route_of
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.throttling import NOBODY_THROTTLED, Throttling
from muster_coordinator.wire.versions import ADVERTISED, BEFORE_AUTHENTICATION, LARGE_FRAMES, Api

ANONYMOUS = "User:ANONYMOUS"
_UNPACK_SIZE = struct.Struct(">i").unpack_from
_UNPACK_SIZE_AND_API = struct.Struct(">ih").unpack_from
_SIZE_BYTES = 4
_PEEK_BYTES = 6
_TLS_RECORD = 0x1603
"""How a TLS handshake begins; no frame is as large."""


_UNREAD = RequestMeter(lambda: 0)
"""For connections without a meter; its numbers are never read."""


NEVER_MS = 2**63


class Connection:
    """See the module. `wake` is called when answers have become ready or the connection has failed."""

    __slots__ = (
        "_buffered", "_chunks", "_client_host", "_client_id", "_clock", "_handle", "_heartbeat_at_once", "_held_ns",
        "_line", "_line_bytes", "_listener", "_needed", "_notice", "_ready", "_repeated", "_session_ends_ms", "_unsent",
        "_wake", "connection_id", "failure", "last_request_ms", "meter", "muted_until_ms", "passage", "patient",
        "principal", "requests", "sasl", "state", "throttling", "tokens",
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
        self.passage: Passage | None = None
        """Where requests go that are not for this replica; None: all are."""
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

    def context_of(self, api: int, version: int) -> RequestContext:
        """Of the request that was read last, which is of this API."""
        return RequestContext(
            principal=self.principal,
            listener=self._listener,
            connection_id=self.connection_id,
            client_id=self._client_id.text,
            client_host=self._client_host,
            api_key=api,
            api_version=version,
            deadline_ms=self.last_request_ms + PROPOSAL_TIMEOUT_MS,
        )

    def wake(self) -> None:
        """Have the driver look again whether the client may be read."""
        self._wake()

    def mute(self, throttle_ms: int) -> None:
        """Read nothing for this time. The driver calls `unmute` then."""
        self.muted_until_ms = max(self.muted_until_ms, self._clock.monotonic_ms() + throttle_ms)
        self._wake()

    def unmute(self) -> None:
        """The time is over; call `resume` for what has been held back."""
        self.muted_until_ms = 0

    def _is_full(self) -> bool:
        if self.muted_until_ms or (self.passage is not None and self.passage.full):
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
        self._count_request(api)
        route = route_of(api, version)
        if route is None:
            self._refuse_version(api, version, correlation)
            return
        counted_from_ns = self._counted_from_ns(api) if self.throttling.active else None
        frame = Frame(data, stop)
        client_id = self._client_id
        try:
            body = client_id.read(frame, pos + FIRST_BYTES, flexible=route.flexible)
            if self.passage is not None and self._passes_on(route, correlation, data, pos, body, stop):
                return
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
                self._count_work(context, request, exchange, Work(context, stop - pos, counted_from_ns))
            else:
                self._handle(context, request, exchange)
        except Exception as error:
            raise self._failed_by(api, version, error) from error

    def _passes_on(self, route: Route, correlation: int, data: bytes, pos: int, body: int, stop: int) -> bool:
        """Pass a request on that is for the server behind this one. False: it is for this replica."""
        passage = self.passage
        request = Forwarded(data, pos - _SIZE_BYTES, body, stop)
        if passage is None or not passage.takes(route.api, route.version, request):
            return False
        if self.patient:
            self._hurry(route.api)
        meter = self.meter
        meter.in_flight += 1
        meter.request_bytes[route.api] += stop - pos
        exchange = Exchange(self, route, correlation, meter.now_ns())
        self._line.append(exchange)
        passage.send(route.api, route.version, request, exchange)
        return True

    def _hurry(self, api: int) -> None:
        for earlier in tuple(self._line):
            earlier.hurry(api)

    def _counted_from_ns(self, api: int) -> int | None:
        """When the work for a request begins; None: no quota counts it, as nobody knows yet whose it is."""
        counted = self.state is State.READY and self.throttling.counts(api)
        return self.meter.now_ns() if counted else None

    def _count_work(self, context: RequestContext, request: Value, exchange: Exchange, work: Work) -> None:
        """Handle a request of which quotas count what it takes."""
        exchange.work = work
        self._handle(context, request, exchange)
        work.handed_on(self.meter.now_ns())

    def _require_user(self) -> None:
        if self.state is State.UNAUTHENTICATED:
            raise WireError("request before authentication")
        if self.last_request_ms >= self._session_ends_ms:
            raise WireError("the session has ended, and the client has not authenticated again")

    def _count_request(self, api: int) -> None:
        if api not in BEFORE_AUTHENTICATION:
            self._require_user()
        self.requests += 1
        if self.state is State.UNAUTHENTICATED and self.requests > limits.UNAUTHENTICATED_REQUESTS_MAX:
            raise WireError("too many requests before authentication")

    def _token(self, message: bytes) -> None:
        """A bare message is handled as the request that came after it in Kafka's history."""
        self._count_request(Api.SASL_AUTHENTICATE)
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
        exchange = Exchange(self, BARE_MESSAGES, 0, self.meter.now_ns())
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
        if line[0].frame is None or self.state is State.FAILED:
            # Once it has failed nothing more is written: the client would take an answer for the one before it.
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
        if self.passage is not None:
            self.passage.drained()

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
        passage, self.passage = self.passage, None
        if passage is not None:
            passage.close()


def _nobody() -> None:
    """Is woken by a closed connection."""
