"""Compressed blocks come back as they were; bombs and broken streams are errors with bounded memory."""

import gzip
import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_pipeline.decode import codecs, limits
from muster_pipeline.decode.codecs import InflateError, inflate

from tests.pipeline import logs
from tests.pipeline.decoding import decode

BOMB_BYTES = 200 * limits.MIB


@given(st.binary(max_size=5000), st.sampled_from(logs.CODECS[1:]), st.integers(1, 300))
def test_round_trip(data: bytes, codec: int, times: int) -> None:
    assert inflate(codec, logs.deflate(codec, data * times)) == data * times


def bombs() -> dict[str, tuple[int, bytes]]:
    """Two hundred MiB of zeros in a few KiB."""
    zeros = bytes(limits.MIB)
    snappy_frame = bytes(cramjam.snappy.compress_raw(bytes(32 * limits.MIB)))
    return {
        "gzip": (1, gzip.compress(zeros, mtime=0) * 200),
        "snappy": (2, logs.XERIAL + logs.blob(snappy_frame) * 7),
        "snappy that lies": (2, b"\xff\xff\xff\xff\x0f" + bytes(100)),
        "lz4": (3, bytes(cramjam.lz4.compress(bytes(BOMB_BYTES)))),
        "zstd": (4, bytes(cramjam.zstd.compress(bytes(BOMB_BYTES)))),
    }


@pytest.mark.parametrize("name", ["gzip", "snappy", "snappy that lies", "lz4", "zstd"])
def test_a_bomb_is_refused_within_the_bound(name: str) -> None:
    codec, block = bombs()[name]
    tracemalloc.start()
    try:
        with pytest.raises(InflateError):
            inflate(codec, block)
        assert tracemalloc.get_traced_memory()[1] < 3 * limits.INFLATED_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_the_ratio_counts_only_above_a_mebibyte() -> None:
    assert codecs.bytes_max(10) == limits.INFLATED_FREE_BYTES
    assert codecs.bytes_max(limits.MIB) == limits.INFLATED_BYTES_MAX
    assert codecs.bytes_max(100_000) == 100 * 100_000
    data = bytes(limits.MIB)
    for codec in logs.CODECS[1:]:
        assert inflate(codec, logs.deflate(codec, data)) == data
    for codec in (1, 3, 4):  # snappy never shrinks a hundredfold
        with pytest.raises(InflateError):
            inflate(codec, logs.deflate(codec, bytes(20 * limits.MIB)))


@pytest.mark.parametrize("codec", logs.CODECS[1:])
def test_a_stream_that_is_cut_or_goes_on_is_an_error(codec: int) -> None:
    block = logs.deflate(codec, b"some records" * 50)
    for cut in (1, len(block) // 2, len(block) - 1):
        with pytest.raises(InflateError):
            inflate(codec, block[:cut])
    with pytest.raises(InflateError):
        inflate(codec, block + b"\xff\x00\x13junk")


def test_a_bomb_in_a_log_costs_its_batch() -> None:
    block = bombs()["zstd"][1]
    good = logs.Batch(records=[logs.commit("g", "t", 0, 1)], codec=4)
    bomb = logs.encode(good, 1)
    size = struct.pack(">i", logs.HEADER_BYTES + len(block) - 12)
    bomb = logs.resealed(bomb[:8] + size + bomb[12 : logs.HEADER_BYTES] + block, 61, block)
    found = decode(logs.encode(good, 0) + bomb + logs.encode(good, 2))
    assert found.offsets == [0, 2]
    (damage,) = found.damages
    assert (damage.reason, damage.first_offset, damage.last_offset) == ("codec", 1, 1)
