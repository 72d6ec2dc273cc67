"""Frames of a peer link: `len u32 | crc32c u32 | channel u8 | body`, big-endian (docs/peer-links.md).

`len` counts the bytes after itself (crc, channel, body). The checksum covers channel and body: TCP's own is too weak
for bytes that become a replicated log. A bad frame raises `WireError` and the link closes, because the bytes after it
cannot be framed any more. The splitter checks the length before it waits for the body, so an unauthenticated sender
cannot make it allocate more than a handshake.
"""

import struct
from collections.abc import Iterator

from crc32c import crc32c

from muster_coordinator.errors import WireError
from muster_coordinator.limits import LINK_HELLO_BYTES_MAX
from muster_coordinator.links.channels import HANDSHAKE, RULES

_HEADER = struct.Struct(">IIB")
_LENGTH = struct.Struct(">I")
HEADER_BYTES = _HEADER.size
_COUNTED_BYTES = HEADER_BYTES - _LENGTH.size
"""The part of the header that `len` counts."""

_CHANNEL_CRC = {channel: crc32c(bytes([channel])) for channel in (*range(len(RULES)), HANDSHAKE)}
_BODY_MAX = {**{channel: rule.frame_bytes_max for channel, rule in enumerate(RULES)}, HANDSHAKE: LINK_HELLO_BYTES_MAX}
_ANY_BODY_MAX = max(_BODY_MAX.values())


def frame_header(channel: int, body: bytes) -> bytes:
    """The header for `body`. A body above its channel's limit is a bug of the caller: assertion."""
    assert len(body) <= _BODY_MAX[channel], f"a message of {len(body)} bytes on channel {channel}"
    return _HEADER.pack(len(body) + _COUNTED_BYTES, crc32c(body, _CHANNEL_CRC[channel]), channel)


class FrameSplitter:
    """Splits a byte stream, however fragmented, into `(channel, body)`."""

    __slots__ = ("_buffer", "_wanted", "body_bytes_max")

    def __init__(self, body_bytes_max: int = LINK_HELLO_BYTES_MAX) -> None:
        self.body_bytes_max = body_bytes_max
        """Limit of every body; the handshake's until `open_up` is called."""
        self._buffer = bytearray()
        self._wanted = HEADER_BYTES
        """Bytes that must be buffered before the next frame can be parsed."""

    def open_up(self) -> None:
        """The handshake is done: only each channel's own limit applies from now on."""
        self.body_bytes_max = _ANY_BODY_MAX

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield every whole frame. Raises `WireError` at the first bad one; the splitter must not be used after that.

        Limits are read at each frame, so an `open_up` after the first frame applies to the second.
        """
        buffer = self._buffer
        if buffer:
            buffer += data
            if len(buffer) < self._wanted:
                return
            data = bytes(buffer)
            buffer.clear()
        position, end = 0, len(data)
        while True:
            if end - position < HEADER_BYTES:
                self._wanted = HEADER_BYTES
                break
            length, checksum, channel = _HEADER.unpack_from(data, position)
            body_bytes = self._check(length, channel)
            start = position + HEADER_BYTES
            if end - start < body_bytes:
                self._wanted = HEADER_BYTES + body_bytes
                break
            body = data[start : start + body_bytes]
            if crc32c(body, _CHANNEL_CRC[channel]) != checksum:
                raise WireError(f"peer frame of {body_bytes} bytes on channel {channel} fails its checksum")
            position = start + body_bytes
            yield channel, body
        if position < end:
            buffer += data[position:] if position else data

    def _check(self, length: int, channel: int) -> int:
        body_bytes = length - _COUNTED_BYTES
        limit = _BODY_MAX.get(channel)
        if limit is None:
            raise WireError(f"peer frame on unknown channel {channel}")
        if not 0 <= body_bytes <= min(limit, self.body_bytes_max):
            raise WireError(f"peer frame of {body_bytes} bytes on channel {channel}: outside its limits")
        return body_bytes
