"""A reader of Kafka's primitive types, field by field, for the few records that are not offset commits.

It reads both encodings: classic (i16 and i32 lengths) and flexible (unsigned varint length + 1, tag sections). Every
length is checked against the bytes left before anything is allocated.
"""

import base64
import struct
from typing import Final

_I8: Final = struct.Struct(">b")
_I16: Final = struct.Struct(">h")
_U16: Final = struct.Struct(">H")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_VARINT_BYTES_MAX: Final = 5


class FieldError(ValueError):
    """The bytes do not follow the schema; the text says where."""


class Fields:
    """Reads [at, end) of `data` from front to back."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes | bytearray | memoryview, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    def _take(self, kind: struct.Struct) -> int:
        if self.at + kind.size > self.end:
            raise FieldError(f"{kind.size} bytes wanted at {self.at}, {self.end - self.at} left")
        (value,) = kind.unpack_from(self.data, self.at)
        self.at += kind.size
        return int(value)

    def i8(self) -> int:
        """Signed 8 bits."""
        return self._take(_I8)

    def i16(self) -> int:
        """Signed 16 bits."""
        return self._take(_I16)

    def u16(self) -> int:
        """Unsigned 16 bits."""
        return self._take(_U16)

    def i32(self) -> int:
        """Signed 32 bits."""
        return self._take(_I32)

    def i64(self) -> int:
        """Signed 64 bits."""
        return self._take(_I64)

    def uvarint(self) -> int:
        """Unsigned varint of at most 32 bits."""
        value = 0
        for step in range(_VARINT_BYTES_MAX):
            if self.at >= self.end:
                break
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << (7 * step)
            if byte < 0x80:
                if value >= 1 << 32:
                    break
                return value
        raise FieldError(f"no varint before {self.at}")

    def _bytes(self, size: int) -> bytes:
        if size < 0 or self.at + size > self.end:
            raise FieldError(f"{size} bytes wanted at {self.at}, {self.end - self.at} left")
        value = bytes(self.data[self.at : self.at + size])
        self.at += size
        return value

    def _text(self, size: int) -> str:
        raw = self._bytes(size)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise FieldError(f"not UTF-8 before {self.at}: {error.reason}") from error

    def string(self) -> str:
        """Classic string, not null."""
        return self._text(self.i16())

    def nullable_string(self) -> str | None:
        """Classic string or null (-1)."""
        size = self.i16()
        return None if size == -1 else self._text(size)

    def bytes_(self) -> bytes:
        """Classic bytes, not null."""
        return self._bytes(self.i32())

    def nullable_bytes(self) -> bytes | None:
        """Classic bytes or null (-1)."""
        size = self.i32()
        return None if size == -1 else self._bytes(size)

    def count(self, item_bytes_min: int) -> int:
        """Length of a classic array, not null, whose items take at least so many bytes."""
        return self._count(self.i32(), item_bytes_min)

    def _count(self, count: int, item_bytes_min: int) -> int:
        if count < 0 or count * item_bytes_min > self.end - self.at:
            raise FieldError(f"{count} items of {item_bytes_min} bytes at {self.at}, {self.end - self.at} left")
        return count

    def compact_string(self) -> str:
        """Flexible string, not null."""
        return self._text(self.uvarint() - 1)

    def compact_nullable_string(self) -> str | None:
        """Flexible string or null (0)."""
        size = self.uvarint() - 1
        return None if size == -1 else self._text(size)

    def compact_bytes(self) -> bytes:
        """Flexible bytes, not null."""
        return self._bytes(self.uvarint() - 1)

    def compact_count(self, item_bytes_min: int) -> int:
        """Length of a flexible array, not null."""
        return self._count(self.uvarint() - 1, item_bytes_min)

    def i32_array(self, count: int) -> list[int]:
        """`count` numbers of 32 bits. Precondition: `count` or `compact_count` returned the count."""
        values = struct.unpack_from(f">{count}i", self.data, self.at)
        self.at += 4 * count
        return list(values)

    def topic_id(self) -> str:
        """A uuid as Kafka prints topic ids."""
        return topic_id(self._bytes(16))

    def tags(self) -> dict[int, tuple[int, int]]:
        """A tag section: tag -> (start, end) of its bytes. Raises FieldError unless tags ascend and fit the bytes."""
        found: dict[int, tuple[int, int]] = {}
        last = -1
        for _ in range(self._count(self.uvarint(), 2)):
            tag, size = self.uvarint(), self.uvarint()
            if tag <= last or self.at + size > self.end:
                raise FieldError(f"tag {tag} after {last} with {size} bytes at {self.at}")
            found[tag] = (self.at, self.at + size)
            self.at += size
            last = tag
        return found

    def within(self, span: tuple[int, int]) -> "Fields":
        """A reader of a tagged field's bytes."""
        return Fields(self.data, *span)

    def done(self) -> None:
        """Raises FieldError unless all bytes were read."""
        if self.at != self.end:
            raise FieldError(f"{self.end - self.at} bytes too many at {self.at}")


def topic_id(raw: bytes) -> str:
    """16 bytes as base64url without padding: 22 characters."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
