"""TLS between a socket's transport and the protocol above it, on OpenSSL's memory buffers.

Problem: uvloop's TLS has a buffer of 256 KiB in each connection, asyncio's as much; both handshake as the bytes come,
so a thousand that connect at once hold the loop for a second; and neither lets an arrival be counted, delayed or
refused before OpenSSL has worked for it. Mechanism: one object is the protocol of the raw transport and the transport
of the protocol above. Bytes go through OpenSSL one record at a time, so its buffers stay as large as a record.
Handshakes are steps in `Handshakes`: some milliseconds of them a turn, a deadline for each, and a bound on how many are
open, at which the oldest is ended: an honest client handshakes within milliseconds, so it is rarely the oldest.

Above the handshake a connection is a transport as any other: writes leave in the turn in which they were made, flow
control and buffer sizes are the raw transport's. What it does not do: choose a context, or say who the peer is.
"""

import asyncio
import contextlib
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from typing_extensions import override

from muster_coordinator.runtime import limits

TLS_FIRST_BYTE = 0x16
"""First byte of every TLS connection: the content type of its first record."""
Ready = Callable[["TlsConnection"], asyncio.Protocol | None]
"""The handshake is complete: the protocol above from now on; None: close."""
Failed = Callable[[str], None]
"""There will be none, and why. The connection is closed."""


