"""The file work of a WAL: the write job, the change to the next file, the spare that is zeroed ahead.

Problem: fdatasync of a growing file costs twice as much as of one written before, and zeroing 64 MiB at once would
block every commit meanwhile. Mechanism: a spare file is zeroed step by step, evenly over the first half of what goes
into the file in use: done as fast as it can be, it took the disk and a processor from all commits for a tenth of a
second where a file began, on all replicas at once. The next file becomes visible only once its header and first batch
are durable: they are written and synced under the spare's name, the file is renamed, the folder synced; then the old
file is sealed. Everything here runs in the WAL's queue, one job at a time. An OSError while writing is fatal
(StorageFailed, never a second fsync). The one exception is "no space" for the spare: the batch itself is durable then.
"""

import errno
from collections.abc import Sequence
from typing import NamedTuple

from muster_coordinator.errors import StorageFailed, no_space
from muster_coordinator.limits import MIB
from muster_coordinator.ports import Disk, File
from muster_coordinator.storage.limits import WAL_SPARE_STEP_BYTES
from muster_coordinator.storage.wal_proof import Proof

SPARE_NAME = "spare.tmp"
_LEAD = 2
"""The spare grows so many times as fast as the file in use."""
_STEPS_MIN = 16
"""Of a small file a step is not more than this part."""
_ZEROS = memoryview(bytes(MIB))


class Spare:
    """The next file, zeroed step by step. Used by jobs only."""

    def __init__(self, disk: Disk, folder: str, file_bytes: int) -> None:
        self._disk = disk
        self._path = f"{folder}/{SPARE_NAME}"
        self._file_bytes = file_bytes
        self._step_bytes = min(WAL_SPARE_STEP_BYTES, max(1, file_bytes // _STEPS_MIN))
        self._file: File | None = None
        self._zeroed = 0
        self._begun_at: int | None = None
        """Where the file in use ended when this spare's turn came; None before."""

    def keep_ahead(self, end: int, batch_bytes: int) -> None:
        """The file in use ends at `end`, after a batch of `batch_bytes`: zero what the spare lacks to be complete when
        half of the room that was left is used, once that is worth a sync. A large batch is followed by as much as it
        needs, any other by a MiB at most."""
        if self._begun_at is None:
            self._begun_at = max(0, end - batch_bytes)
        room = max(1, self._file_bytes - self._begun_at)
        goal = min(self._file_bytes, self._file_bytes * _LEAD * (end - self._begun_at) // room)
        lacks = goal - self._zeroed
        if lacks >= self._step_bytes or (goal == self._file_bytes and lacks > 0):
            self.step(min(lacks, max(MIB, _LEAD * batch_bytes)))

    def step(self, budget_bytes: int) -> None:
        """Zero and sync up to `budget_bytes` more. When the disk is full: remove the spare; the next step begins it
        again."""
        if self._zeroed >= self._file_bytes:
            return
        try:
            self._zero(budget_bytes)
        except OSError as error:
            if not no_space(error):
                raise
            self.discard()

    @property
    def whole(self) -> bool:
        """Zeroed to its end: a rotation then needs no more disk space."""
        return self._zeroed >= self._file_bytes

    def take(self) -> tuple[str, File]:
        """The complete spare, its rest zeroed now if need be; the next step begins another."""
        file = self._file
        if file is None or self._zeroed < self._file_bytes:
            file = self._zero(self._file_bytes)
        self._file, self._zeroed, self._begun_at = None, 0, None
        return self._path, file

    def discard(self) -> None:
        """Close and remove the spare, also one that a crash left."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._zeroed, self._begun_at = 0, None
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)

    def _zero(self, budget_bytes: int) -> File:
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self._path, create=True)
        stop = min(self._file_bytes, self._zeroed + budget_bytes)
        while self._zeroed < stop:
            count = min(len(_ZEROS), stop - self._zeroed)
            file.pwrite(self._zeroed, (_ZEROS[:count],))
            self._zeroed += count
        file.sync()
        return file


class Rotation(NamedTuple):
    """The job's batch begins a new file."""

    path: str
    seal: bytes
    """Written to the old file once the new one is visible."""
    seal_position: int


class WriteJob:
    """Writes one batch. Made on the loop, run in the WAL's queue; the loop reads `opened` when the job is done."""

    __slots__ = (
        "_batch",
        "_chain",
        "_data",
        "_delete",
        "_disk",
        "_file",
        "_folder",
        "_position",
        "_proof",
        "_rotation",
        "_spare",
        "opened",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        spare: Spare,
        *,
        file: File,
        position: int,
        data: bytes,
        rotation: Rotation | None,
        delete: Sequence[str],
        proof: Proof,
        batch: int,
        chain: int,
    ) -> None:
        """`data` goes to `position` of `file`, or with `rotation` to the start of the new file, header included."""
        self._disk = disk
        self._folder = folder
        self._spare = spare
        self._file = file
        self._position = position
        self._data = data
        self._rotation = rotation
        self._delete = delete
        self._proof = proof
        self._batch = batch
        self._chain = chain
        self.opened: File | None = None

    def __call__(self) -> None:
        try:
            size = end = len(self._data)
            if self._rotation is None:
                _write(self._file, self._position, self._data)
                self._file.sync()
                end += self._position
            else:
                self.opened = self._begin_file(self._rotation)
            self._proof.note(self._batch, self._chain)
            self._spare.keep_ahead(end, size)
            for path in self._delete:
                self._disk.unlink(path)
                self._disk.sync_dir(self._folder)  # one by one: a gap between files is corruption
        except OSError as error:
            raise StorageFailed(f"WAL {self._folder}: {error}") from error

    def _begin_file(self, rotation: Rotation) -> File:
        spare_path, file = self._spare.take()
        _write(file, 0, self._data)
        file.sync()
        self._disk.rename(spare_path, rotation.path)
        self._disk.sync_dir(self._folder)
        _write(self._file, rotation.seal_position, rotation.seal)
        self._file.sync()
        return file


def create_first(disk: Disk, spare: Spare, folder: str, path: str, data: bytes) -> File:
    """Create the WAL's first file: with `data`, durable under its name."""
    try:
        spare_path, file = spare.take()
        _write(file, 0, data)
        file.sync()
        disk.rename(spare_path, path)
        disk.sync_dir(folder)
    except OSError as error:
        raise StorageFailed(f"WAL {folder}: {error}") from error
    return file


def _write(file: File, position: int, data: bytes) -> None:
    written = file.pwrite(position, (data,))
    if written != len(data):
        raise OSError(errno.EIO, f"{written} of {len(data)} bytes written")
