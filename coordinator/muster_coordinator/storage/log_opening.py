"""Opening a partition's folder after a start: everything beyond the mark goes, everything before it must be there.

Bytes beyond the mark were appended and maybe not synced: they are cut, later segments removed, and the WAL is replayed.
Bytes before it were synced before the mark was written; if they are missing, that is corruption and no torn write.
"""

import re
from itertools import pairwise

from muster_coordinator.errors import Corruption
from muster_coordinator.ports import Disk
from muster_coordinator.storage.contract import Mark
from muster_coordinator.storage.segment import Segment, SegmentSummary, load_index
from muster_coordinator.storage.segment_index import NO_TIMESTAMP, segment_name, sidecar_name

_NAME = re.compile(r"([0-9]{20})\.(log|sidx)")
"""Whatever else lies in the folder is not ours."""


def open_segments(disk: Disk, folder: str, mark: Mark) -> list[Segment]:
    """The segments up to `mark`, all with their index; the last one is open for appending."""
    disk.mkdir(folder)
    bases = _cut(disk, folder, mark)
    segments: list[Segment] = []
    for base, next_base in pairwise(bases):
        name = segment_name(base)
        summary = SegmentSummary(base, next_base, _size(disk, folder, name), NO_TIMESTAMP)
        index = load_index(disk, folder, summary)
        if index.next_offset != next_base:
            raise Corruption(f"segment {folder}/{name} ends before {index.next_offset}, the next begins at {next_base}")
        segments.append(Segment(disk, folder, summary._replace(max_timestamp_ms=index.max_timestamp_ms), index))
    segments.append(_active(disk, folder, mark))
    return segments


def _cut(disk: Disk, folder: str, mark: Mark) -> list[int]:
    """Remove what lies beyond the mark, later segments first; returns the bases left, the mark's the last."""
    found = [match for match in map(_NAME.fullmatch, disk.listdir(folder)) if match]
    bases = sorted(int(match[1]) for match in found if match[2] == "log")
    sidecars = [int(match[1]) for match in found if match[2] == "sidx"]
    for base in reversed(bases):
        if base > mark.segment:
            disk.unlink(f"{folder}/{segment_name(base)}")
    for base in sidecars:
        if base > mark.segment or base not in bases:
            disk.unlink(f"{folder}/{sidecar_name(base)}")
    kept = [base for base in bases if base <= mark.segment]
    if not kept or kept[-1] != mark.segment:
        if mark.position != 0 or mark.next_offset != mark.segment:
            raise Corruption(f"log {folder}: segment {mark.segment} of the mark is missing")
        disk.open(f"{folder}/{segment_name(mark.segment)}", create=True).close()
        kept.append(mark.segment)
    return kept


def _active(disk: Disk, folder: str, mark: Mark) -> Segment:
    name = segment_name(mark.segment)
    path = f"{folder}/{name}"
    file = disk.open(path)
    size = file.size()
    if size < mark.position:
        raise Corruption(f"segment {path} has {size} bytes, the mark says {mark.position}")
    if size > mark.position:
        file.truncate(mark.position)
    file.close()
    index = load_index(disk, folder, SegmentSummary(mark.segment, mark.next_offset, mark.position, NO_TIMESTAMP))
    if index.next_offset != mark.next_offset:
        raise Corruption(f"segment {path} ends before offset {index.next_offset}, the mark says {mark.next_offset}")
    return Segment(disk, folder, SegmentSummary(mark.segment, mark.next_offset, mark.position, NO_TIMESTAMP), index)


def _size(disk: Disk, folder: str, name: str) -> int:
    file = disk.open(f"{folder}/{name}")
    size = file.size()
    file.close()
    return size
