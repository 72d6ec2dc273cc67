"""Frames of a peer link: `len u32 | crc32c u32 | channel u8 | body`, big-endian (docs/peer-links.md).

`len` counts the bytes after itself (crc, channel, body). The checksum covers channel and body: TCP's own is too weak
for bytes that become a replicated log. A bad frame is a `WireError`; the link closes, because nothing behind it can be
trusted. The splitter checks the length before it buffers a single byte of the body, so a stranger cannot make it
allocate.
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
"""Of the header, what `len` counts."""

_CHANNEL_CRC = {channel: crc32c(bytes([channel])) for channel in (*range(len(RULES)), HANDSHAKE)}
_BODY_MAX = {**{channel: rule.frame_bytes_max for channel, rule in enumerate(RULES)}, HANDSHAKE: LINK_HELLO_BYTES_MAX}
_ANY_BODY_MAX = max(_BODY_MAX.values())


def frame_header(channel: int, body: bytes) -> bytes:
    """Header for `body`; a body over its channel's limit is our own bug."""
    assert len(body) <= _BODY_MAX[channel], f"a message of {len(body)} bytes on channel {channel}"
    return _HEADER.pack(len(body) + _COUNTED_BYTES, crc32c(body, _CHANNEL_CRC[channel]), channel)


class FrameSplitter:
    """Turns a byte stream, however fragmented, into `(channel, body)`."""

    __slots__ = ("_buffer", "_wanted", "body_bytes_max")

    def __init__(self, body_bytes_max: int = LINK_HELLO_BYTES_MAX) -> None:
        self.body_bytes_max = body_bytes_max
        """Tight until the handshake is done; then `open_up`."""
        self._buffer = bytearray()
        self._wanted = HEADER_BYTES
        """Bytes that must be buffered before anything can be parsed."""

    def open_up(self) -> None:
        """The other side is known: every channel's own limit counts from now on."""
        self.body_bytes_max = _ANY_BODY_MAX

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield every whole frame. Raises `WireError` at the first bad one; the splitter is dead then.

        Limits are looked at frame by frame, so `open_up` after the first frame holds for the second.
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
            raise WireError(f"peer frame of {body_bytes} bytes on channel {channel}")
        return body_bytes
