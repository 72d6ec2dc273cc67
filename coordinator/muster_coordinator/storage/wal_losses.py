"""Which groups of a WAL may have lost a promise (a vote or an entry), recorded until each is made whole.

Problem: the WAL's damage, which proves a loss, is gone once the WAL continues; a voter that restarts before it is made
whole would then vote again. Mechanism: a small file beside the WAL, always replaced whole, and written before the
damage is cut. It lists the groups that may have lost something, and says whether there may be more: the damaged part
may have held the only records of further groups. In that case it lists the whole groups too, and every group on neither
list is suspended. So a group that is created again later is suspended without a write of its own, also after the next
start. A damaged file means that every group may have lost something.
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
"""Version 1 plus the count and the numbers of the whole groups. Written while there may be further lost groups."""
_COUNT = struct.Struct(">I")


class Losses:
    """`groups` may have lost a promise; if `unknown`, so may every group that is not in `whole`."""

    __slots__ = ("groups", "unknown", "whole")

    def __init__(self, groups: set[GroupNo], unknown: bool, whole: set[GroupNo] | None = None) -> None:
        self.groups = groups
        self.unknown = unknown
        self.whole = whole
        """None while not `unknown`, or when an older release wrote the file, which did not list them."""

    def has(self, group: GroupNo) -> bool:
        """May the group have lost a promise?"""
        return group in self.groups or (self.unknown and self.whole is not None and group not in self.whole)

    def lost(self, groups: Iterable[GroupNo], found: Iterable[GroupNo], unknown: bool) -> None:
        """A start has found that `groups`, a part of the groups it `found`, may have lost a promise; if `unknown`, so
        may groups that it did not find."""
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
        """Every group that may have lost a promise is in `groups`."""
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
    """The stored losses; None when the file exists and is damaged."""
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
