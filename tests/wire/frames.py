"""Frames out of what a `Connection` hands over: each piece holds one or more whole ones."""

from collections.abc import Iterable, Iterator


def frames_of(pieces: Iterable[bytes | bytearray]) -> Iterator[bytes]:
    """Each frame with its length in front."""
    for piece in pieces:
        pos = 0
        while pos < len(piece):
            stop = pos + 4 + int.from_bytes(piece[pos : pos + 4], "big")
            assert stop <= len(piece), "a piece ends within a frame"
            yield bytes(piece[pos:stop])
            pos = stop
