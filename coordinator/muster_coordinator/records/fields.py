"""Kafka's primitive fields, written and read: fixed integers, strings and bytes in the plain and the compact form.

Problem: the offsets log has plain schemas (i16 / i32 lengths) and flexible ones (compact lengths, tag section).
Mechanism: `Reader` is a cursor that refuses to pass the end; writers return bytes to be joined. No schema lives here.
"""

import struct

from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.varint import decode_unsigned, encode_unsigned

I16 = struct.Struct(">h")
I32 = struct.Struct(">i")
I64 = struct.Struct(">q")
I16_MAX = 2**15 - 1
NULL_I16 = I16.pack(-1)
NO_TAGS = b"\0"


def string(text: str) -> bytes:
    """STRING: i16 length, UTF-8. MalformedError above 32,767 bytes."""
    data = text.encode()
    if len(data) > I16_MAX:
        raise MalformedError("a string above 32,767 bytes")
    return I16.pack(len(data)) + data


def nullable_string(text: str | None) -> bytes:
    """NULLABLE_STRING: as `string`; null has length -1."""
    return NULL_I16 if text is None else string(text)


def data_bytes(data: bytes) -> bytes:
    """BYTES: i32 length, data."""
    return I32.pack(len(data)) + data


def compact_string(text: str | None) -> bytes:
    """COMPACT_(NULLABLE_)STRING: unsigned varint of length + 1 (0 = null), UTF-8. MalformedError above 32,767 bytes:
    the layout allows more, but an answer in an older version has only an i16 for the length."""
    if text is None:
        return b"\0"
    data = text.encode()
    if len(data) > I16_MAX:
        raise MalformedError("a string above 32,767 bytes")
    return encode_unsigned(len(data) + 1) + data


def compact_bytes(data: bytes) -> bytes:
    """COMPACT_BYTES: unsigned varint of length + 1, data."""
    return encode_unsigned(len(data) + 1) + data


class Reader:
    """A cursor over one key or value. Every method raises MalformedError when the bytes end early."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def take(self, length: int) -> bytes:
        start = self.position
        if not 0 <= length <= len(self.data) - start:
            raise MalformedError(f"a field of {length} bytes where {len(self.data) - start} are left")
        self.position = start + length
        return self.data[start : start + length]

    def i16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def i32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def unsigned(self) -> int:
        value, self.position = decode_unsigned(self.data, self.position)
        return value

    def string(self) -> str:
        return _text(self.take(self.i16()))

    def nullable_string(self) -> str | None:
        length = self.i16()
        return None if length == -1 else _text(self.take(length))

    def bytes_field(self) -> bytes:
        return self.take(self.i32())

    def compact_string(self) -> str:
        return _text(self.take(self.unsigned() - 1))

    def compact_nullable_string(self) -> str | None:
        length = self.unsigned()
        return None if length == 0 else _text(self.take(length - 1))

    def compact_bytes(self) -> bytes:
        return self.take(self.unsigned() - 1)

    def count(self, *, compact: bool, least_bytes: int) -> int:
        """Length of an array whose elements take at least `least_bytes` each. MalformedError when the bytes left cannot
        hold so many: nothing is allocated for a count that cannot be true."""
        count = self.unsigned() - 1 if compact else self.i32()
        if not 0 <= count <= (len(self.data) - self.position) // least_bytes:
            raise MalformedError(f"an array of {count} elements in {len(self.data) - self.position} bytes")
        return count

    def tags(self) -> dict[int, bytes]:
        """The tag section of a flexible version, unknown tags included."""
        found = {}
        for _ in range(self.unsigned()):
            tag = self.unsigned()
            found[tag] = self.take(self.unsigned())
        return found

    def end(self) -> None:
        """Raises MalformedError unless all bytes were read."""
        if self.position != len(self.data):
            raise MalformedError(f"{len(self.data) - self.position} bytes left over")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise MalformedError("a string that is not UTF-8") from None
