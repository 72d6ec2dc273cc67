"""A client's connection goes on to a broker of the upstream Kafka: one connection there for each one here (ADR 96).

Problem: what is not for the coordinator must reach the broker in the order in which the client sent it, and the answers
must come back so, with back-pressure both ways and without memory for more than one answer. Mechanism: the connection
to the broker is made when the first request goes there. A broker of which it is not known that it is there is reached
before its client is read at all: so the client sees a broker that is down. With an answer to its ApiVersions it would
take it for one that is up, send its requests into a connection that ends, and come again at once. Requests are written
as they are; answers come in their order, so each is the oldest exchange's. An answer is received into a buffer of its
own size. While the broker takes no more, the client is not read; while the client takes no more, the broker is not. If
either side ends, so does the other: the client sees what it would see of a broker, and does what it does then. At an
address that stands for no broker, where a client's coordinator may be, the end of the broker is not the client's:
brokers and topics are told as they were last (`upstream.remembered`), and only what nobody else can answer ends the
connection. Where clients log in at the broker themselves (ADR 100), theirs is the connection's first exchange there;
one whose connection there has ended is its group's still, and has to come again with the next request that is the
broker's. What this does not do: open what is passed on (but for addresses: `upstream.brokers`; and where our ACLs are
in front, `upstream.rights`), or try again.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, cast

from typing_extensions import override

from muster_coordinator.errors import WireError
from muster_coordinator.limits import CONNECTION_UNSENT_BYTES_MAX, REFUSED_AFTER_MS
from muster_coordinator.security.outcome import Elsewhere, Judged
from muster_coordinator.upstream import limits
from muster_coordinator.upstream.apis import ACLS, FORWARDED, READDRESSED, USERS, is_offered
from muster_coordinator.upstream.brokers import (
    Broker,
    asks_for_transactions,
    coordinators_readdressed,
    readdressed,
    wants_answer,
)
from muster_coordinator.upstream.passed_login import PassedLogin
from muster_coordinator.upstream.remembered import Ours, Question, Remembered, Said
from muster_coordinator.upstream.rights.frames import Audited, Reworded, Stays, judged
from muster_coordinator.upstream.rights.verdict import Asking
from muster_coordinator.upstream.view import Addresses
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.exchange import NO_ANSWER, Exchange
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.passage import Forwarded
from muster_coordinator.wire.versions import Api

_SIZE = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")
_HEADER_BYTES = 8
"""Size and correlation id: the smallest answer."""
_ASKED_AT = 8
"""Where a request's correlation id is: behind its size, API and version."""


class Client(Protocol):
    """The part of `wire.connection.Connection` that its passage uses."""

    state: State

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the client has not taken yet."""

    def end(self, why: str) -> None:
        """Close the connection."""

    def wake(self) -> None:
        """Look again whether the client may be read."""


class Brokers(Protocol):
    """The part of `runtime.upstream.Upstream` that passages use."""

    receiving_bytes: int
    """Of all answers that are being received."""
    passes_logins: bool
    """Do clients log in there themselves?"""

    @property
    def away(self) -> bool:
        """Has the last look found nobody?"""

    async def dial(self, node: int | None, made: Callable[[], asyncio.Protocol]) -> None:
        """Connect to this broker, or to any. Raises `OSError`, also for one that is not known, and `TimeoutError`."""

    def remembered(self) -> Remembered | None:
        """What the upstream said last; None: nothing yet."""

    def learn(self, brokers: tuple[Broker, ...], said: Said | None) -> None:
        """An answer told who the upstream's brokers are; `said`: and what of topics."""

    def missing(self, node: int) -> None:
        """A broker's id has no port here."""

    def lost(self, node: int) -> None:
        """A connection to this broker has ended by itself."""

    def is_doubted(self, node: int) -> bool:
        """Has no client's connection reached it yet, or none since it was lost or not reached?"""


class _Asked(NamedTuple):
    """A request that wants an answer."""

    question: Question
    """Its bytes are kept only where it may be answered without the upstream."""
    exchange: Exchange | None
    """None: it is a part of the client's login."""
    reworded: Reworded | None = None
    """What the client's rights make of the answer."""
    audited: Audited | None = None
    """Hears what the client was answered."""


