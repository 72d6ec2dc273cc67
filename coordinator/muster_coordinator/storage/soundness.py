"""Batches are checked for disk damage before a reader gets them, once per process.

Problem: a byte that changed on the disk below the recovery point is served as if it had been written; clients that do
not check CRCs take it for data, and one wrong length hides all batches after it. Mechanism: bytes that this process
appended are trusted. Of the bytes that were there when the segment was opened, one range of file positions is known to
be sound, and grows as readers advance. Bytes outside it are checked before they are served: CRC, magic and lengths,
that offsets follow one another from a position in the index, and that the leader epoch, which no CRC covers, equals the
index's. What it cannot detect: damage to bytes that this process has already checked, and a changed epoch at either end
of a segment whose sidecar was lost too (the index then comes from the same bytes), if it still fits its neighbours.
"""

import struct

from muster_coordinator.errors import Corruption
from muster_coordinator.records.batch import CRC_FROM, HEADER_BYTES, LOG_OVERHEAD, MAGIC
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.limits import UNCHECKED_READ_BYTES
from muster_coordinator.storage.segment_index import SegmentIndex

_HEAD = struct.Struct(">qiibIhi")
"""A batch header up to lastOffsetDelta. What follows lies under the CRC."""
NO_BOUND = 1 << 62


class Soundness:
    """What is known of one segment's file. Bytes from position `trusted_from` on were appended by this process."""

    __slots__ = ("_high", "_low", "trusted_from")

    def __init__(self, trusted_from: int) -> None:
        self.trusted_from = trusted_from
        self._low = self._high = 0

    def portion(self, position: int) -> int:
        """The most bytes that one read from `position` should ask for, so that the loop checks few CRCs a read."""
        if self._low <= position < self._high:
            if self._high < self.trusted_from:
                return self._high - position
            position = self._high
        return NO_BOUND if position >= self.trusted_from else UNCHECKED_READ_BYTES

    def check(self, data: bytes, position: int, offset: int, index: SegmentIndex, path: str) -> None:
        """`data`: whole batches that lie at `position`; the first has the base `offset`. Raises Corruption."""
        end = min(position + len(data), self.trusted_from)
        if position >= end or (self._low <= position and end <= self._high):
            return
        view = memoryview(data)
        unpack, crc_of = _HEAD.unpack_from, crc32c
        at, stop = 0, end - position
        epoch, epoch_ends = index.epoch_at(offset)
        while at < stop:
            if len(data) - at < HEADER_BYTES:
                raise Corruption(f"segment {path}: no batch at {position + at}")
            base, length, leader_epoch, magic, crc, _attributes, delta = unpack(data, at)
            size = length + LOG_OVERHEAD
            if not HEADER_BYTES <= size <= len(data) - at or magic != MAGIC or delta < 0:
                raise Corruption(f"segment {path}: no batch at {position + at}")
            if crc_of(view[at + CRC_FROM : at + size]) != crc:
                raise Corruption(f"segment {path}: the CRC of the batch at {position + at} does not fit")
            if base != offset:
                raise Corruption(f"segment {path}: the batch at {position + at} has offset {base}, expected {offset}")
            if offset >= epoch_ends:
                epoch, epoch_ends = index.epoch_at(offset)
            if leader_epoch != epoch:
                raise Corruption(
                    f"segment {path}: the batch at {position + at} has epoch {leader_epoch}, expected {epoch}"
                )
            offset = base + delta + 1
            at += size
        self._note(position, position + at)

    def _note(self, low: int, high: int) -> None:
        """Join [low, high) to the sound range; where they do not touch, keep the longer of the two."""
        if low <= self._high and self._low <= high:
            self._low, self._high = min(low, self._low), max(high, self._high)
        elif high - low > self._high - self._low:
            self._low, self._high = low, high
