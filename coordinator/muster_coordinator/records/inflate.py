"""Decompressing the record block of a batch, within bounds.

Problem: look-ups by timestamp need single records, but a megabyte of compressed zeros becomes a gigabyte of heap.
Mechanism: every codec decompresses into a buffer of at most INFLATE_RATIO_MAX times the input and INFLATED_BYTES_MAX,
and fails when that is too small. It runs in worker threads and offline tools; the request path inflates little, and
of compacted topics only (decision 25). Codecs: gzip by zlib, the others by cramjam. Snappy comes raw or in the Java
client's framing (xerial), lz4 as a frame.
"""

import struct
import zlib

import cramjam

from muster_coordinator.records.batch import HEADER_BYTES, parse_header
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.limits import INFLATE_RATIO_MAX, INFLATED_BYTES_MAX

GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4
_GZIP_WINDOW_BITS = 31
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LENGTH = struct.Struct(">i")


def record_block(batch: bytes) -> bytes | None:
    """The `block` argument of `batch.iter_records`: None when the batch is not compressed.

    Raises MalformedError for an unknown codec, and for data that cannot be decoded or exceeds the bounds.
    """
    codec = parse_header(batch).compression
    return None if codec == 0 else inflate(codec, batch[HEADER_BYTES:])


def inflate(codec: int, data: bytes, most: int = INFLATED_BYTES_MAX) -> bytes:
    """`data` decompressed, at most so many bytes. Raises MalformedError as `record_block`."""
    limit = min(most, INFLATE_RATIO_MAX * len(data))
    if codec == GZIP:
        return _gunzip(data, limit)
    if codec not in (SNAPPY, LZ4, ZSTD):
        raise MalformedError(f"compression codec {codec}")
    try:
        if codec == SNAPPY:
            return _unsnappy(data, limit)
        out = bytearray(limit)
        module = cramjam.lz4 if codec == LZ4 else cramjam.zstd
        return bytes(memoryview(out)[: module.decompress_into(data, out)])
    except cramjam.DecompressionError as error:
        raise MalformedError(f"codec {codec}: {error}, or more than {limit} bytes") from None


def _gunzip(data: bytes, limit: int) -> bytes:
    engine = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        out = engine.decompress(data, limit)
    except zlib.error as error:
        raise MalformedError(f"gzip: {error}") from None
    if not engine.eof:
        raise MalformedError(f"gzip: cut short, or more than {limit} bytes")
    return out


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _unsnappy_raw(data, limit)
    pieces = []
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if len(data) - position < _LENGTH.size:
            raise MalformedError("snappy: a block length is cut short")
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if not 0 < length <= len(data) - position:
            raise MalformedError(f"snappy: a block of {length} bytes")
        pieces.append(_unsnappy_raw(data[position : position + length], limit))
        limit -= len(pieces[-1])
        position += length
    return b"".join(pieces)


def _unsnappy_raw(data: bytes, limit: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(data)
    if size > limit:
        raise MalformedError(f"snappy: {size} bytes, above {limit}")
    return bytes(cramjam.snappy.decompress_raw(data, output_len=size))
