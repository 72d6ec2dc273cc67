"""A connection to a broker of the upstream on which a replica asks for itself: one request, then its answer.

What it does not do: connect (`upstream_dial`), set a time-out (its callers do, by cancelling), or go on after an error.
"""

import asyncio
import struct
from typing import cast

from typing_extensions import override

from muster_coordinator.errors import WireError
from muster_coordinator.upstream import limits

_SIZE = struct.Struct(">i")


class Frames(asyncio.Protocol):
    """A connection on which one request is asked after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    async def ask(self, request: bytes) -> bytes:
        """The whole answer. Raises `ConnectionError` and `WireError`."""
        if self._transport is None:
            raise ConnectionError("it has closed the connection")
        self._answer = self._loop.create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from asyncio's.

    @override
    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._answer is None or self._answer.done() or len(self._data) < _SIZE.size:
            return
        size: int = _SIZE.unpack_from(self._data)[0]
        if not 0 < size <= limits.LOOK_ANSWER_BYTES_MAX:
            self._answer.set_exception(WireError(f"an answer of {size} bytes"))
        elif len(self._data) >= _SIZE.size + size:
            frame = bytes(self._data[: _SIZE.size + size])
            del self._data[: _SIZE.size + size]
            self._answer.set_result(frame)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"it has closed the connection: {exc or 'without a word'}"))
