"""One writer at a time, and the removal of files that no manifest names."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster_pipeline.store import manifest as manifests
from muster_pipeline.store.writer import DATA
from muster_pipeline.tables.errors import NothingPublished, TablesError


class StoreBusy(TablesError):
    """Another run writes into the same folder."""


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Hold the folder's writer lock. The kernel releases it when the process ends, even if killed. Raises StoreBusy."""
    root.mkdir(parents=True, exist_ok=True)
    handle = os.open(root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreBusy(f"another run writes into {root}") from error
        yield
    finally:
        os.close(handle)


def orphans(root: Path) -> list[Path]:
    """Files under `data/` that the manifest does not name: drafts of dead runs, and files of replaced tables."""
    try:
        named = {root / entry.path for entry in manifests.load(root).files}
    except NothingPublished:
        named = set()
    return sorted(path for path in (root / DATA).rglob("*") if path.is_file() and path not in named)


class Sweeper:
    """Removes orphans of a folder in use, each after it has been an orphan for `grace_s`.

    Until then a reader that opened an earlier manifest may still need it. The times are kept in memory: after a restart
    they begin again.
    """

    def __init__(self, root: Path, grace_s: float) -> None:
        self._root = root
        self._grace_s = grace_s
        self._since: dict[Path, float] = {}

    def sweep(self, now_s: float) -> int:
        """Remove orphans that are due; returns their number. `now_s`: a monotonic clock. Raises StoreBusy."""
        with writing(self._root):
            self._since = {path: self._since.get(path, now_s) for path in orphans(self._root)}
            due = [path for path, since in self._since.items() if now_s - since >= self._grace_s]
            for path in due:
                path.unlink()
        return len(due)


def prune(root: Path) -> int:
    """Remove all orphans; returns their number. Preconditions: the caller holds the lock, and no reader still uses an
    earlier manifest."""
    found = orphans(root)
    for path in found:
        path.unlink()
    return len(found)
