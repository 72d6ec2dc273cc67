"""The last heartbeat of a connection: its repetition is recognised by its bytes and answered without decoding it.

Problem: a member sends the same heartbeat every few seconds until the next rebalance; only the correlation id differs.
Decoding it, handling it with ticket and effects, and putting the answer in line costs three times what the rest of the
coordinator does for it (docs/benchmarks.md). Mechanism: the connection keeps the bytes of the last heartbeat that was
decoded, with the request decoded from them; frames of equal bytes are the same request, and an answer is the
correlation id between constant bytes. The answer's error code is never reused: the group's state of the moment decides
it every time (`HeartbeatAtOnce`).

What it does not do: any other request (their answers depend on more than one number), decide when it may be used
(`wire.connection`: only while the line is empty), or keep sessions.
"""

import struct
from collections.abc import Callable

from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import Heartbeat, HeartbeatAnswer
from muster_coordinator.wire import limits
from muster_coordinator.wire.route import Route

HeartbeatAtOnce = Callable[[Heartbeat, int], Code | None]
"""`(request, times)`: handles a heartbeat that arrived `times` times in a row and returns its error code; its session
is restarted and its metrics counted. None: nothing was done, the request must be decoded and handled as any other."""

_CORRELATION_AT, _CORRELATION_END = 8, 12
_PACK_SIZE = struct.Struct(">i").pack


def never_at_once(_request: Heartbeat, _times: int) -> Code | None:
    """For connections without the short way: every heartbeat is decoded."""
    return None


class RepeatedHeartbeat:
    """The last heartbeat of one connection; a frame of `limits.REPEATED_HEARTBEAT_BYTES_MAX` bytes at most."""

    __slots__ = ("_head", "_route", "_tail", "_texts", "request", "size_bytes")

    def __init__(self, data: bytes, pos: int, stop: int, route: Route, request: Heartbeat) -> None:
        """The frame is `data[pos:stop]`, its length included; `request` is what `route` decoded from it."""
        assert self.remembers(stop - pos)
        self.size_bytes = stop - pos
        self.request = request
        self._head = data[pos : pos + _CORRELATION_AT]
        self._tail = data[pos + _CORRELATION_END : stop]
        self._route = route
        self._texts: dict[Code, tuple[bytes, bytes]] = {}

    @staticmethod
    def remembers(size_bytes: int) -> bool:
        """Is a frame of this size small enough to be kept?"""
        return size_bytes <= limits.REPEATED_HEARTBEAT_BYTES_MAX

    def run(self, data: bytes, pos: int, most: int) -> list[bytes]:
        """The correlation ids, in wire form, of up to `most` repetitions that lie back to back from `pos` on."""
        head, tail, size = self._head, self._tail, self.size_bytes
        found: list[bytes] = []
        while len(found) < most and data.startswith(head, pos) and data.startswith(tail, pos + _CORRELATION_END):
            found.append(data[pos + _CORRELATION_AT : pos + _CORRELATION_END])
            pos += size
        return found

    def answers(self, correlations: list[bytes], code: Code) -> bytes:
        """One frame per correlation id, each answering `code`, back to back."""
        texts = self._texts.get(code)
        if texts is None:
            texts = self._texts[code] = self._make_texts(code)
        before, after = texts
        return before + (after + before).join(correlations) + after

    def _make_texts(self, code: Code) -> tuple[bytes, bytes]:
        """The bytes before and after the correlation id in an answer."""
        frame = self._route.start_answer(0)
        self._route.encode(frame, HeartbeatAnswer(code))
        body = bytes(frame[_CORRELATION_AT:])
        return _PACK_SIZE(_CORRELATION_AT - 4 + len(body)), body
