"""Frames of clients and of the upstream, judged: bytes in, bytes out.

What this does not do: decide (`rights.judge`), or connections (`runtime.upstream_passage`).
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.upstream.frames import read_answer
from muster_coordinator.upstream.rights.cut import with_topics
from muster_coordinator.upstream.rights.judge import is_judged, judge
from muster_coordinator.upstream.rights.verdict import Asking, Heard, Message, Told, message_of
from muster_coordinator.wire.codecs import BAD_BYTES
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.passage import Forwarded
from muster_coordinator.wire.reader import reader
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import is_flexible, response_header_has_tags
from muster_coordinator.wire.writer import writer

_SIZE = struct.Struct(">i")
_SIZE_AND_CORRELATION = struct.Struct(">ii")
_VERSION = struct.Struct(">h")
_VERSION_AT, _CORRELATION_AT = 6, 8
"""In a request with its size, which is followed by the API."""
_ANSWER_CORRELATION_AT = 4
Reworded = Callable[[bytes], bytearray]
"""The upstream's answer → the client's. Raises `WireError` if it is none."""
Audited = Callable[[bytes | bytearray | None], None]
"""Is to be called once, with the client's answer as it is sent; None: there is none."""


class Goes(NamedTuple):
    """It goes to the upstream."""

    frame: bytes
    version: int
    """In which it is asked, and answered there."""
    reworded: Reworded | None
    """None: its answer is the client's as it is."""
    audited: Audited | None = None


class Stays(NamedTuple):
    """It does not."""

    answer: bytearray | None
    """None: the client wants none, and its connection ends."""
    audited: Audited | None = None


def judged(api: int, version: int, request: Forwarded, client: Asking) -> Goes | Stays:
    """Raises `WireError` for bytes that are no request, or one that is not offered."""
    if not is_judged(api, version):
        raise WireError(f"API {api} version {version} is not served with ACLs in front of an upstream")
    correlation: int = _SIZE.unpack_from(request.data, request.start + _CORRELATION_AT)[0]
    try:
        asked = reader(api, version)(Frame(request.data, request.stop), request.body)
    except BAD_BYTES as error:
        raise WireError(f"request ends early or is no UTF-8: {error}") from error
    audited = _audited(api, version, client.audited(asked))
    verdict = judge(api, version, asked, client)
    if isinstance(verdict, Told):
        told = None if verdict.answer is None else answer_frame(api, version, correlation, verdict.answer)
        return Stays(told, audited)
    sent, asked_in = request.data[request.start : request.stop], version
    if verdict.request is not None:
        asked_in = version if verdict.version is None else verdict.version
        assert is_flexible(api, asked_in) == is_flexible(api, version), "the header stays as it is"
        out = bytearray(request.data[request.start : request.body])
        writer(api, asked_in, "request")(out, verdict.request)
        _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
        _VERSION.pack_into(out, _VERSION_AT, asked_in)
        sent = bytes(out)
    keeps = verdict.keeps
    if keeps is not None and asked_in == version:
        return Goes(sent, asked_in, lambda frame: with_topics(version, frame, keeps), audited)
    return Goes(sent, asked_in, _reworded(api, asked_in, version, verdict.answer), audited)


def _audited(api: int, version: int, hears: Heard | None) -> Audited | None:
    if hears is None:
        return None

    def heard(frame: bytes | bytearray | None) -> None:
        try:
            hears(None if frame is None else message_of(read_answer(api, version, bytes(frame))))
        except WireError:  # what nobody here can read is the client's all the same
            hears(None)

    return heard


def _reworded(api: int, asked_in: int, version: int, reword: Callable[[Value], Message] | None) -> Reworded | None:
    if reword is None and asked_in == version:
        return None
    change = message_of if reword is None else reword

    def told(frame: bytes) -> bytearray:
        correlation: int = _SIZE.unpack_from(frame, _ANSWER_CORRELATION_AT)[0]
        return answer_frame(api, version, correlation, change(read_answer(api, asked_in, frame)))

    return told


def answer_frame(api: int, version: int, correlation: int, answer: Message) -> bytearray:
    """A whole answer, with its size."""
    out = bytearray(_SIZE_AND_CORRELATION.pack(0, correlation))
    if response_header_has_tags(api, version):
        out.append(0)
    writer(api, version)(out, answer)
    _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
    return out
