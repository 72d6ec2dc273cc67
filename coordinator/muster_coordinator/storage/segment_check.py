"""A full check of a sealed segment from its file, independent of what this process has read or appended before.

Problem: the scrub, the sender of a segment and its receiver need the same proof that a file is the expected segment.
Mechanism: it checks every batch's length, magic and CRC, that offsets follow one another from the segment's name to the
next segment's base, that the file has the size it had when it was sealed, and that leader epochs, which no CRC covers,
do not fall. Where a complete sidecar exists (under its own CRC), the index made from the bytes must equal it. The check
opens its own file: the segment may be removed or replaced meanwhile. What it cannot detect: an epoch that changed and
still lies between its neighbours, in a segment without a sidecar.
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
    """The result for a segment that passed every check."""

    made: SegmentIndex
    """The index made from its bytes."""
    checksum: int
    """CRC32C of the whole file."""
    sidecar: bool
    """Was it compared with a complete sidecar?"""


def check_segment(disk: Disk, path: str, folder: str, summary: SegmentSummary) -> Generator[int, None, CheckedSegment]:
    """Steps; each yields the number of bytes it checked. `folder` holds the sidecar. Raises SegmentDamaged, or the
    disk's OSError: FileNotFoundError when the file was deleted."""
    file = disk.open(path)
    try:
        if file.size() != summary.size:
            raise SegmentDamaged(summary.base, f"segment {path} has {file.size()} bytes, expected {summary.size}")
        index, checksum = SegmentIndex(summary.base), 0
        while index.size < summary.size:
            data = _whole_batches(file, path, index, summary)
            checksum = crc32c(data, checksum)
            yield len(data)
    finally:
        file.close()
    if index.next_offset != summary.next_offset:
        why = f"segment {path} ends before offset {index.next_offset}, expected {summary.next_offset}"
        raise SegmentDamaged(summary.base, why)
    if any(later < earlier for (earlier, _), (later, _) in pairwise(index.epochs)):
        raise SegmentDamaged(summary.base, f"segment {path}: leader epochs do not ascend: {index.epochs[:20]}")
    sidecar = read_sidecar(disk, folder, summary.base)
    whole = sidecar is not None and sidecar.size == summary.size
    if sidecar is not None and whole and not sidecar.alike(index):
        raise SegmentDamaged(summary.base, f"segment {path} does not fit its index: epochs {index.epochs[:20]}")
    return CheckedSegment(index, checksum, whole)


def unpaced(steps: Generator[int, None, CheckedSegment]) -> Generator[None, None, CheckedSegment]:
    """The same steps without their byte counts, for callers that do not pace by bytes."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            found: CheckedSegment = stop.value
            return found
        yield


def _whole_batches(file: File, path: str, index: SegmentIndex, summary: SegmentSummary) -> bytes:
    """Check up to SEGMENT_CHECK_STEP_BYTES of batches (at least one) after those in `index`, and add them to it.
    Returns their bytes."""
    start, base = index.size, summary.base
    data = file.pread(start, min(SEGMENT_CHECK_STEP_BYTES, summary.size - start))
    view, at = memoryview(data), 0
    while at < len(data):
        size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
        if len(data) - at < LOG_OVERHEAD:
            if at:
                break  # The next step begins with this batch.
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
        offset, _length, epoch, magic, crc, attributes, delta, _base_ms, max_ms = _HEAD.unpack_from(data, at)
        if magic != MAGIC or delta < 0 or offset != index.next_offset:
            raise SegmentDamaged(base, f"segment {path}: no batch of offset {index.next_offset} at {start + at}")
        if crc32c(view[at + CRC_FROM : at + size]) != crc:
            raise SegmentDamaged(base, f"segment {path}: the CRC of the batch at {start + at} does not fit")
        index.note(size, offset + delta + 1, epoch, max_ms, attributes)
        at += size
    return data[:at]
