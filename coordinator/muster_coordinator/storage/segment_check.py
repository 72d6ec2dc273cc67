"""All bytes of a sealed segment checked from its file, whatever was read or appended in this life.

Problem: the scrub, whoever gives a peer a segment, and whoever got one need the same proof that a file is the segment
that is meant. Mechanism: every batch's length, magic and CRC, that offsets follow one another from the segment's name
to where the next one begins, that the file has the size it had when it was sealed, and that leader epochs, which no
CRC covers, do not fall; where a whole sidecar is there (under a CRC of its own), that the index made from the bytes
equals it. Opens its own file: the segment may be removed or replaced meanwhile. What it does not see: an epoch that
changed so that it still fits, in a segment without a sidecar.
"""

import struct
from collections.abc import Generator
from itertools import pairwise
from typing import NamedTuple

from muster_coordinator.errors import SegmentDamaged
from muster_coordinator.ports import Disk, File
from muster_coordinator.records.batch import CRC_FROM, HEADER_BYTES, LOG_OVERHEAD, MAGIC
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.limits import SEGMENT_CHECK_STEP_BYTES
from muster_coordinator.storage.segment import SegmentSummary
from muster_coordinator.storage.segment_index import SegmentIndex, read_sidecar

_HEAD = struct.Struct(">qiibIhiqq")
"""A batch header up to maxTimestamp."""


class CheckedSegment(NamedTuple):
    """A segment whose bytes are those that were written."""

    made: SegmentIndex
    """The index made from its bytes."""
    checksum: int
    """CRC32C of the whole file."""
    sidecar: bool
    """Was there one to compare with?"""


def check_segment(disk: Disk, path: str, folder: str, summary: SegmentSummary) -> Generator[int, None, CheckedSegment]:
    """Steps, each the bytes it checked. `folder`: where the sidecar lies. SegmentDamaged, or OSError as the disk has
    it: FileNotFoundError when the file is gone."""
    file = disk.open(path)
    try:
        if file.size() != summary.size:
            raise SegmentDamaged(summary.base, f"segment {path} has {file.size()} bytes, and not {summary.size}")
        index, checksum = SegmentIndex(summary.base), 0
        while index.size < summary.size:
            data = _whole_batches(file, path, index, summary)
            checksum = crc32c(data, checksum)
            yield len(data)
    finally:
        file.close()
    if index.next_offset != summary.next_offset:
        why = f"segment {path} ends before offset {index.next_offset}, and not {summary.next_offset}"
        raise SegmentDamaged(summary.base, why)
    if any(later < earlier for (earlier, _), (later, _) in pairwise(index.epochs)):
        raise SegmentDamaged(summary.base, f"segment {path}: leader epochs fall along it: {index.epochs[:20]}")
    sidecar = read_sidecar(disk, folder, summary.base)
    whole = sidecar is not None and sidecar.size == summary.size
    if sidecar is not None and whole and sidecar.encode() != index.encode():
        raise SegmentDamaged(summary.base, f"segment {path} does not fit its index: epochs {index.epochs[:20]}")
    return CheckedSegment(index, checksum, whole)


def unpaced(steps: Generator[int, None, CheckedSegment]) -> Generator[None, None, CheckedSegment]:
    """The same steps, for whoever keeps no account of the bytes."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            found: CheckedSegment = stop.value
            return found
        yield


def _whole_batches(file: File, path: str, index: SegmentIndex, summary: SegmentSummary) -> bytes:
    """Check some batches after those in `index`, and add them to it; returns their bytes."""
    start, base = index.size, summary.base
    data = file.pread(start, min(SEGMENT_CHECK_STEP_BYTES, summary.size - start))
    view, at = memoryview(data), 0
    while at < len(data):
        size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
        if len(data) - at < LOG_OVERHEAD:
            if at:
                break  # the next step begins with it
            raise SegmentDamaged(base, f"segment {path}: no batch at {start}")
        if not HEADER_BYTES <= size <= summary.size - start - at:
            raise SegmentDamaged(base, f"segment {path}: no batch at {start + at}")
        if size > len(data) - at:
            if at:
                break
            data = file.pread(start, size)
            view = memoryview(data)
            if len(data) < size:
                raise SegmentDamaged(base, f"segment {path} ends at {start + len(data)}")
        offset, _length, epoch, magic, crc, _attributes, delta, _base_ms, max_ms = _HEAD.unpack_from(data, at)
        if magic != MAGIC or delta < 0 or offset != index.next_offset:
            raise SegmentDamaged(base, f"segment {path}: no batch of offset {index.next_offset} at {start + at}")
        if crc32c(view[at + CRC_FROM : at + size]) != crc:
            raise SegmentDamaged(base, f"segment {path}: the CRC of the batch at {start + at} does not fit")
        index.note(size, offset + delta + 1, epoch, max_ms)
        at += size
    return data[:at]
