"""Variable-length numbers: protobuf's published vectors, each length's edges, and what is no number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.varint import (
    decode_unsigned,
    decode_varint,
    decode_varlong,
    encode_unsigned,
    encode_varint,
)

TABLE_ENDS = [2047, 2048, -2048, -2049]
LENGTHS_BITS = (6, 13, 20, 27, 31, 34, 41, 48, 55, 62)
EDGES = sorted(
    {sign * (1 << bits) + off for bits in LENGTHS_BITS for sign in (1, -1) for off in (-1, 0, 1)}
    | {0, 2**63 - 1, -(2**63), *TABLE_ENDS}
)


def zigzag_groups(value: int) -> bytes:
    """By the description of protobuf's encoding: doubled and folded, then seven bits a byte, lowest first."""
    folded = 2 * value if value >= 0 else -2 * value - 1
    groups = [folded % 128]
    while folded := folded // 128:
        groups.append(folded % 128)
    return bytes([*(group + 128 for group in groups[:-1]), groups[-1]])


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (150, "ac02"),
        (2147483647, "feffffff0f"), (-2147483648, "ffffffff0f"),
    ],
)  # fmt: skip
def test_published_vectors(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize("value", EDGES)
def test_both_sides_of_each_lengths_end(value: int) -> None:
    encoded = encode_varint(value)
    assert encoded == zigzag_groups(value)
    assert decode_varlong(b"\xff" + encoded + b"\xff", 1) == (value, 1 + len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_signed_number(value: int) -> None:
    assert encode_varint(value) == zigzag_groups(value)


@given(st.integers(0, 2**64 - 1) | st.sampled_from([127, 128, 16_383, 16_384, 2**64 - 1]))
def test_every_unsigned_number(value: int) -> None:
    encoded = encode_unsigned(value)
    assert decode_unsigned(encoded, 0, 64) == (value, len(encoded))


@pytest.mark.parametrize("broken", ["", "80", "ffff", "ffffffff1f", "808080808000"])
def test_what_ends_early_or_is_too_large_is_refused(broken: str) -> None:
    with pytest.raises(MalformedError):
        decode_varint(bytes.fromhex(broken), 0)
