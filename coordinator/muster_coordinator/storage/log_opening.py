"""Opening a partition's folder after a start: cut everything after the recovery point, require everything before it.

Bytes after the recovery point were appended and maybe not synced: they are cut, later segments are removed, and the WAL
is replayed. Bytes before it were synced before the recovery point was written, so if they are missing, that is
corruption and not a torn write.
"""

import re

from muster_coordinator.errors import Corruption, SegmentDamaged
from muster_coordinator.ports import Disk
from muster_coordinator.storage.aborted import txnindex_name
from muster_coordinator.storage.contract import RecoveryPoint
from muster_coordinator.storage.segment import Segment, SegmentSummary, load_index
from muster_coordinator.storage.segment_check import check_segment
from muster_coordinator.storage.segment_index import NO_TIMESTAMP, segment_name, sidecar_name

_NAME = re.compile(r"([0-9]{20})\.(log|sidx|txnindex)(\.cleaned)?")
"""Other files in the folder are not ours and are left alone."""


def open_segments(disk: Disk, folder: str, recovery_point: RecoveryPoint) -> list[Segment]:
    """The segments up to `recovery_point`, all with their index; the last one is open for appending."""
    disk.mkdir(folder)
    bases = _cut(disk, folder, recovery_point)
    segments: list[Segment] = []
    while len(bases) > 1:
        base, next_base = bases[0], bases[1]
        name = segment_name(base)
        summary = SegmentSummary(base, next_base, _size(disk, folder, name), NO_TIMESTAMP)
        index = load_index(disk, folder, summary)
        if index.next_offset > next_base and index.next_offset in bases:
            _remove_replaced(disk, folder, summary._replace(next_offset=index.next_offset), bases)
            continue
        bases.pop(0)
        if index.next_offset != next_base:
            raise Corruption(f"segment {folder}/{name} ends before {index.next_offset}, the next begins at {next_base}")
        segments.append(Segment(disk, folder, summary._replace(max_timestamp_ms=index.max_timestamp_ms), index))
    segments.append(_active(disk, folder, recovery_point))
    return segments


def _remove_replaced(disk: Disk, folder: str, summary: SegmentSummary, bases: list[int]) -> None:
    """Remove the segments that lie within this one: it was cleaned and put in their place, and a crash has left them
    (`cleaning`). First all of it must prove sound: one damaged length must not cost the others."""
    try:
        for _ in check_segment(disk, f"{folder}/{segment_name(summary.base)}", folder, summary):
            pass
    except SegmentDamaged as error:
        raise Corruption(str(error)) from error
    within = [base for base in bases if summary.base < base < summary.next_offset]
    for base in within:
        for name in (sidecar_name(base), txnindex_name(base), segment_name(base)):
            if disk.exists(f"{folder}/{name}"):
                disk.unlink(f"{folder}/{name}")
    disk.sync_dir(folder)
    bases[:] = [base for base in bases if base not in within]


def _cut(disk: Disk, folder: str, recovery_point: RecoveryPoint) -> list[int]:
    """Remove segments after the recovery point, the last one first. Returns the bases that are left; the last of them
    is the recovery point's."""
    found = []
    for match in filter(None, map(_NAME.fullmatch, disk.listdir(folder))):
        if match[3]:
            disk.unlink(f"{folder}/{match[0]}")  # It was never put in place.
        else:
            found.append(match)
    bases = sorted(int(match[1]) for match in found if match[2] == "log")
    sidecars = [(int(match[1]), match[0]) for match in found if match[2] != "log"]
    for base in reversed(bases):
        if base > recovery_point.segment:
            disk.unlink(f"{folder}/{segment_name(base)}")
    for base, name in sidecars:
        if base > recovery_point.segment or base not in bases:
            disk.unlink(f"{folder}/{name}")
    kept = [base for base in bases if base <= recovery_point.segment]
    if not kept or kept[-1] != recovery_point.segment:
        if recovery_point.position != 0 or recovery_point.next_offset != recovery_point.segment:
            raise Corruption(f"log {folder}: segment {recovery_point.segment} of the recovery point is missing")
        disk.open(f"{folder}/{segment_name(recovery_point.segment)}", create=True).close()
        kept.append(recovery_point.segment)
    return kept


def _active(disk: Disk, folder: str, recovery_point: RecoveryPoint) -> Segment:
    name = segment_name(recovery_point.segment)
    path = f"{folder}/{name}"
    file = disk.open(path)
    size = file.size()
    if size < recovery_point.position:
        raise Corruption(f"segment {path} has {size} bytes, the recovery point says {recovery_point.position}")
    if size > recovery_point.position:
        file.truncate(recovery_point.position)
    file.close()
    index = load_index(
        disk,
        folder,
        SegmentSummary(recovery_point.segment, recovery_point.next_offset, recovery_point.position, NO_TIMESTAMP),
    )
    if index.next_offset != recovery_point.next_offset:
        raise Corruption(
            f"segment {path} ends before offset {index.next_offset}, the recovery point says "
            f"{recovery_point.next_offset}"
        )
    return Segment(
        disk,
        folder,
        SegmentSummary(recovery_point.segment, recovery_point.next_offset, recovery_point.position, NO_TIMESTAMP),
        index,
    )


def _size(disk: Disk, folder: str, name: str) -> int:
    file = disk.open(f"{folder}/{name}")
    size = file.size()
    file.close()
    return size
