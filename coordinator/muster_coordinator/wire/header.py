"""Request headers 1 and 2, response headers 0 and 1 (protocol.md 1.2)."""

import struct
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.hot.primitives import COMPACT, OLD
from muster_coordinator.wire.versions import VERSIONS, is_flexible, response_header_has_tags

FIRST_BYTES = 8
"""API key, version and correlation id: the least that a request has."""
_FIRST = struct.Struct(">hhi").unpack_from
_LENGTH_AND_CORRELATION = struct.Struct(">ii")


class Header(NamedTuple):
    """What comes before a request's body."""

    api: int
    version: int
    correlation: int


def read_first(data: bytes, pos: int) -> Header:
    """The three numbers that every header version starts with; the caller has checked that they are there."""
    return Header(*_FIRST(data, pos))


def served(header: Header) -> bool:
    """Whether a body of this API and version can be read here."""
    versions = VERSIONS.get(header.api)
    return versions is not None and versions.min <= header.version <= versions.max


def read_rest(frame: Frame, pos: int, header: Header) -> tuple[str, int]:
    """Client id ("" for null, in the old form even in header 2) and the position of the body. WireError."""
    try:
        client_id, pos = OLD.nullable_text(frame, pos + FIRST_BYTES)
        if is_flexible(header.api, header.version):
            pos = COMPACT.tags(frame, pos)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WireError("header ends early or is no UTF-8") from error
    return client_id or "", pos


def start_answer(correlation: int, api: int, version: int) -> bytearray:
    """A buffer that holds the response header; `finish_answer` fills in the length."""
    out = bytearray(_LENGTH_AND_CORRELATION.pack(0, correlation))
    if response_header_has_tags(api, version):
        out.append(0)
    return out


def finish_answer(out: bytearray) -> None:
    """Write the frame's length over its first four bytes."""
    struct.pack_into(">i", out, 0, len(out) - 4)
