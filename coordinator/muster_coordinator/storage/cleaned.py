"""The file `cleaned` of a partition: how far its segments are clean, and which may differ from other replicas'.

Problem: a start must not take a log for dirty that was cleaned (each start would clean all of it again), and never for
clean where it is not: a tombstone there could go before the values that it deletes. And files of a cleaned log must not
be mixed with those of another replica. Mechanism: before the first segment of a round is replaced, the file says up to
where segments may differ (`touched_to`); after the round it says up to where the log is clean, with the size of each
segment there. A start believes the latter only as far as the segments have these sizes, and counts every segment as
touched if the file is there and damaged. Format: docs/format.md. What it does not do: prove the segments' bytes.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from muster_coordinator.ports import Disk
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.segment import SegmentSummary

NAME = "cleaned"
_NEXT = "cleaned.next"
_MAGIC = b"MCLN"
_VERSION = 1
_HEAD = struct.Struct(">4sHHqqI")
"""Magic, version, 0, cleaned to, touched to, segments."""
_SEGMENT = struct.Struct(">qq")
_CRC_BYTES = 4
_ALL = 2**63 - 1


class Cleaned(NamedTuple):
    """See the module."""

    cleaned_to: int
    """The log was cleaned below this offset."""
    touched_to: int
    """Segments that begin below may differ from those of other replicas."""
    sizes: tuple[tuple[int, int], ...]
    """(base offset, bytes) of the segments below `cleaned_to`, ascending."""


NOTHING = Cleaned(0, 0, ())
DAMAGED = Cleaned(0, _ALL, ())


def write(disk: Disk, folder: str, cleaned: Cleaned) -> None:
    """Job: replace the file; durable when it returns."""
    body = b"".join(_SEGMENT.pack(*segment) for segment in cleaned.sizes)
    data = _HEAD.pack(_MAGIC, _VERSION, 0, cleaned.cleaned_to, cleaned.touched_to, len(cleaned.sizes)) + body
    file = disk.open(f"{folder}/{_NEXT}", create=True)
    try:
        file.truncate(0)
        file.pwrite(0, (data, crc32c(data).to_bytes(_CRC_BYTES, "big")))
        file.sync()
    finally:
        file.close()
    disk.rename(f"{folder}/{_NEXT}", f"{folder}/{NAME}")
    disk.sync_dir(folder)


def read(disk: Disk, folder: str) -> Cleaned:
    """What the file says; `DAMAGED` if it does not fit its CRC or is of another version."""
    try:
        file = disk.open(f"{folder}/{NAME}")
    except FileNotFoundError:
        return NOTHING
    try:
        data = file.pread(0, file.size())
    finally:
        file.close()
    if len(data) < _HEAD.size + _CRC_BYTES or crc32c(data[:-_CRC_BYTES]) != int.from_bytes(data[-_CRC_BYTES:], "big"):
        return DAMAGED
    magic, version, _zero, cleaned_to, touched_to, count = _HEAD.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION) or len(data) != _HEAD.size + count * _SEGMENT.size + _CRC_BYTES:
        return DAMAGED
    sizes = tuple(_SEGMENT.iter_unpack(data[_HEAD.size : -_CRC_BYTES]))
    return Cleaned(cleaned_to, touched_to, sizes)


def proven(cleaned: Cleaned, segments: Iterable[SegmentSummary]) -> Cleaned:
    """As much of `cleaned` as holds for the sealed segments that a start found, in offset order."""
    sizes = dict(cleaned.sizes)
    reach = 0
    for segment in segments:
        if sizes.get(segment.base) != segment.size:
            break
        reach = segment.next_offset
    return cleaned._replace(cleaned_to=min(cleaned.cleaned_to, reach))
