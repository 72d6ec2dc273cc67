"""What a repair does to the disk: a copy under `repair/`, proven, then renamed over the damaged segment.

A rename is one step: a crash leaves the damaged file under the segment's name, or the whole one, whose bytes were
synced before. Nothing here holds up a promise; an error ends the attempt.
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
    """Copies that a crash left."""
    for name in disk.listdir(FOLDER):
        disk.unlink(f"{FOLDER}/{name}")


def begin(disk: Disk, staged: str, size: int, spare_bytes: int) -> None:
    """Make room for a copy. Raises `NoRoom` when it would leave less than `spare_bytes`."""
    free = disk.free_bytes()
    if free < size + spare_bytes:
        raise NoRoom(errno.ENOSPC, f"a copy of {size} bytes, {free} are free", staged)
    disk.mkdir(FOLDER)
    remove(disk, staged)


def write(disk: Disk, staged: str, offset: int, data: bytes) -> None:
    """One chunk."""
    file = disk.open(staged, create=True)
    try:
        file.pwrite(offset, [data])
    finally:
        file.close()


def remove(disk: Disk, staged: str) -> None:
    if disk.exists(staged):
        disk.unlink(staged)


def prove(
    disk: Disk, staged: str, folder: str, summary: SegmentSummary, checksum: int
) -> Generator[None, None, CheckedSegment]:
    """Steps: the copy is the segment that is meant, and durable. Raises Corruption, OSError."""
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
    """The copy takes the segment's name, and gets a sidecar where there was no whole one."""
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
