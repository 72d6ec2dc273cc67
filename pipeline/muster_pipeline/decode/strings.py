"""Arrow strings straight from the log's bytes.

An Arrow binary array is offsets over a buffer. Here the buffer is the log itself: the array's elements are alternately
the bytes between two strings and a string, and `take` picks every second element, in C++, with one copy per string.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.decode.view import I64, Bools, View


def binary(view: View, at: I64, length: I64) -> pa.Array:
    """Bytes [at, at + length) of the view; null where length is negative. `at` ascends and strings do not overlap."""
    if not len(at):
        return pa.array([], pa.binary())
    null = length < 0
    offsets = np.zeros(2 * len(at) + 1, np.int32)
    offsets[1::2] = np.where(null, 0, at)
    offsets[2::2] = np.where(null, 0, at + length)
    np.maximum.accumulate(offsets, out=offsets)
    raw = pa.Array.from_buffers(pa.binary(), 2 * len(at), [None, pa.py_buffer(offsets), pa.py_buffer(view.data)])
    picks = np.arange(1, 2 * len(at), 2, dtype=np.int32)
    return raw.take(pa.array(picks, mask=null if null.any() else None))


def utf8(values: pa.Array) -> tuple[pa.Array, Bools | None]:
    """(strings, None), or (strings with null for values that are not UTF-8, mask of those values)."""
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        bad = np.array([not _is_utf8(value.as_py()) for value in values], np.bool_)
        return pc.if_else(pa.array(bad), None, values).cast(pa.string()), bad


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
