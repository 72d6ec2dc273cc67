"""The files of a segment's repair: a copy under `repair/` is verified, synced and renamed over the damaged segment.

A rename is atomic: after a crash the segment's name leads to the damaged file, or to the copy, which was synced before.
No promise rests on the copy, so an error ends the attempt and does no other harm. What this does not do: fetch the
copy, or decide when it may be put in place (`repair`).
"""

import errno
from collections.abc import Generator

from muster_coordinator.errors import Corruption
from muster_coordinator.ports import Disk
from muster_coordinator.replica.snapshots.staging import NoRoom
from muster_coordinator.storage.segment import SegmentSummary
from muster_coordinator.storage.segment_check import CheckedSegment, check_segment, unpaced
from muster_coordinator.storage.segment_index import segment_name, sidecar_name

FOLDER = "repair"


def staged_name(group: int, base: int) -> str:
    return f"{FOLDER}/{group}-{segment_name(base)}"


def clear(disk: Disk) -> None:
    """Remove copies that a crash has left."""
    for name in disk.listdir(FOLDER):
        disk.unlink(f"{FOLDER}/{name}")


def begin(disk: Disk, staged: str, size: int, spare_bytes: int) -> None:
    """Prepare for a copy of `size` bytes. Raises `NoRoom` if it would leave less than `spare_bytes` free."""
    free = disk.free_bytes()
    if free < size + spare_bytes:
        raise NoRoom(errno.ENOSPC, f"a copy of {size} bytes, {free} are free", staged)
    disk.mkdir(FOLDER)
    remove(disk, staged)


def remove(disk: Disk, staged: str) -> None:
    if disk.exists(staged):
        disk.unlink(staged)


def prove(
    disk: Disk, staged: str, folder: str, summary: SegmentSummary, checksum: int
) -> Generator[None, None, CheckedSegment]:
    """Job in steps: verify that the copy is the wanted segment, and sync it. Raises Corruption, OSError."""
    checked = yield from unpaced(check_segment(disk, staged, folder, summary))
    if checked.checksum != checksum:
        raise Corruption(f"{staged}: CRC {checked.checksum:#x}, the peer said {checksum:#x}")
    file = disk.open(staged)
    try:
        file.sync()
    finally:
        file.close()
    return checked


def put(disk: Disk, staged: str, folder: str, checked: CheckedSegment) -> None:
    """Rename the copy over the segment; first write a sidecar if there is no valid one."""
    base = checked.made.base
    if not checked.sidecar:
        sidecar = disk.open(f"{folder}/{sidecar_name(base)}", create=True)
        try:
            sidecar.truncate(0)
            sidecar.pwrite(0, (checked.made.encode(),))
        finally:
            sidecar.close()
    disk.rename(staged, f"{folder}/{segment_name(base)}")
    disk.sync_dir(folder)
    disk.sync_dir(FOLDER)