class UpstreamPassage:
    """`wire.passage.Passage` of one connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        brokers: Brokers,
        node: int | None,
        ours: Addresses,
        client: Client,
        rights: Callable[[int, int], Asking | None] | None = None,
    ) -> None:
        """`node`: which broker the client's address stands for; None: any. `rights`: those that the client has by our
        ACLs to a request of this API and version, None while nobody knows; without it nobody judges here."""
        self._loop = loop
        self._rights = rights
        self._brokers = brokers
        self._node = node
        self._ours = ours
        self._client = client
        self._dialling: asyncio.Task[None] | None = None
        self._half: _Half | None = None
        self._transport: asyncio.Transport | None = None
        """Of the half that is in use."""
        self._patience: asyncio.TimerHandle | None = None
        self._unsent: list[bytes] = []
        """Requests until the connection is there."""
        self._unsent_bytes = 0
        self._write_paused = False
        self._read_paused = False
        self._asked: deque[_Asked] = deque()
        """Oldest first."""
        self._head = b""
        """The beginning of an answer, until its size is known."""
        self._answer: bytearray | None = None
        self._filled = 0
        self._closed = False
        self._login = PassedLogin()
        self._judged: Callable[[Judged], None] | None = None
        """Who is to hear what the broker says of the login that is under way."""
        self._refused: asyncio.TimerHandle | None = None
        """Ends the client's connection."""
        self._unproven = node is not None and brokers.is_doubted(node)
        """The client is not read until the broker has been reached."""
        if self._unproven:
            self._dialling = loop.create_task(self._dial())

    # -- wire.passage.Passage

    @property
    def full(self) -> bool:
        waits = self._unproven or self._refused is not None
        return waits or self._write_paused or self._unsent_bytes > limits.UNSENT_BYTES_MAX

    def takes(self, api: int, version: int, request: Forwarded) -> bool:
        if not is_offered(api, version):
            raise WireError(f"API {api} version {version} is not served beside an upstream")
        if self._rights is not None and api in ACLS:
            return False
        if api in FORWARDED or api in READDRESSED:
            return True
        if api in USERS:
            return self._brokers.passes_logins
        return api == Api.FIND_COORDINATOR and asks_for_transactions(version, request.data, request.body, request.stop)

    def send(self, api: int, version: int, request: Forwarded, exchange: Exchange) -> None:
        data, reworded, audited = request.data[request.start : request.stop], None, None
        if self._rights is not None:
            rights = self._rights(api, version)
            if rights is None:
                self._refuse_later("nobody knows yet what it may do")
                return
            found = judged(api, version, request, rights)
            if isinstance(found, Stays):
                self._stays(found, exchange)
                return
            data, version, reworded, audited = found
        asked = _Asked(self._question(api, version, data, request), exchange, reworded, audited)
        if self._tells_at_once(asked, exchange):
            return
        if self._brokers.passes_logins and self._transport is None:
            self._client.end("its login at the upstream has ended with the connection there")
            return
        self._write(data)
        if api == Api.PRODUCE and not wants_answer(version, Frame(request.data, request.stop), request.body):
            exchange.passed_back(NO_ANSWER)
            return
        self._ask(asked)

    def _refuse_later(self, why: str) -> None:
        """See `limits.REFUSED_AFTER_MS`. Nothing is read meanwhile."""
        self._refused = self._loop.call_later(REFUSED_AFTER_MS / 1_000, self._client.end, why)

    def _stays(self, found: Stays, exchange: Exchange) -> None:
        """The client has no right to any of it."""
        if found.answer is None:
            self._client.end("it wants no answer, and is denied what it asks for")
            return
        if found.audited is not None:
            found.audited(found.answer)
        exchange.passed_back(found.answer)

    def log_in(self, mechanism: str, message: Elsewhere, judged: Callable[[Judged], None]) -> None:
        self._judged = judged
        self._log_in(self._login.begin(mechanism, message))

    def _log_in(self, request: bytes) -> None:
        self._write(request)
        self._ask(_Asked(Question(Api.SASL_AUTHENTICATE, 0, PassedLogin.CORRELATION, b"", 0), None))

    def _write(self, data: bytes) -> None:
        """To the broker, which is connected to now if it is not."""
        if self._transport is not None:
            self._transport.write(data)
            return
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._dialling is None:
            self._dialling = self._loop.create_task(self._dial())

    def _ask(self, asked: _Asked) -> None:
        self._asked.append(asked)
        if self._node is None and self._patience is None:
            self._patience = self._loop.call_later(limits.ANSWER_ANY_MS_MAX / 1_000, self._impatient)

    def _question(self, api: int, version: int, data: bytes, request: Forwarded) -> Question:
        correlation: int = _CORRELATION.unpack_from(data, _ASKED_AT)[0]
        kept = data if self._node is None and api not in FORWARDED else b""
        return Question(api, version, correlation, kept, request.body - request.start)

    def _tells_at_once(self, asked: _Asked, exchange: Exchange) -> bool:
        """While the upstream is away nobody is kept from what it said last by tries to reach it."""
        if self._node is not None or self._transport is not None or self._asked or not self._brokers.away:
            return False
        remembered = self._brokers.remembered()
        ours = Ours(self._ours.address, self._ours.replicas())
        told = None if remembered is None else remembered.told(asked.question, ours)
        if told is None:
            return False
        exchange.passed_back(_reworded(asked, told))
        return True

    def _impatient(self) -> None:
        self._patience = None
        if self._asked and not self._asked[0].question.frame:
            # It is the upstream's alone, and may take as long as its client lets it.
            self._patience = self._loop.call_later(limits.ANSWER_ANY_MS_MAX / 1_000, self._impatient)
            return
        self._end("the upstream's broker does not answer")

    def drained(self) -> None:
        if (
            self._read_paused
            and self._transport is not None
            and self._client.unsent_bytes <= CONNECTION_UNSENT_BYTES_MAX
        ):
            self._read_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        self._closed = True
        self._judged = None
        self._forget_answer()
        self._unanswered(self._asked)
        self._asked.clear()
        self._unsent.clear()
        for timer in (self._patience, self._refused):
            if timer is not None:
                timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        elif self._dialling is not None:
            self._dialling.cancel()

    # -- the broker's side

    async def _dial(self) -> None:
        try:
            await self._brokers.dial(self._node, lambda: _Half(self))
        except (OSError, TimeoutError) as error:
            self._dialling = None
            why = f"the upstream's broker cannot be reached: {str(error) or type(error).__name__}"
            if self._unproven:
                self._refuse_later(why)
            else:
                self._end(why)

    def connected(self, half: "_Half", transport: asyncio.Transport) -> None:
        """The connection is there."""
        self._dialling = None
        self._unproven = False
        if self._closed:
            transport.abort()
            return
        self._half, self._transport = half, transport
        unsent, self._unsent = self._unsent, []
        self._unsent_bytes = 0
        if unsent:
            transport.write(b"".join(unsent))
        self._client.wake()

    def lost(self, half: "_Half", why: str) -> None:
        """The connection has ended."""
        if half is not self._half:
            return
        if self._node is not None and not self._closed:
            self._brokers.lost(self._node)
        self._end(f"the upstream's broker {why}")

    def write_paused(self, half: "_Half", *, paused: bool) -> None:
        """Does the broker take no more?"""
        if half is self._half:
            self._write_paused = paused
            if not paused:
                self._client.wake()

    def received(self, half: "_Half", data: bytes) -> None:
        """Bytes of answers, in any pieces."""
        if half is not self._half:
            return
        try:
            self._receive(data)
        except WireError as error:
            self._end(f"the upstream's broker sent no answer: {error}")
            return
        transport = self._transport
        if not self._read_paused and transport is not None and self._client.unsent_bytes > CONNECTION_UNSENT_BYTES_MAX:
            self._read_paused = True
            transport.pause_reading()

    def _receive(self, data: bytes) -> None:
        """Take bytes of answers, in any pieces."""
        pos = 0
        while pos < len(data) and not self._closed and self._half is not None:
            answer = self._answer
            if answer is None:
                pos = self._begin(data, pos)
                continue
            taken = min(len(answer) - self._filled, len(data) - pos)
            answer[self._filled : self._filled + taken] = data[pos : pos + taken]
            self._filled += taken
            pos += taken
            if self._filled == len(answer):
                self._forget_answer()
                self._answered(answer)

    def _begin(self, data: bytes, pos: int) -> int:
        """Read an answer's head; returns the position behind what was taken."""
        taken = min(_HEADER_BYTES - len(self._head), len(data) - pos)
        self._head += data[pos : pos + taken]
        if len(self._head) < _HEADER_BYTES:
            return pos + taken
        head, self._head = self._head, b""
        size: int = _SIZE.unpack_from(head)[0]
        if not self._asked:
            raise WireError("an answer to nothing")
        most = limits.LOGIN_ANSWER_BYTES_MAX if self._asked[0].exchange is None else limits.ANSWER_BYTES_MAX
        if not _HEADER_BYTES - _SIZE.size <= size <= most:
            raise WireError(f"an answer of {size} bytes")
        if self._brokers.receiving_bytes + size > limits.ANSWERS_BYTES_MAX:
            raise WireError("the answers of all clients take too much memory for another of this size")
        self._brokers.receiving_bytes += size
        self._answer = bytearray(size + _SIZE.size)
        self._answer[:_HEADER_BYTES] = head
        self._filled = _HEADER_BYTES
        if self._filled == len(self._answer):
            answer = self._answer
            self._forget_answer()
            self._answered(answer)
        return pos + taken

    def _forget_answer(self) -> None:
        if self._answer is not None:
            self._brokers.receiving_bytes -= len(self._answer) - _SIZE.size
            self._answer = None

    def _answered(self, frame: bytearray) -> None:
        asked = self._asked[0]
        question, exchange = asked.question, asked.exchange
        api, version = question.api, question.version
        correlation: int = _CORRELATION.unpack_from(frame, _SIZE.size)[0]
        if correlation != question.correlation:
            raise WireError(f"an answer to {correlation}, where {question.correlation} was asked")
        self._asked.popleft()
        self._be_patient()
        if exchange is None:
            self._login_answered(bytes(frame))
            return
        if api in READDRESSED:
            data = bytes(frame)
            found = readdressed(api, version, data, self._address, self._ours.replicas())
            self._brokers.learn(found.brokers, Said(version, data) if api == Api.METADATA else None)
            frame = found.frame
        elif api == Api.FIND_COORDINATOR:
            frame = coordinators_readdressed(version, bytes(frame), self._address)
        try:
            told = _reworded(asked, frame)
        except WireError:
            self._unanswered((asked,))
            raise
        if asked.audited is not None:
            asked.audited(told)
        exchange.passed_back(told)

    def _login_answered(self, frame: bytes) -> None:
        step = self._login.receive(frame)
        if isinstance(step, bytes):
            self._log_in(step)
            return
        judged, self._judged = self._judged, None
        if step.refused:
            # The broker closes its connection now, which is not to end the client's before that has heard why.
            self._give_up()
        if judged is not None:
            judged(step)

    def _address(self, node: int) -> tuple[str, int] | None:
        found = self._ours.address(node)
        if found is None:
            self._brokers.missing(node)
        return found

    def _be_patient(self) -> None:
        """An answer has come: the next one has its own time."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
            if self._asked:
                self._patience = self._loop.call_later(limits.ANSWER_ANY_MS_MAX / 1_000, self._impatient)

    def _end(self, why: str) -> None:
        """Of this side. The client's follows, which closes this, unless it can be told something else."""
        if self._closed:
            self._transport = self._half = None
            return
        self._give_up()
        try:
            told = self._node is None and self._tell_without_it()
        except WireError as error:
            # What was asked is read here for the first time, and this is a callback of the loop: an error that leaves
            # it ends the process.
            told, why = False, f"{why}, and what was asked cannot be answered here: {error}"
        if told:
            self._client.wake()
        else:
            self._client.end(why)

    def _give_up(self) -> None:
        """The connection to the broker, or the try to make one. What was asked stays."""
        transport, self._transport, self._half = self._transport, None, None
        if transport is not None:
            transport.abort()
        if self._dialling is not None:
            self._dialling.cancel()
            self._dialling = None
        self._forget_answer()
        self._head = b""
        self._unsent.clear()
        self._unsent_bytes = 0
        self._write_paused = self._read_paused = False
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _tell_without_it(self) -> bool:
        """Answer what has not been answered by what the upstream said last. False: nobody but it can answer. Raises
        `WireError` if a question is none, or what was said cannot be read."""
        remembered = self._brokers.remembered()
        if remembered is None and self._asked:
            return False
        asked, self._asked = self._asked, deque()
        self._unanswered(asked)
        ours = Ours(self._ours.address, self._ours.replicas())
        for one in asked:
            if one.exchange is None:
                return False
            told = None if remembered is None else remembered.told(one.question, ours)
            if told is None:
                return False
            one.exchange.passed_back(_reworded(one, told))
        return True

    @staticmethod
    def _unanswered(asked: Iterable[_Asked]) -> None:
        """No answer comes to these any more. What is audited can be answered by the upstream alone."""
        for one in asked:
            if one.audited is not None:
                one.audited(None)


def _reworded(asked: _Asked, frame: bytearray) -> bytearray:
    """An answer with our addresses, as the client is told it. Raises `WireError`."""
    return frame if asked.reworded is None else asked.reworded(bytes(frame))


class _Half(asyncio.Protocol):
    """The connection to a broker; what comes late of one that was given up is nobody's."""

    def __init__(self, passage: UpstreamPassage) -> None:
        self._passage = passage

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from asyncio's.
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        transport.set_write_buffer_limits(high=limits.UNSENT_BYTES_MAX)
        self._passage.connected(self, transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._passage.lost(self, "has closed the connection" if exc is None else f"is gone: {exc}")

    @override
    def pause_writing(self) -> None:
        self._passage.write_paused(self, paused=True)

    @override
    def resume_writing(self) -> None:
        self._passage.write_paused(self, paused=False)

    @override
    def data_received(self, data: bytes) -> None:
        self._passage.received(self, data)
