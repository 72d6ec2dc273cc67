"""Making local files and names durable."""

import os
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Replace a file's content. It has the old content or the new one at any time, also after a power loss."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Make a file's content durable."""
    _sync(path)


def sync_folder(folder: Path) -> None:
    """Make names in it durable."""
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
