"""Zig-zag and unsigned varints at many positions at once.

Nearly all varints of an offsets log are one byte long, so that is the fast path; longer ones are completed for the few
positions that need it. A varint of more than five (ten) bytes, or above 32 (64) bits, is marked bad.
"""

import numpy as np

from muster_pipeline.decode.view import I64, Bools, View

_U32_MAX = (1 << 32) - 1


def unsigned(view: View, at: I64, bytes_max: int) -> tuple[I64, I64, Bools]:
    """(value, position after it, bad) of little-endian base-128 groups; 64-bit values wrap into the sign."""
    first = view.u8[at]
    bad = np.zeros(len(at), np.bool_)
    if not (first & 0x80).any():
        return first.astype(np.int64), at + 1, bad
    value = (first & 0x7F).astype(np.uint64)
    behind = at + 1
    open_ = np.flatnonzero(first & 0x80)
    for step in range(1, bytes_max):
        byte = view.u8[at[open_] + step]
        value[open_] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * step)
        behind[open_] += 1
        if step == 9:
            bad[open_[byte > 1]] = True
        open_ = open_[byte >= 0x80]
        if not len(open_):
            break
    bad[open_] = True
    if bytes_max <= 5:
        bad |= value > _U32_MAX
    return value.view(np.int64), behind, bad


def zigzag(view: View, at: I64, bytes_max: int) -> tuple[I64, I64, Bools]:
    """(value, position after it, bad) of signed varints: at most 5 bytes for 32 bits, 10 for 64."""
    value, behind, bad = unsigned(view, at, bytes_max)
    half = (value.view(np.uint64) >> np.uint64(1)).view(np.int64)
    return half ^ -(value & 1), behind, bad
