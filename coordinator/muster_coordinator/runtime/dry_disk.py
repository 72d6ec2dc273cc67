"""A `ports.Disk` over another one that keeps all changes in memory, for commands that look and must change nothing.

Problem: to say what a start would find, a WAL has to be opened, and opening one cuts its torn tail. Mechanism: names
and contents that were changed are kept here, and everything else is read from below; a file is copied into memory when
it is first written to. What it does not do: give the memory back, or survive anything.
"""

import errno
from collections.abc import Sequence

from muster_coordinator.ports import Disk, File, FileIdentity


class _Content:
    """The bytes of one file: those below, or a copy once they differ."""

    def __init__(self, below: File | None) -> None:
        self._below = below
        """None once the bytes are in `_copy`."""
        self._copy = bytearray()
        self.changes = 0

    def own(self) -> bytearray:
        """The copy, to be changed."""
        self.changes += 1
        if self._below is not None:
            self._copy += self._below.pread(0, self._below.size())
            self.release()
        return self._copy

    def pread(self, offset: int, length: int) -> bytes:
        if self._below is not None:
            return self._below.pread(offset, length)
        return bytes(self._copy[offset : offset + length])

    def size(self) -> int:
        return len(self._copy) if self._below is None else self._below.size()

    def release(self) -> None:
        """Close the file below."""
        if self._below is not None:
            self._below.close()
            self._below = None


class _DryFile:
    """An open file."""

    def __init__(self, content: _Content) -> None:
        self._content = content

    def pread(self, offset: int, length: int) -> bytes:
        return self._content.pread(offset, length)

    def pwrite(self, offset: int, parts: Sequence[bytes | bytearray | memoryview]) -> int:
        data, own = b"".join(parts), self._content.own()
        if offset > len(own):
            own.extend(bytes(offset - len(own)))
        own[offset : offset + len(data)] = data
        return len(data)

    def truncate(self, size: int) -> None:
        own = self._content.own()
        del own[size:]
        own.extend(bytes(size - len(own)))

    def size(self) -> int:
        return self._content.size()

    def sync(self) -> None:
        """Nothing here outlives the process."""

    def close(self) -> None:
        """The file below stays open until `DryDisk.close`: another handle may share it."""


class DryDisk:
    """See the module."""

    def __init__(self, below: Disk) -> None:
        self._below = below
        self._names: dict[str, _Content | None] = {}
        """Paths that were opened or changed; None: removed."""
        self._folders: set[str] = set()
        self._contents: list[_Content] = []

    def close(self) -> None:
        """Close all files below."""
        for content in self._contents:
            content.release()

    def open(self, path: str, *, create: bool = False) -> File:
        content = self._names.get(path)
        if content is None:
            content = self._content(path, create)
            self._names[path] = content
            self._contents.append(content)
        return _DryFile(content)

    def _content(self, path: str, create: bool) -> _Content:
        if self.exists(path):
            return _Content(self._below.open(path))
        if not create or not self.exists(path.rpartition("/")[0]):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return _Content(None)

    def exists(self, path: str) -> bool:
        if path in self._names:
            return self._names[path] is not None
        return path in self._folders or self._below.exists(path)

    def identity(self, path: str) -> FileIdentity:
        content = self._names.get(path)
        if content is None and self.exists(path):
            return self._below.identity(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return FileIdentity(content.size(), content.changes, id(content))

    def listdir(self, path: str) -> list[str]:
        prefix = f"{path}/" if path else ""
        found = {name for name in self._below.listdir(path) if self.exists(prefix + name)}
        made = [name for name, content in self._names.items() if content is not None] + sorted(self._folders)
        return sorted(found | {name[len(prefix) :].split("/")[0] for name in made if name.startswith(prefix)})

    def mkdir(self, path: str, *, durable: bool = True) -> None:
        parts = path.split("/")
        self._folders.update("/".join(parts[: depth + 1]) for depth in range(len(parts)))

    def rename(self, source: str, target: str) -> None:
        self._name(source, target)
        self._names[source] = None

    def link(self, source: str, target: str) -> None:
        if self.exists(target):
            raise FileExistsError(errno.EEXIST, "there already", target)
        self._name(source, target)

    def _name(self, source: str, target: str) -> None:
        self.open(source)
        self._names[target] = self._names[source]

    def unlink(self, path: str) -> None:
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._names[path] = None

    def rmtree(self, path: str) -> None:
        for name in self.listdir(path):
            below = f"{path}/{name}"
            if self.listdir(below):
                self.rmtree(below)
            elif self.exists(below):
                self._names[below] = None
        self._folders.discard(path)

    def sync_dir(self, path: str) -> None:
        """Nothing here outlives the process."""

    def free_bytes(self) -> int:
        return self._below.free_bytes()
