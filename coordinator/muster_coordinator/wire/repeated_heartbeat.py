"""The heartbeat that a connection sent last: its repetition is known by its bytes and answered without decoding it.

Problem: a member says the same thing every few seconds until the next rebalance; only the correlation id differs. To
decode it, judge it by way of ticket and effects, and put the answer into its place in line costs three times what the
rest of the coordinator has to do for it (docs/benchmarks.md). Mechanism: the connection keeps the bytes of the last
heartbeat that went the long way, with what was decoded from them; frames of equal bytes mean the same request, and an
answer is the correlation id between bytes that never change. What the answer *says* is asked anew every time
(`HeartbeatAtOnce`), from the state of that moment.

Deliberately not here: any other request (their answers depend on more than one number), when the short way may be gone
(`wire.connection`: nothing else waits in line), and sessions.
"""

import struct
from collections.abc import Callable

from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import Heartbeat, HeartbeatAnswer
from muster_coordinator.wire import limits
from muster_coordinator.wire.route import Route

HeartbeatAtOnce = Callable[[Heartbeat, int], Code | None]
"""`(request, times)`: the answer to a heartbeat that came so many times in a row, in force at this moment, its session
restarted and everything counted; or None, and nothing was done: it has to go the long way."""

_CORRELATION_AT, _CORRELATION_END = 8, 12
_PACK_SIZE = struct.Struct(">i").pack


def never_at_once(_request: Heartbeat, _times: int) -> Code | None:
    """Every heartbeat goes the long way."""
    return None


class RepeatedHeartbeat:
    """One connection's memory of its last heartbeat, of `limits.REPEATED_HEARTBEAT_BYTES_MAX` bytes at most."""

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
        """Is a frame of this size kept at all?"""
        return size_bytes <= limits.REPEATED_HEARTBEAT_BYTES_MAX

    def run(self, data: bytes, pos: int, most: int) -> list[bytes]:
        """The correlation ids, as they are on the wire, of the repetitions that stand in line at `pos`."""
        head, tail, size = self._head, self._tail, self.size_bytes
        found: list[bytes] = []
        while len(found) < most and data.startswith(head, pos) and data.startswith(tail, pos + _CORRELATION_END):
            found.append(data[pos + _CORRELATION_AT : pos + _CORRELATION_END])
            pos += size
        return found

    def answers(self, correlations: list[bytes], code: Code) -> bytes:
        """The frames that answer `code` to each of them, one behind the other."""
        texts = self._texts.get(code)
        if texts is None:
            texts = self._texts[code] = self._make_texts(code)
        before, after = texts
        return before + (after + before).join(correlations) + after

    def _make_texts(self, code: Code) -> tuple[bytes, bytes]:
        """What stands before and after the correlation id in an answer."""
        frame = self._route.start_answer(0)
        self._route.encode(frame, HeartbeatAnswer(code))
        body = bytes(frame[_CORRELATION_AT:])
        return _PACK_SIZE(_CORRELATION_AT - 4 + len(body)), body
