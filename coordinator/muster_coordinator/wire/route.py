"""What a connection needs to know of one (API, version), looked up once a request instead of five times.

`route_of` is the only door: a dictionary filled at first use. A number outside the served table has no route; whether
that means "refuse" or "close" is the connection's to say (KIP-511).
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
        """Request header 2: tagged fields stand behind the client id."""
        self.decode: DecodeFrom = unchecked_decoder(api, version)
        """Raises WireError and `codecs.BAD_BYTES`; the position that it returns may be past the frame's end."""
        self.encode: Encode = encoder(api, version)
        self.errors = errors_in(api)
        """Codes in an answer as `encode` takes it."""
        self._header_tail = b"\x00" if response_header_has_tags(api, version) else b""

    def start_answer(self, correlation: int) -> bytearray:
        """A buffer that holds the response header, with room for the frame's length in front."""
        return bytearray(_LENGTH_AND_CORRELATION(0, correlation) + self._header_tail)


_ROUTES: dict[int, Route] = {}


def route_of(api: int, version: int) -> Route | None:
    """The route of a served version, else None. Both are 16-bit numbers as the wire has them."""
    key = (api << 16) + version  # a negative version meets no served one of the API before: those are small
    route = _ROUTES.get(key)
    if route is None:
        versions = VERSIONS.get(api)
        if versions is None or not versions.min <= version <= versions.max:
            return None
        route = _ROUTES[key] = Route(api, version)
    return route
