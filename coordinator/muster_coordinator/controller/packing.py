"""Bounded, deterministic packing of the controller's own values: big-endian integers and length-prefixed bytes.

Problem: equal commands, results and checkpoints must have equal bytes on every replica and for years. Mechanism: fixed
field order, explicit widths; every length is checked against the bytes left before anything is sliced. What it does not
do: describe its layout; the versioned header of each user (`codec`, `checkpoint`) does.
"""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

from muster_coordinator.controller.image import Endpoint
from muster_coordinator.errors import Corruption

T = TypeVar("T")

_U8 = struct.Struct(">B")
_U32 = struct.Struct(">I")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")

Configs = tuple[tuple[str, str], ...]


class Packer:
    """Collects fields in order."""

    __slots__ = ("_parts",)

    def __init__(self, *head: int) -> None:
        self._parts: list[bytes] = [bytes(head)]

    def u8(self, value: int) -> None:
        self._parts.append(_U8.pack(value))

    def u32(self, value: int) -> None:
        self._parts.append(_U32.pack(value))

    def i32(self, value: int) -> None:
        self._parts.append(_I32.pack(value))

    def i64(self, value: int) -> None:
        self._parts.append(_I64.pack(value))

    def blob(self, value: bytes) -> None:
        self._parts += (_U32.pack(len(value)), value)

    def text(self, value: str) -> None:
        self.blob(value.encode())

    def i32s(self, values: Iterable[int]) -> None:
        self.many(values, self.i32)

    def many(self, values: Iterable[T], put: Callable[[T], None]) -> None:
        items = tuple(values)
        self.u32(len(items))
        for item in items:
            put(item)

    def configs(self, configs: Configs) -> None:
        self.u32(len(configs))
        for name, value in configs:
            self.text(name)
            self.text(value)

    def endpoint(self, endpoint: Endpoint) -> None:
        self.text(endpoint.listener)
        self.text(endpoint.host)
        self.i32(endpoint.port)

    def done(self) -> bytes:
        return b"".join(self._parts)


class Unpacker:
    """Reads what `Packer` wrote. Raises `Corruption` when bytes are missing, left over, or not UTF-8 in a text."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def _take(self, shape: struct.Struct) -> int:
        end = self._position + shape.size
        if end > len(self._data):
            raise Corruption(f"controller bytes end at {len(self._data)}, a field needs {end}")
        (value,) = shape.unpack_from(self._data, self._position)
        self._position = end
        assert isinstance(value, int)
        return value

    def u8(self) -> int:
        return self._take(_U8)

    def u32(self) -> int:
        return self._take(_U32)

    def i32(self) -> int:
        return self._take(_I32)

    def i64(self) -> int:
        return self._take(_I64)

    def flag(self) -> bool:
        value = self.u8()
        if value > 1:
            raise Corruption(f"controller bytes: {value} is not a boolean")
        return value == 1

    def blob(self) -> bytes:
        length = self.u32()
        end = self._position + length
        if end > len(self._data):
            raise Corruption(f"controller bytes end at {len(self._data)}, a field needs {end}")
        value = self._data[self._position : end]
        self._position = end
        return value

    def text(self) -> str:
        try:
            return self.blob().decode()
        except UnicodeDecodeError as error:
            raise Corruption("controller bytes: a text is not UTF-8") from error

    def many(self, take: Callable[[], T]) -> tuple[T, ...]:
        count = self.u32()
        if count > len(self._data) - self._position:  # every item takes at least one byte
            raise Corruption(f"controller bytes: {count} items cannot fit in the bytes left")
        return tuple(take() for _ in range(count))

    def configs(self) -> Configs:
        return self.many(lambda: (self.text(), self.text()))

    def endpoint(self) -> Endpoint:
        return Endpoint(listener=self.text(), host=self.text(), port=self.i32())

    def end(self) -> None:
        if self._position != len(self._data):
            raise Corruption(f"controller bytes: {len(self._data) - self._position} bytes too many")
