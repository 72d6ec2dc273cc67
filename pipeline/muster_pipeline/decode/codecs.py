"""Inflation of a batch's record block, bounded: gzip, snappy (raw or in xerial's frames), LZ4 frames, zstd.

The output of every codec is bounded: it is written into a buffer of at most 64 MiB and, above 1 MiB, at most 100 times
the input. Output that does not fit raises InflateError, and so do bytes after the end of the stream.
"""

import struct
import zlib
from typing import Final

import cramjam

from muster_pipeline.decode.limits import INFLATED_BYTES_MAX, INFLATED_FREE_BYTES, INFLATED_RATIO_MAX

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_GZIP_WINDOW_BITS: Final = 31
_USUAL_RATIO: Final = 16
"""Size of the buffer that is tried first: zeroing the largest allowed one for every small batch would cost more than
inflating the batch."""


class InflateError(ValueError):
    """The block is not a stream of its codec, or its output is too large; the text says which."""


def bytes_max(compressed: int) -> int:
    """Largest allowed output, in bytes, for so many bytes of input."""
    return min(INFLATED_BYTES_MAX, max(INFLATED_FREE_BYTES, INFLATED_RATIO_MAX * compressed))


def inflate(codec: int, block: bytes) -> bytes:
    """The records of `block`; codec as in the batch's attributes 1 to 4. Raises InflateError."""
    limit = bytes_max(len(block))
    if codec == GZIP:
        return _gzip(block, limit)
    try:
        if codec == SNAPPY:
            return _snappy(block, limit)
        usual = min(limit, _USUAL_RATIO * len(block))
        try:
            return _frame(codec, block, usual)
        except cramjam.DecompressionError:
            return _frame(codec, block, limit)
    except (cramjam.DecompressionError, struct.error) as error:
        raise InflateError(f"codec {codec}: {error}") from error


def _frame(codec: int, block: bytes, size: int) -> bytes:
    out = bytearray(size)
    module = cramjam.lz4 if codec == LZ4 else cramjam.zstd
    return bytes(memoryview(out)[: module.decompress_into(block, out)])


def _gzip(block: bytes, limit: int) -> bytes:
    out: list[bytes] = []
    left = limit
    while block:
        engine = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            out.append(engine.decompress(block, left + 1))
        except zlib.error as error:
            raise InflateError(f"codec 1: {error}") from error
        left -= len(out[-1])
        if left < 0:
            raise InflateError(f"codec 1: more than {limit} bytes")
        if not engine.eof:
            raise InflateError("codec 1: the stream ends early")
        block = engine.unused_data
    return b"".join(out)


def _snappy(block: bytes, limit: int) -> bytes:
    if not block.startswith(_XERIAL):
        return _snappy_block(block, limit)
    out: list[bytes] = []
    at = _XERIAL_HEADER_BYTES
    while at < len(block):
        (size,) = struct.unpack_from(">i", block, at)
        at += 4
        if size < 0 or at + size > len(block):
            raise InflateError(f"codec 2: a frame of {size} bytes at {at} of {len(block)}")
        out.append(_snappy_block(block[at : at + size], limit))
        limit -= len(out[-1])
        at += size
    return b"".join(out)


def _snappy_block(block: bytes, limit: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > limit:
        raise InflateError(f"codec 2: {size} bytes, {limit} are left")
    out = bytearray(size)
    return bytes(memoryview(out)[: cramjam.snappy.decompress_raw_into(block, out)])
