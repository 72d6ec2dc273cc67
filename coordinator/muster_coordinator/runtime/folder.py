"""One process per data folder: a lock that the kernel releases with the process, and a file with the process id."""

import contextlib
import fcntl
import os
from pathlib import Path

from muster_coordinator.errors import EnvironmentFault

LOCK_FILE = ".lock"


class FolderLock:
    """Held from construction to `release`, or to the end of the process however it ends."""

    def __init__(self, folder: Path) -> None:
        """Creates the folder. Raises `EnvironmentFault` when another process holds it, or it cannot be created."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EnvironmentFault(f"cannot use the data folder {folder}: {error}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise EnvironmentFault(f"the data folder {folder} is in use by another process") from error

    def release(self) -> None:
        os.close(self._descriptor)


class PidFile:
    """The process id in a file, for scripts that send signals. Written by a rename, so a reader never sees half of it.
    It is not a lock."""

    def __init__(self, path: Path) -> None:
        """Raises `EnvironmentFault` when it cannot be written."""
        self._path = path
        temporary = path.with_name(path.name + ".tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(f"{os.getpid()}\n")
            temporary.replace(path)
        except OSError as error:
            raise EnvironmentFault(f"cannot write {path}: {error}") from error

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
