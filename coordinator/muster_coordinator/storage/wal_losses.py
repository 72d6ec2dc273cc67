"""Which groups of a WAL have lost something they had promised, remembered until each is made whole.

Problem: what proves a loss is gone once the WAL goes on, and a voter that forgets it in the middle of being made whole
would vote. Mechanism: a small file beside the WAL, replaced as a whole, written before the proof is. It names groups,
and says whether there may be more: in the part that is lost there may be groups of which nothing else is known.
A file that is damaged says that every group may have lost something.
"""

import struct

from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk
from muster_coordinator.records.crc import crc32c

LOSSES_NAME = "suspended"
_HEAD = struct.Struct(">4sHBBI")
_MAGIC = b"MSUS"
_VERSION = 1


class Losses:
    """`groups` are known by number; `unknown`: any group that the WAL does not know may have been lost with it."""

    __slots__ = ("groups", "unknown")

    def __init__(self, groups: set[GroupNo], unknown: bool) -> None:
        self.groups = groups
        self.unknown = unknown

    def encoded(self) -> bytes:
        numbers = sorted(self.groups)
        body = _HEAD.pack(_MAGIC, _VERSION, self.unknown, 0, len(numbers)) + struct.pack(f">{len(numbers)}I", *numbers)
        return body + crc32c(body).to_bytes(4, "big")


def load(disk: Disk, folder: str) -> Losses | None:
    """What is remembered; None when the file is there and cannot be read."""
    path = f"{folder}/{LOSSES_NAME}"
    if not disk.exists(path):
        return Losses(set(), False)
    file = disk.open(path)
    try:
        data = file.pread(0, file.size())
    finally:
        file.close()
    if len(data) < _HEAD.size + 4 or crc32c(data[:-4]) != int.from_bytes(data[-4:], "big"):
        return None
    magic, version, unknown, _zero, count = _HEAD.unpack_from(data)
    if (magic, version, len(data)) != (_MAGIC, _VERSION, _HEAD.size + 4 * count + 4):
        return None
    return Losses({GroupNo(number) for number in struct.unpack_from(f">{count}I", data, _HEAD.size)}, bool(unknown))


def store(disk: Disk, folder: str, content: bytes) -> None:
    """Replace the file; durable when it returns."""
    path = f"{folder}/{LOSSES_NAME}"
    file = disk.open(f"{path}.tmp", create=not disk.exists(f"{path}.tmp"))
    try:
        file.truncate(0)
        file.pwrite(0, (content,))
        file.sync()
    finally:
        file.close()
    disk.rename(f"{path}.tmp", path)
    disk.sync_dir(folder)
