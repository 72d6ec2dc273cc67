"""Request headers 1 and 2 (protocol notes 1.2).

Nearly every request of a connection carries the same client id, so its text is decoded once and reused while the bytes
are equal.
"""

import struct

from muster_coordinator.errors import WireError
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.hot.primitives import COMPACT
from muster_coordinator.wire.reader import text

FIRST_BYTES = 8
"""Bytes of API key, version and correlation id: the smallest request."""
read_first = struct.Struct(">hhi").unpack_from
"""The three numbers that every header version starts with."""
_UNPACK_I16 = struct.Struct(">h").unpack_from


class ClientId:
    """The client id that the last request of a connection carried."""

    __slots__ = ("_raw", "text")

    def __init__(self) -> None:
        self._raw = b""
        self.text = ""

    def read(self, frame: Frame, pos: int, *, flexible: bool) -> int:
        """Read the client id at `pos` ("" for null; header 2 has it in the old form too); returns the position of the
        body. Raises WireError, IndexError, struct.error or UnicodeDecodeError."""
        data = frame.data
        size: int = _UNPACK_I16(data, pos)[0]
        pos += 2
        stop = pos + size
        if size < 0:
            if size != -1:
                raise WireError("negative length")
            self._raw, self.text = b"", ""
            stop = pos
        elif stop > frame.end:
            raise WireError("client id is longer than its frame")
        elif data[pos:stop] != self._raw:
            value = text(frame, pos, size)
            self._raw, self.text = data[pos:stop], value
        if flexible:
            return COMPACT.tags(frame, stop)
        return stop
