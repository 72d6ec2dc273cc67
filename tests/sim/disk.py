"""A disk with a page cache, for simulations: what was not synced may vanish, tear, or come back in part after a crash.

Model. A file is an inode: durable bytes, the bytes as processes see them, and the ordered writes
in between. Names are separate durable state: a created, renamed or removed name survives a crash for certain only
after `sync_dir` of its folder. `crash` decides for every pending write: kept, lost, or kept in a subset of its
512-byte sectors; and for every pending name operation: kept or lost. A failed sync drops the pending writes and marks
them clean, so that the next sync succeeds without them, as Linux does.

Hooks: `fail_next(op, error)`, `capacity_bytes` (ENOSPC), `power_off_after(effects)`, `cost` (per effect, for slow
disks).
"""

import errno
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

from muster_coordinator.ports import FileIdentity

SECTOR_BYTES = 512


class PowerLoss(BaseException):
    """The machine went off within an operation. No product code may catch it."""


class _Inode:
    def __init__(self, number: int) -> None:
        self.number = number
        """Its own on its disk."""
        self.changes = 0
        self.durable = bytearray()
        self.seen = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []
        """(position, data) of a write, or (size, None) of a truncation."""

    def crash(self, rand: Random) -> None:
        for position, data in self.pending:
            fate = rand.random()
            if fate < 0.4:
                continue
            if data is None:
                _resize(self.durable, position)
            elif fate < 0.7:
                _put(self.durable, position, data)
            else:
                self._tear(position, data, rand)
        self.pending.clear()
        self.seen = bytearray(self.durable)

    def _tear(self, position: int, data: bytes, rand: Random) -> None:
        """Some sectors arrive, in any order; the file may have grown all the same."""
        if rand.random() < 0.5:
            _put(self.durable, position + len(data), b"")
        start = position
        while start < position + len(data):
            stop = min(start - start % SECTOR_BYTES + SECTOR_BYTES, position + len(data))
            if rand.random() < 0.5:
                _put(self.durable, start, data[start - position : stop - position])
            start = stop


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _put(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


class SimFile:
    """An open file; of no use after a crash."""

    def __init__(self, disk: "SimDisk", inode: _Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._boot = disk.boots
        self._open = True

    def pread(self, offset: int, length: int) -> bytes:
        self._usable()
        self._disk.effect("pread", self._path, 0, changes=False)
        return bytes(self._inode.seen[offset : offset + length])

    def pwrite(self, offset: int, parts: Sequence[bytes | bytearray | memoryview]) -> int:
        self._usable()
        data = b"".join(parts)
        inode, size = self._inode, len(data)
        growth = offset + size - len(inode.seen)
        self._disk.effect("pwrite", self._path, size, growth=max(0, growth))
        _put(inode.seen, offset, data)
        inode.changes += 1
        inode.pending.append((offset, data))
        self._disk.power()
        return size

    def truncate(self, size: int) -> None:
        self._usable()
        self._disk.effect("truncate", self._path, 0)
        _resize(self._inode.seen, size)
        self._inode.changes += 1
        self._inode.pending.append((size, None))
        self._disk.power()

    def size(self) -> int:
        self._usable()
        return len(self._inode.seen)

    def sync(self) -> None:
        self._usable()
        durable, pending = self._inode.durable, self._inode.pending
        size = 0
        for _, data in pending:
            if data is not None:
                size += len(data)
        try:
            self._disk.effect("sync", self._path, size)
        except OSError:
            # The pages are clean now and their bytes were never written: `seen` keeps them until the machine goes off.
            pending.clear()
            raise
        for position, data in pending:
            if data is None:
                _resize(durable, position)
            else:
                _put(durable, position, data)
        pending.clear()
        self._disk.syncs += 1
        self._disk.power()

    def close(self) -> None:
        self._open = False

    def _usable(self) -> None:
        assert self._open, f"{self._path} is closed"
        assert self._boot == self._disk.boots, f"{self._path} was opened before the crash"


_Link = tuple[str, str, _Inode | None]
"""Pending name operation: (folder, path, inode it names from now on or None)."""


class SimDisk:
    """One replica's data folder on simulated hardware."""

    def __init__(self) -> None:
        self.boots = 0
        self.syncs = 0
        self.effects = 0
        """Operations that change something, since the beginning: the points at which a crash may come."""
        self.capacity_bytes: int | None = None
        self.cost: Callable[[str, str, int], None] | None = None
        """Called as cost(operation, path, bytes) before each effect: accounts time, or raises OSError."""
        self._off_at: int | None = None
        self._failures: list[tuple[str, str, int]] = []
        self._durable_names: dict[str, _Inode] = {}
        self._names: dict[str, _Inode] = {}
        self._pending: list[_Link] = []
        self._folders: set[str] = {""}
        self._numbers = count()

    # Faults.

    def fail_next(self, operation: str, error: int = errno.EIO, path: str = "") -> None:
        """The next `operation` on a path that contains `path` raises this errno, once."""
        self._failures.append((operation, path, error))

    def forgive(self) -> None:
        """Nothing fails that was going to."""
        self._failures.clear()

    def power_off_after(self, effects: int) -> None:
        """PowerLoss once that many more effects have happened; 0: before the next one."""
        self._off_at = self.effects + effects

    def crash(self, rand: Random) -> None:
        """Power loss and power on: decide what survived. Open files are dead."""
        self._off_at = None
        self._failures.clear()
        keep_names = rand.random()
        for _, path, inode in self._pending:
            if rand.random() < keep_names:
                self._name(self._durable_names, path, inode)
        self._pending.clear()
        inodes = {id(inode): inode for inode in (*self._names.values(), *self._durable_names.values())}
        for inode in inodes.values():
            inode.crash(rand)
        self._names = dict(self._durable_names)
        for path in self._names:
            self.mkdir(_folder(path))  # a file that came back after `rmtree` brings its folder along
        self.boots += 1

    def write_back(self) -> None:
        """What an operating system does in its own time: names that were made and removed are so for good."""
        for _, path, inode in self._pending:
            self._name(self._durable_names, path, inode)
        self._pending.clear()

    def durable_copy(self, folder: str = "") -> "SimDisk":
        """Another disk that holds only what is certain to survive a power loss at this instant; of `folder` alone, if
        that is all that is looked at."""
        copy = SimDisk()
        prefix = f"{folder}/" if folder else ""
        for name, inode in self._durable_names.items():
            if not name.startswith(prefix):
                continue
            kept = _Inode(next(copy._numbers))
            kept.durable = bytearray(inode.durable)
            kept.seen = bytearray(inode.durable)
            copy._names[name] = copy._durable_names[name] = kept
        copy._folders = set(self._folders)
        return copy

    def restart(self) -> None:
        """The process ends, the machine goes on: nothing is lost, open files are dead."""
        self._off_at = None
        self.boots += 1

    def damage(self, path: str, position: int, data: bytes) -> None:
        """Bytes at rest change under us."""
        inode = self._names[path]
        _put(inode.durable, position, data)
        _put(inode.seen, position, data)

    def files(self) -> list[str]:
        """Names of all files, as processes see them."""
        return sorted(self._names)

    def content(self, path: str) -> bytes:
        """The file as processes see it."""
        return bytes(self._names[path].seen)

    # ports.Disk

    def open(self, path: str, *, create: bool = False) -> SimFile:
        inode = self._names.get(path)
        if inode is None:
            if not create or _folder(path) not in self._folders:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.effect("create", path, 0)
            inode = _Inode(next(self._numbers))
            self._rename(path, inode)
            self.power()
        return SimFile(self, inode, path)

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._folders

    def identity(self, path: str) -> FileIdentity:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return FileIdentity(len(inode.seen), inode.changes, inode.number)

    def listdir(self, path: str) -> list[str]:
        prefix = f"{path}/" if path else ""
        present = [*self._names, *(folder for folder in self._folders if folder)]
        return sorted({name[len(prefix) :].split("/")[0] for name in present if name.startswith(prefix)})

    def mkdir(self, path: str, *, durable: bool = True) -> None:
        """Folders are durable at once here; what lies in them is not."""
        if path not in self._folders:
            self.effect("mkdir", path, 0, changes=False)
        parts = path.split("/")
        for depth in range(len(parts)):
            self._folders.add("/".join(parts[: depth + 1]))

    def rename(self, source: str, target: str) -> None:
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self.effect("rename", target, 0)
        inode = self._names[source]
        self._rename(target, inode)
        self._rename(source, None)
        self.power()

    def link(self, source: str, target: str) -> None:
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        if target in self._names:
            raise FileExistsError(errno.EEXIST, "there already", target)
        self.effect("link", target, 0)
        self._rename(target, self._names[source])
        self.power()

    def unlink(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.effect("unlink", path, 0)
        self._rename(path, None)
        self.power()

    def rmtree(self, path: str) -> None:
        prefix = f"{path}/"
        for name in [name for name in self._names if name.startswith(prefix)]:
            self.unlink(name)
        self._folders = {folder for folder in self._folders if folder != path and not folder.startswith(prefix)}

    def sync_dir(self, path: str) -> None:
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        self.effect("sync_dir", path, 0)
        rest: list[_Link] = []
        for folder, name, inode in self._pending:
            if folder == path:
                self._name(self._durable_names, name, inode)
            else:
                rest.append((folder, name, inode))
        self._pending = rest
        self.power()

    def free_bytes(self) -> int:
        return (1 << 40) if self.capacity_bytes is None else max(0, self.capacity_bytes - self._used())

    # Within.

    def effect(self, operation: str, path: str, size: int, *, growth: int = 0, changes: bool = True) -> None:
        """Called before an operation happens: raises what is to go wrong."""
        if changes:
            if self._off_at is not None:
                self.power()
            self.effects += 1
        if self.cost is not None:
            self.cost(operation, path, size)
        if self._failures:
            self._fail(operation, path)
        if growth and self.capacity_bytes is not None and self._used() + growth > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "no space", path)

    def _fail(self, operation: str, path: str) -> None:
        for at, (wanted, fragment, error) in enumerate(self._failures):
            if wanted == operation and fragment in path:
                del self._failures[at]
                raise OSError(error, "injected", path)

    def power(self) -> None:
        """Off when it is time."""
        if self._off_at is not None and self.effects >= self._off_at:
            raise PowerLoss

    def _used(self) -> int:
        return sum(len(inode.seen) for inode in {id(i): i for i in self._names.values()}.values())

    def _rename(self, path: str, inode: _Inode | None) -> None:
        self._name(self._names, path, inode)
        self._pending.append((_folder(path), path, inode))

    @staticmethod
    def _name(names: dict[str, _Inode], path: str, inode: _Inode | None) -> None:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
