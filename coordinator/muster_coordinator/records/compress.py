"""Compressing the record block of a batch that log cleaning has written anew, with the codec that it had.

Problem: a batch from which cleaning removed records must stay readable by every client, at about its old size.
Mechanism: the codecs of `inflate`, each in the framing that the Java client writes: gzip; snappy in xerial blocks; lz4
as a frame of independent blocks (the Java client refuses dependent ones); zstd. What it does not do: choose a codec, or
run on a request's path.
"""

import struct
import zlib

import cramjam

from muster_coordinator.limits import KIB
from muster_coordinator.records.inflate import GZIP, LZ4, SNAPPY, ZSTD

_GZIP_WINDOW_BITS = 31
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
_XERIAL_HEAD = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * KIB
_LZ4_HEAD = bytes.fromhex("04224d18604082")
"""Magic, version 1 with independent blocks, blocks of at most 64 KiB, and the checksum of these two bytes."""
_LZ4_BLOCK_BYTES = 64 * KIB
_LZ4_END = bytes(4)
_LZ4_AS_IS = 1 << 31
_LENGTH = struct.Struct(">i")
_LZ4_LENGTH = struct.Struct("<I")


def compress(codec: int, data: bytes) -> bytes:
    """`data` as the record area of a batch with this codec, which is one of `inflate`'s."""
    if codec == GZIP:
        engine = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW_BITS)
        return engine.compress(data) + engine.flush()
    if codec == SNAPPY:
        return b"".join((_XERIAL_HEAD, *_xerial_blocks(data)))
    if codec == LZ4:
        return b"".join((_LZ4_HEAD, *_lz4_blocks(data), _LZ4_END))
    assert codec == ZSTD, codec
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


def _xerial_blocks(data: bytes) -> list[bytes]:
    pieces: list[bytes] = []
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        pieces += (_LENGTH.pack(len(block)), block)
    return pieces


def _lz4_blocks(data: bytes) -> list[bytes]:
    pieces: list[bytes] = []
    for at in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[at : at + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            pieces += (_LZ4_LENGTH.pack(len(block)), block)
        else:
            pieces += (_LZ4_LENGTH.pack(len(plain) | _LZ4_AS_IS), plain)
    return pieces
