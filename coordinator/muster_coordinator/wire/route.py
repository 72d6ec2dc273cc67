"""All that a connection needs for one (API, version), so that a request does one look-up instead of five.

`route_of` fills a dictionary at first use. A version that is not served has no route; the connection decides whether it
answers an error or closes (KIP-511).
"""

import struct

from muster_coordinator.wire.answer_errors import errors_in
from muster_coordinator.wire.codecs import DecodeFrom, Encode, encoder, unchecked_decoder
from muster_coordinator.wire.reader import FIXED
from muster_coordinator.wire.schema import Value, schema
from muster_coordinator.wire.versions import VERSIONS, is_flexible, response_header_has_tags

_LENGTH_AND_CORRELATION = struct.Struct(">ii").pack
_PACK_I32_INTO = struct.Struct(">i").pack_into
_HEADER_BYTES = 8
_THROTTLE = "throttle_time_ms"


class Route:
    """Codecs and header forms of one served version."""

    __slots__ = (
        "_header_tail", "_tells_throttle", "_throttle_at", "api", "decode", "encode", "errors", "flexible", "version",
    )  # fmt: skip

    def __init__(self, api: int, version: int) -> None:
        self.api = api
        self.version = version
        self.flexible = is_flexible(api, version)
        """Request header 2: tagged fields follow the client id."""
        self.decode: DecodeFrom = unchecked_decoder(api, version)
        """Raises WireError and `codecs.BAD_BYTES`; the position that it returns may be past the frame's end."""
        self.encode: Encode = encoder(api, version)
        self.errors = errors_in(api)
        """Finds the error codes in an answer as `encode` takes it."""
        self._header_tail = b"\x00" if response_header_has_tags(api, version) else b""
        self._throttle_at: int | None = None
        """Where in a frame throttle_time_ms is, as nothing of varying length comes before it; None: nowhere fixed."""
        fields = schema(api, version, "response").fields
        self._tells_throttle = any(field.name == _THROTTLE for field in fields)
        before = _HEADER_BYTES + len(self._header_tail)
        for field in fields:
            if field.name == _THROTTLE:
                self._throttle_at = before
            if field.array or field.kind not in FIXED:
                break
            before += struct.calcsize(">" + FIXED[field.kind])

    def start_answer(self, correlation: int) -> bytearray:
        """A buffer with the response header, preceded by four bytes for the frame's length."""
        return bytearray(_LENGTH_AND_CORRELATION(0, correlation) + self._header_tail)

    def throttled(self, frame: bytearray, correlation: int, answer: Value, throttle_ms: int) -> bytearray:
        """The encoded answer with this throttle time; itself in versions that cannot tell it."""
        if self._throttle_at is not None:
            _PACK_I32_INTO(frame, self._throttle_at, throttle_ms)
            return frame
        if not self._tells_throttle:
            return frame
        again = self.start_answer(correlation)
        self.encode(again, {**answer, _THROTTLE: throttle_ms})
        return again


_ROUTES: dict[int, Route] = {}


def route_of(api: int, version: int) -> Route | None:
    """The route of a served version, else None. Both are signed 16-bit numbers from the wire."""
    # A negative version gives a key of the API below, with a version of 32,768 or more, which is never served.
    key = (api << 16) + version
    route = _ROUTES.get(key)
    if route is None:
        versions = VERSIONS.get(api)
        if versions is None or not versions.min <= version <= versions.max:
            return None
        route = _ROUTES[key] = Route(api, version)
    return route
