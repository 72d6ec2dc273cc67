"""Look-up of all codecs: hand-written ones for the five hot APIs, compiled ones for the rest.

`decoder` and `encoder` are looked up once per request; both are cached per (API, version).
"""

import struct
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import WireError
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.hot import heartbeat, join_group, offset_commit, offset_fetch, sync_group
from muster_coordinator.wire.reader import reader
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import VERSIONS, Api
from muster_coordinator.wire.writer import writer

Decode = Callable[[Frame, int, RequestContext], Any]
DecodeFrom = Callable[[Frame, int, RequestContext], tuple[Any, int]]
"""The request and the position after it."""
BAD_BYTES = (struct.error, IndexError, UnicodeDecodeError)
"""What decoders raise when they read past the end of the data or meet text that is not UTF-8."""
Encode = Callable[[bytearray, Any], None]

HOT: dict[int, ModuleType] = {
    Api.HEARTBEAT: heartbeat,
    Api.OFFSET_COMMIT: offset_commit,
    Api.OFFSET_FETCH: offset_fetch,
    Api.JOIN_GROUP: join_group,
    Api.SYNC_GROUP: sync_group,
}


def _checked(decode: DecodeFrom) -> Decode:
    def read(frame: Frame, pos: int, context: RequestContext) -> Value:
        try:
            request, pos = decode(frame, pos, context)
        except BAD_BYTES as error:
            raise WireError(f"request ends early or is no UTF-8: {error}") from error
        if pos > frame.end:
            raise WireError("request is longer than its frame")
        return request

    return read


@cache
def decoder(api: int, version: int) -> Decode:
    """The decoder of a request's body in a served version. It raises WireError, nothing else."""
    return _checked(unchecked_decoder(api, version))


@cache
def unchecked_decoder(api: int, version: int) -> DecodeFrom:
    """As `decoder`, but the caller must handle `BAD_BYTES` and a position after the body that is past the frame."""
    hot = HOT.get(api)
    if hot is not None:
        decode: DecodeFrom = hot.decoder(version)
        return decode
    read = reader(api, version)
    return lambda frame, pos, _: (read(frame, pos), frame.end)


@cache
def encoder(api: int, version: int) -> Encode:
    """The encoder of an answer's body in a served version; it appends to a buffer."""
    hot = HOT.get(api)
    if hot is not None:
        encode: Encode = hot.encoder(version)
        return encode
    return writer(api, version)


def preload() -> None:
    """Compile every served version now instead of at its first request. Takes 60 ms of processor time."""
    for api, versions in VERSIONS.items():
        for version in range(versions.min, versions.max + 1):
            decoder(api, version)
            encoder(api, version)
