"""The next sound batch after damage: every position is checked by header, the possible ones by CRC.

Bytes may imitate a batch (a commit's metadata may contain one), so a candidate's offsets must also lie above the last
offset read and below the segment's end. `decode.window` first tries the end that the damaged batch's own length gives.
"""

from dataclasses import dataclass

import crc32c
import numpy as np

from muster_pipeline.decode import headers
from muster_pipeline.decode.chain import SEGMENT_SPAN, Place
from muster_pipeline.decode.limits import BATCH_BYTES_MIN, SEARCH_CRC_BYTES_MAX
from muster_pipeline.decode.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`at`: where reading continues. `sound`: a sound batch begins there; False: one may, and to check it the window
    must reach `end`."""

    at: int
    end: int
    sound: bool


def next_batch(view: View, start: int, place: Place, *, whole: bool) -> Found | None:
    """The first sound batch at or after `start`; None if the window has none.

    `whole`: the log ends with the window, so a batch that would reach beyond it is no candidate.
    """
    stop = view.size - BATCH_BYTES_MIN + 1
    if start >= stop:
        return None
    magic = view.u8[start + headers.MAGIC_AT : stop + headers.MAGIC_AT]
    at = np.flatnonzero(magic == headers.MAGIC).astype(np.int64) + start
    found = headers.parse(view, at)
    span = min(place.offset_limit, place.next_offset + SEGMENT_SPAN + 1)
    ok = headers.possible(found) & (found.base >= place.next_offset) & (found.last < span)
    if whole:
        ok &= found.end <= view.size
    budget = SEARCH_CRC_BYTES_MAX
    for position, end in zip(found.at[ok].tolist(), found.end[ok].tolist(), strict=True):
        if end > view.size:
            return Found(at=position, end=end, sound=False)
        budget -= end - position
        if budget < 0:
            return None
        if crc_fits(view, position, end):
            return Found(at=position, end=end, sound=True)
    return None


def crc_fits(view: View, at: int, end: int) -> bool:
    """Does the CRC-32C of the batch in [at, end) equal the one in its header?"""
    stored = int.from_bytes(view.data[at + headers.CRC_AT : at + headers.CRC_FROM], "big")
    return crc32c.crc32c(memoryview(view.data)[at + headers.CRC_FROM : end]) == stored
