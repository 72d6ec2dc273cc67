"""Kafka's variable-length numbers: base 128, little-endian groups, zig-zag when signed (KIP-98, protobuf's encoding).

Problem: every record holds six of them, so they dominate the cost of building a batch. Mechanism: a table for the
values that nearly all lengths and deltas have, no loop for signed ones of two and three bytes, one for the rest.
Decoding refuses numbers above 32 or 64 bits.
"""

from muster_coordinator.records.errors import MalformedError

Buffer = bytes | bytearray | memoryview


def encode_unsigned(value: int) -> bytes:
    """UNSIGNED_VARINT of a non-negative number."""
    if value < 128:
        assert value >= 0
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """VARINT or VARLONG of a signed number of at most 64 bits."""
    if -_TABLED <= value < _TABLED:
        return _TABLE[value]
    raw = value << 1 if value >= 0 else (~value << 1) | 1
    if raw < 1 << 14:
        return bytes((raw & 127 | 128, raw >> 7))
    if raw < 1 << 21:
        return bytes((raw & 127 | 128, raw >> 7 & 127 | 128, raw >> 14))
    return encode_unsigned(raw)


def decode_unsigned(data: Buffer, position: int, bits: int = 32) -> tuple[int, int]:
    """(value, position after it). Raises MalformedError when it ends early or needs more than `bits`."""
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift >= bits:
                raise MalformedError(f"a varint of more than {bits} bits")
    except IndexError:
        raise MalformedError("a varint ends after its data") from None
    if value >> bits:
        raise MalformedError(f"a varint of more than {bits} bits")
    return value, position


def decode_varint(data: Buffer, position: int) -> tuple[int, int]:
    """(signed 32-bit VARINT, position after it)."""
    raw, position = decode_unsigned(data, position)
    return (~(raw >> 1) if raw & 1 else raw >> 1), position


def decode_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """(signed 64-bit VARLONG, position after it)."""
    raw, position = decode_unsigned(data, position, 64)
    return (~(raw >> 1) if raw & 1 else raw >> 1), position


_ONE_BYTE = [bytes((n,)) for n in range(128)]
_TABLED = 2048


def _tabled(value: int) -> bytes:
    raw = value << 1 if value >= 0 else (~value << 1) | 1
    return _ONE_BYTE[raw] if raw < 128 else bytes((raw & 127 | 128, raw >> 7))


_TABLE = [_tabled(n) for n in range(_TABLED)] + [_tabled(n) for n in range(-_TABLED, 0)]
"""`_TABLE[n]` is the encoding of n, also for n < 0: Python's negative indexes count from the end."""
