"""`ports.Disk` on a folder of the operating system: positional reads and writes, fdatasync, folder fsync.

Problem: what a crash leaves depends on details that are easy to miss: partial writes, EINTR, unsynced folders.
Mechanism: one file descriptor per file, reads and writes at explicit positions, loops over short transfers, and no
buffer in this process. OSError reaches the caller unchanged; after a failed sync the caller must not sync again. What
it does not do: lock. One process owns a data folder (`runtime.folder`).
"""

import os
import shutil
from collections.abc import Sequence

from muster_coordinator.ports import FileIdentity

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_PARTS_MAX = 1_024
"""IOV_MAX on Linux."""


class OsFile:
    """An open file."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def pread(self, offset: int, length: int) -> bytes:
        """Read `length` bytes; fewer only at the end of the file."""
        data = os.pread(self._fd, length, offset)
        if len(data) == length or not data:
            return data
        parts = [data]
        got = len(data)
        while got < length:
            data = os.pread(self._fd, length - got, offset + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwrite(self, offset: int, parts: Sequence[bytes | bytearray | memoryview]) -> int:
        """Write all parts back to back; returns the number of bytes. Durable only after `sync`."""
        total = 0
        for at in range(0, len(parts), _PARTS_MAX):
            some = parts[at : at + _PARTS_MAX]
            wanted = sum(len(part) for part in some)
            written = os.pwritev(self._fd, some, offset + total)
            if written < wanted:
                rest = memoryview(b"".join(some))[written:]
                while rest:
                    count = os.pwrite(self._fd, rest, offset + total + written)
                    written += count
                    rest = rest[count:]
            total += written
        return total

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def sync(self) -> None:
        """fdatasync. An OSError is fatal to the process and must not be retried: the kernel may have marked the
        unsynced pages clean."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """May be called twice: the second call must not close the descriptor's number, which may be another file's."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class OsDisk:
    """One data folder. It and all files in it have permissions for the owner only."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        os.makedirs(self._root, mode=_FOLDER_MODE, exist_ok=True)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(self._at(path), flags, _FILE_MODE))

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def identity(self, path: str) -> FileIdentity:
        """The identity of the file with this name; all hard links to a file have the same."""
        found = os.stat(self._at(path))
        return FileIdentity(found.st_size, found.st_mtime_ns, found.st_ino)

    def listdir(self, path: str) -> list[str]:
        """Sorted names; an absent folder is an empty list."""
        try:
            return sorted(os.listdir(self._at(path)))
        except FileNotFoundError:
            return []

    def mkdir(self, path: str, *, durable: bool = True) -> None:
        """Create the folder and its parents; does nothing when it exists. Each new name is synced if `durable`, else
        the caller must sync."""
        done = ""
        for name in path.split("/"):
            parent, done = done, f"{done}/{name}" if done else name
            try:
                os.mkdir(self._at(done), _FOLDER_MODE)
            except FileExistsError:
                continue
            if durable:
                self.sync_dir(parent)

    def rename(self, source: str, target: str) -> None:
        os.rename(self._at(source), self._at(target))

    def link(self, source: str, target: str) -> None:
        os.link(self._at(source), self._at(target))

    def unlink(self, path: str) -> None:
        os.unlink(self._at(path))

    def rmtree(self, path: str) -> None:
        """Remove a folder and all its content; does nothing when it is absent."""
        try:
            shutil.rmtree(self._at(path))
        except FileNotFoundError:
            return

    def sync_dir(self, path: str) -> None:
        fd = os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self) -> int:
        state = os.statvfs(self._root)
        return state.f_bavail * state.f_frsize

    def _at(self, path: str) -> str:
        assert not path.startswith("/"), path
        assert ".." not in path.split("/"), path
        return os.path.join(self._root, path)
