"""Requests of our own to the upstream, and its answers to them.

What it does not do: frames of clients, which are not read (`upstream.brokers` but for addresses).
"""

import struct
from collections.abc import Mapping

from muster_coordinator.errors import WireError
from muster_coordinator.upstream.brokers import body_of
from muster_coordinator.wire.codecs import BAD_BYTES
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.reader import reader
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import is_flexible
from muster_coordinator.wire.writer import writer

CLIENT_ID = b"muster"
HEAP_FACTOR = 83
"""Heap bytes that a byte of a frame can become (`wire.heap_budget`)."""
_HEAD = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")


def framed(api: int, version: int, correlation: int, request: Mapping[str, Value]) -> bytes:
    """A whole request, with its size."""
    out = bytearray(_SIZE.size)
    out += _HEAD.pack(api, version, correlation, len(CLIENT_ID))
    out += CLIENT_ID
    if is_flexible(api, version):
        out.append(0)
    writer(api, version, "request")(out, request)
    _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
    return bytes(out)


def read_answer(api: int, version: int, frame: bytes) -> Value:
    """Of a whole answer, with its size. Raises `WireError`."""
    reading = Frame(frame, len(frame), heap=HEAP_FACTOR * len(frame))
    try:
        start = body_of(api, version, reading)
    except BAD_BYTES as error:
        raise WireError(f"an answer ends early: {error}") from error
    return reader(api, version, "response")(reading, start)
