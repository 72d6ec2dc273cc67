"""The job that makes a partition's appended batches durable, and the recovery point that holds once it has returned.

Order (docs/format.md, "Flush"): write the sidecars (never synced: they are derived), sync the segment files, sync the
folder when it has new names, and sync its parent folder before the first recovery point. Only then may the recovery
point go to the WAL. Deleted segments are unlinked last, one after the other, and only those that the recovery point of
the previous flush does not need: until the new recovery point is durable, a start needs the segment that the old one
names. A crash in between leaves files below the log start, which the next start removes.
"""

from muster_coordinator.errors import StorageFailed, no_space
from muster_coordinator.ports import Disk, File
from muster_coordinator.storage.aborted import txnindex_name
from muster_coordinator.storage.contract import RecoveryPoint
from muster_coordinator.storage.segment_index import segment_name, sidecar_name


class FlushJob:
    """Called once, in the flush queue."""

    __slots__ = (
        "_disk",
        "_files",
        "_folder",
        "_new_folder",
        "_new_names",
        "_remove",
        "_sidecars",
        "recovery_point",
        "without",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        recovery_point: RecoveryPoint,
        *,
        files: tuple[File, ...],
        sidecars: tuple[tuple[str, bytes], ...],
        new_names: bool,
        new_folder: bool,
        remove: tuple[int, ...],
    ) -> None:
        self._disk = disk
        self._folder = folder
        self.recovery_point = recovery_point
        """Valid once the job returned."""
        self._files = files
        self._sidecars = sidecars
        self._new_names = new_names
        self._new_folder = new_folder
        self._remove = remove
        self.without: list[tuple[str, bytes]] = []
        """Sidecars that were not written because the disk was full; valid once the job returned."""

    def __call__(self) -> None:
        try:
            for path, data in self._sidecars:
                self._write_sidecar(path, data)
            for file in self._files:
                file.sync()
            if self._new_names:
                self._disk.sync_dir(self._folder)
            if self._new_folder:
                self._disk.sync_dir(self._folder.rpartition("/")[0])
            for base in self._remove:
                for name in (sidecar_name(base), txnindex_name(base), segment_name(base)):
                    if self._disk.exists(f"{self._folder}/{name}"):
                        self._disk.unlink(f"{self._folder}/{name}")
                self._disk.sync_dir(self._folder)  # Oldest first, so that a crash leaves no gap between segments.
        except OSError as error:
            raise StorageFailed(f"log {self._folder}: {error}") from error

    def _write_sidecar(self, path: str, data: bytes) -> None:
        """A sidecar that was written in part fails its CRC: a start then reads the segment instead."""
        try:
            sidecar = self._disk.open(path, create=True)
            try:
                sidecar.truncate(0)
                sidecar.pwrite(0, (data,))
            finally:
                sidecar.close()
        except OSError as error:
            if not no_space(error):
                raise
            self.without.append((path, data))


class SyncJob:
    """Called once, in the flush queue: sync one file between two flushes."""

    __slots__ = ("_file", "_folder")

    def __init__(self, folder: str, file: File) -> None:
        self._folder = folder
        self._file = file

    def __call__(self) -> None:
        try:
            self._file.sync()
        except OSError as error:
            raise StorageFailed(f"log {self._folder}: {error}") from error
