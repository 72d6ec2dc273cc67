"""Big-endian integers at any position of a byte buffer, many at once.

A numpy view with stride 1 over the same bytes gives, for every position, the integer that begins there; gathering from
it decodes a field of thousands of records in one step. The buffer is padded with zeros, so that a read that starts
below `size` stays inside it.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Bools = NDArray[np.bool_]

PAD: Final = 16


class View:
    """Bytes and their overlapping big-endian views. Positions below `size` may be read by every method."""

    __slots__ = ("_i16", "_i32", "_i64", "_u32", "data", "size", "u8")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.size = len(data)
        self.data = bytearray(self.size + PAD)
        self.data[: self.size] = data
        self.u8: NDArray[np.uint8] = np.frombuffer(self.data, np.uint8)
        self._i16 = self._overlapping(">i2")
        self._i32 = self._overlapping(">i4")
        self._u32 = self._overlapping(">u4")
        self._i64 = self._overlapping(">i8")

    def _overlapping(self, kind: str) -> NDArray[np.int64]:
        width = np.dtype(kind).itemsize
        view: NDArray[np.int64] = np.ndarray((len(self.data) - width + 1,), kind, self.data, strides=(1,))
        return view

    def byte(self, at: I64) -> I64:
        """Unsigned bytes."""
        return self.u8[at].astype(np.int64)

    def i16(self, at: I64) -> I64:
        """Signed 16 bits."""
        return self._i16[at].astype(np.int64)

    def i32(self, at: I64) -> I64:
        """Signed 32 bits."""
        return self._i32[at].astype(np.int64)

    def u32(self, at: I64) -> I64:
        """Unsigned 32 bits."""
        return self._u32[at].astype(np.int64)

    def i64(self, at: I64) -> I64:
        """Signed 64 bits."""
        return self._i64[at].astype(np.int64)