class Handshakes:
    """Those of one process: which are open, and whose turn it is. All calls are made on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        open_max: int = limits.TLS_HANDSHAKES_MAX,
        timeout_ms: int = limits.TLS_HANDSHAKE_MS,
    ) -> None:
        self.loop = loop
        self._open_max = open_max
        self._timeout_ms = timeout_ms
        self._open: dict[TlsConnection, asyncio.TimerHandle] = {}
        """In the order in which they began."""
        self._line: deque[TlsConnection] = deque()
        self._queued = False

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def begin(self, connection: "TlsConnection") -> None:
        """Count it, at the cost of the oldest when there are too many."""
        if len(self._open) >= self._open_max:
            next(iter(self._open)).give_up("too many handshakes are open, and this is the oldest")
        expired = f"the TLS handshake took more than {self._timeout_ms} ms"
        self._open[connection] = self.loop.call_later(self._timeout_ms / 1_000, connection.give_up, expired)

    def end(self, connection: "TlsConnection") -> None:
        """It is complete, or has failed."""
        timer = self._open.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def step(self, connection: "TlsConnection") -> None:
        """Do its next step in this turn or a later one."""
        self._line.append(connection)
        if not self._queued:
            self._queued = True
            self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        line, loop = self._line, self.loop
        ends_ns = time.monotonic_ns() + limits.TLS_HANDSHAKES_TURN_MS * 1_000_000  # uvloop's clock stands in a turn
        while line:
            line.popleft().shake()
            if time.monotonic_ns() >= ends_ns:
                break
        self._queued = bool(line)
        if line:
            loop.call_soon(self._turn)


class TlsConnection(asyncio.Transport, asyncio.Protocol):
    """One connection: set it as the protocol of the raw transport, then call `begin`."""

    def __init__(
        self,
        raw: asyncio.Transport,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        *,
        ready: Ready,
        failed: Failed,
        server_side: bool = True,
        host: str | None = None,
    ) -> None:
        """`host`: the name that a server must have."""
        super().__init__()
        self._raw = raw
        self._handshakes = handshakes
        self._ready: Ready | None = ready
        self._failed: Failed | None = failed
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server_side, server_hostname=host)
        self._server_side = server_side
        self._held: list[bytes] = []
        """Bytes that wait for their step of the handshake; reading is paused meanwhile."""
        self._first = server_side
        self._begun = False
        self._above: asyncio.Protocol | None = None
        self._closing = False
        self._reading = True

    def begin(self) -> None:
        """Handshake from now on. What came before was held."""
        if self._closing:
            return
        self._begun = True
        self._handshakes.begin(self)
        if self._held or not self._server_side:
            self._handshakes.step(self)
        else:
            self._raw.resume_reading()

    @property
    def certificate(self) -> bytes | None:
        """DER of the certificate that the peer has shown and proved."""
        return self._tls.getpeercert(binary_form=True)

    # -- the handshake ---------------------------------------------------------------------------------------------

    def shake(self) -> None:
        """One step. Called by `Handshakes`."""
        if self._ready is None or self._closing:
            return
        held, self._held = self._held, []
        for data in held:
            self._in.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            self._raw.resume_reading()
            return
        except ssl.SSLError as error:
            self._flush()  # the alert, which tells an honest client what is wrong
            self.give_up(_words(error))
            return
        self._flush()
        self._complete()

    def _complete(self) -> None:
        ready, self._ready, self._failed = self._ready, None, None
        self._handshakes.end(self)
        above = ready(self) if ready is not None else None
        if above is None:
            self.abort()
            return
        self._above = above
        above.connection_made(self)
        if self._reading:
            self._raw.resume_reading()
        self._read(b"")  # what came with the last flight

    def give_up(self, why: str) -> None:
        """The handshake has failed."""
        failed, self._ready, self._failed = self._failed, None, None
        self._handshakes.end(self)
        self._closing = True
        self._held.clear()
        if self._raw.get_write_buffer_size():
            self._raw.abort()
        else:
            self._raw.close()
        if failed is not None:
            failed(why)

    # -- asyncio.Protocol: the raw transport's side ----------------------------------------------------------------

    @override
    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._above is not None:
            self._read(data)
            return
        if self._first:
            self._first = False
            if data[0] != TLS_FIRST_BYTE:
                self.give_up("the other side does not speak TLS")
                return
        self._held.append(data)
        self._raw.pause_reading()
        if self._begun and len(self._held) == 1:
            self._handshakes.step(self)

    @override
    def eof_received(self) -> bool | None:
        if self._above is not None and not self._closing:
            self._above.eof_received()
        return False

    @override
    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    @override
    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._handshakes.end(self)
        above, self._above = self._above, None
        failed, self._ready, self._failed = self._failed, None, None
        self._held.clear()
        if above is not None:
            above.connection_lost(exc)
        elif failed is not None:
            failed("the connection ended in the TLS handshake")

    def _read(self, data: bytes) -> None:
        """Decrypt what has come, a record at a time, and hand it on at once."""
        plain: list[bytes] = []
        view = memoryview(data)
        why: str | None = None
        for pos in range(0, max(len(data), 1), limits.TLS_RECORD_BYTES):
            self._in.write(view[pos : pos + limits.TLS_RECORD_BYTES])
            why = self._decrypt(plain)
            if why is not None:
                break
        above = self._above
        if plain and above is not None:
            above.data_received(plain[0] if len(plain) == 1 else b"".join(plain))
        if why == "":
            self.close()
        elif why is not None:
            self.abort()
        else:
            self._flush()  # an answer to a change of keys

    def _decrypt(self, plain: list[bytes]) -> str | None:
        """Take what is whole in OpenSSL's buffer. Returns why the connection ends, "" if the peer has closed it."""
        try:
            while True:
                part = self._tls.read(limits.TLS_RECORD_BYTES)
                if not part:
                    return ""
                plain.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            return ""
        except ssl.SSLError as error:
            return _words(error)
        return None

    # -- asyncio.Transport: what the protocol above sees -----------------------------------------------------------

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        try:
            if len(data) <= limits.TLS_RECORD_BYTES:
                self._tls.write(data)
                self._raw.write(self._out.read())
                return
            view, parts = memoryview(data), []
            for pos in range(0, len(view), limits.TLS_RECORD_BYTES):
                self._tls.write(view[pos : pos + limits.TLS_RECORD_BYTES])
                parts.append(self._out.read())
        except ssl.SSLError:
            self.abort()
            return
        self._raw.writelines(parts)

    @override
    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _flush(self) -> None:
        data = self._out.read()
        if data and not self._raw.is_closing():
            self._raw.write(data)

    @override
    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._above is not None:
            with contextlib.suppress(ssl.SSLError):  # the peer has not said goodbye yet; ours is in the buffer
                self._tls.unwrap()
            self._flush()
        self._raw.close()

    @override
    def abort(self) -> None:
        self._closing = True
        self._raw.abort()

    @override
    def is_closing(self) -> bool:
        return self._closing or self._raw.is_closing()

    @override
    def pause_reading(self) -> None:
        self._reading = False
        self._raw.pause_reading()

    @override
    def resume_reading(self) -> None:
        self._reading = True
        self._raw.resume_reading()

    @override
    def is_reading(self) -> bool:
        return self._reading

    @override
    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high=high, low=low)

    @override
    def can_write_eof(self) -> bool:
        return False

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._above = cast(asyncio.Protocol, protocol)

    @override
    def get_protocol(self) -> asyncio.BaseProtocol:
        return self if self._above is None else self._above

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name in ("ssl_object", "sslcontext"):
            return self._tls if name == "ssl_object" else self._tls.context
        return self._raw.get_extra_info(name, default)


def _words(error: ssl.SSLError) -> str:
    """OpenSSL's reason, without the line of its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {error.verify_message}"
    return f"TLS: {(error.reason or 'failed').lower().replace('_', ' ')}"
