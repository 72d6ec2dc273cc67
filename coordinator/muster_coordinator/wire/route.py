"""All that a connection needs for one (API, version), so that a request does one look-up instead of five.

`route_of` fills a dictionary at first use. A version that is not served has no route; the connection decides whether it
answers an error or closes (KIP-511).
"""

import struct

from muster_coordinator.wire.answer_errors import errors_in
from muster_coordinator.wire.codecs import DecodeFrom, Encode, encoder, unchecked_decoder
from muster_coordinator.wire.versions import VERSIONS, is_flexible, response_header_has_tags

_LENGTH_AND_CORRELATION = struct.Struct(">ii").pack


class Route:
    """Codecs and header forms of one served version."""

    __slots__ = ("_header_tail", "api", "decode", "encode", "errors", "flexible", "version")

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

    def start_answer(self, correlation: int) -> bytearray:
        """A buffer with the response header, preceded by four bytes for the frame's length."""
        return bytearray(_LENGTH_AND_CORRELATION(0, correlation) + self._header_tail)


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
