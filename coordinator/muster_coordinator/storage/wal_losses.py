"""Which groups of a WAL have lost something they had promised, remembered until each is made whole.

Problem: what proves a loss is gone once the WAL goes on, and a voter that forgets it in the middle of being made whole
would vote. Mechanism: a small file beside the WAL, replaced as a whole, written before the proof is. It names groups,
and says whether there may be more: in the part that is lost there may be groups of which nothing else is known. Then it
names those that are whole as well. Whoever is on neither list is suspended: also one that begins anew afterwards and
stands in the WAL by the next start, and needs nothing written down before its first batch.
A file that is damaged says that every group may have lost something.
"""

import struct
from collections.abc import Iterable

from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk
from muster_coordinator.records.crc import crc32c

LOSSES_NAME = "suspended"
_HEAD = struct.Struct(">4sHBBI")
_MAGIC = b"MSUS"
_VERSION = 1
_VERSION_WHOLE = 2
"""Behind the numbers of version 1: how many are whole, and theirs. Written while there may be more."""
_COUNT = struct.Struct(">I")


class Losses:
    """`groups` may have lost something; `unknown`: so may any that is not in `whole`."""

    __slots__ = ("groups", "unknown", "whole")

    def __init__(self, groups: set[GroupNo], unknown: bool, whole: set[GroupNo] | None = None) -> None:
        self.groups = groups
        self.unknown = unknown
        self.whole = whole
        """None: a release before wrote the file, and did not say."""

    def has(self, group: GroupNo) -> bool:
        """May it have lost something?"""
        return group in self.groups or (self.unknown and self.whole is not None and group not in self.whole)

    def lost(self, groups: Iterable[GroupNo], found: Iterable[GroupNo], unknown: bool) -> None:
        """A start has found a loss of `groups`, which are some of `found`, and, if `unknown`, maybe of others."""
        lost = set(groups)
        if unknown:
            before = self.whole if self.unknown else None
            whole = set(found) - lost - self.groups
            self.whole = whole if before is None else whole & before
            self.unknown = True
        elif self.whole is not None:
            self.whole -= lost
        self.groups |= lost

    def made_whole(self, group: GroupNo) -> None:
        self.groups.discard(group)
        if self.whole is not None:
            self.whole.add(group)

    def all_known(self) -> None:
        """Whoever may have lost something is in `groups`."""
        self.unknown, self.whole = False, None

    def encoded(self) -> bytes:
        numbers = sorted(self.groups)
        version = _VERSION if self.whole is None else _VERSION_WHOLE
        body = _HEAD.pack(_MAGIC, version, self.unknown, 0, len(numbers)) + struct.pack(f">{len(numbers)}I", *numbers)
        if self.whole is not None:
            whole = sorted(self.whole)
            body += _COUNT.pack(len(whole)) + struct.pack(f">{len(whole)}I", *whole)
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
    rest = data[_HEAD.size : -4]
    if magic != _MAGIC or version not in (_VERSION, _VERSION_WHOLE):
        return None
    groups, rest = _numbers(rest, count)
    if version == _VERSION:
        return Losses(groups, bool(unknown))
    (count,) = _COUNT.unpack_from(rest)
    return Losses(groups, bool(unknown), _numbers(rest[_COUNT.size :], count)[0])


def _numbers(data: bytes, count: int) -> tuple[set[GroupNo], bytes]:
    return {GroupNo(number) for number in struct.unpack_from(f">{count}I", data)}, data[4 * count :]


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
