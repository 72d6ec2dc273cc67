"""One segment file of a partition: batches back to back, nothing else, in Kafka's `.log` format.

Problem: tools read these files while the replica writes them. Mechanism: only whole batches are written, at the end,
with no padding, and a sealed file never changes. Appended batches gather in memory until SEGMENT_WRITE_BYTES or until
a reader comes, then go to the page cache with one write. When the disk is full they stay in memory, and readers see the
log end before them; the next write goes to the same position, so it overwrites what a refused write left. It does not
make batches durable: the log's flush job does.
"""

import struct
from contextlib import suppress
from typing import NamedTuple

from muster_coordinator.errors import Corruption, DiskFull, no_space
from muster_coordinator.ports import Disk, File
from muster_coordinator.records.batch import HEADER_BYTES, LOG_OVERHEAD
from muster_coordinator.storage.limits import SEGMENT_INDEX_INTERVAL_BYTES
from muster_coordinator.storage.segment_index import Position, SegmentIndex, read_sidecar, scan, segment_name
from muster_coordinator.storage.soundness import Soundness

_PLACE = struct.Struct(">qi")
_DELTA_AT = 23
_DELTA = struct.Struct(">i")


class SegmentSummary(NamedTuple):
    """What stays in memory of a sealed segment whose index is not loaded."""

    base: int
    next_offset: int
    size: int
    max_timestamp_ms: int


class Segment:
    """One file. The log's last segment is active (appended to); all others are sealed."""

    __slots__ = (
        "_disk",
        "_file",
        "_folder",
        "_index",
        "_soundness",
        "_unwritten",
        "_unwritten_from",
        "summary",
        "unwritten_bytes",
        "written",
    )  # fmt: skip

    def __init__(self, disk: Disk, folder: str, summary: SegmentSummary, index: SegmentIndex | None) -> None:
        self._disk = disk
        self._folder = folder
        self._file: File | None = None
        self._index = index
        self._unwritten: list[bytes] = []
        self.unwritten_bytes = 0
        """In memory only. From SEGMENT_WRITE_BYTES on: write them out before more is appended."""
        self._unwritten_from = summary.next_offset
        """Offset of the first batch in `_unwritten`; without meaning while that is empty."""
        self.summary = summary
        """Valid once the segment is sealed; before, see `index`, which changes with every batch."""
        self.written = summary.size
        """Bytes in the page cache or on disk. Invariant: written + unwritten_bytes == index.size."""
        self._soundness = Soundness(summary.size)

    @property
    def base(self) -> int:
        return self.summary.base

    @property
    def path(self) -> str:
        return f"{self._folder}/{segment_name(self.base)}"

    @property
    def index(self) -> SegmentIndex:
        """Loaded from the sidecar, or by walking the file, at first use."""
        if self._index is None:
            self._index = load_index(self._disk, self._folder, self.summary)
        return self._index

    @property
    def loaded(self) -> bool:
        return self._index is not None

    def unload(self) -> None:
        """Release index and file of a sealed segment; the next reader loads them again."""
        assert not self._unwritten
        self._index = None
        self.close()

    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    def create(self) -> None:
        """Make the file; the name is durable after the next sync of the folder."""
        self._file = self._disk.open(self.path, create=True)

    def append(self, batch: bytes, next_offset: int, epoch: int, max_timestamp_ms: int, attributes: int) -> None:
        """Add one batch at the end, in memory."""
        index = self.index
        if not self._unwritten:
            self._unwritten_from = index.next_offset
        index.note(len(batch), next_offset, epoch, max_timestamp_ms, attributes)
        self._unwritten.append(batch)
        self.unwritten_bytes += len(batch)

    def write_out(self) -> None:
        """Write everything appended to the page cache. DiskFull: it stays in memory."""
        if not self._unwritten:
            return
        data = b"".join(self._unwritten)
        try:
            count = self.file().pwrite(self.written, (data,))
        except OSError as error:
            if no_space(error):
                raise DiskFull(f"segment {self.path}: {error}") from error
            raise
        assert count == len(data)
        self.written += count
        self._unwritten.clear()
        self.unwritten_bytes = 0

    def seal(self) -> None:
        """Fix `summary`: no more batches are appended."""
        self.write_out()
        index = self.index
        self.summary = SegmentSummary(index.base, index.next_offset, index.size, index.max_timestamp_ms)

    def read(self, offset: int, max_bytes: int, *, whole_first_batch: bool) -> bytes:
        """Whole batches from the one that holds `offset`, at most `max_bytes`; maybe more for the first one.

        Raises Corruption when they are not what was written. Ranges that this process has not checked yet are read in
        smaller portions (UNCHECKED_READ_BYTES). b"" for batches that are in memory only because the disk is full.
        """
        with suppress(DiskFull):
            self.write_out()
        if self._unwritten and offset >= self._unwritten_from:
            return b""
        index = self.index
        size = self.written
        file = self.file()
        known = index.before(offset)
        head = file.pread(known.position, min(SEGMENT_INDEX_INTERVAL_BYTES + HEADER_BYTES, size - known.position))
        start, length, base = _find(file, head, known, offset, self.path)
        if start + length > size:
            raise Corruption(f"segment {self.path}: the batch at {start} ends after {size}")
        if length > max_bytes:
            if not whole_first_batch:
                return b""
            max_bytes = length
        max_bytes = max(length, min(max_bytes, self._soundness.portion(start)))
        stop = min(start + max_bytes, size)
        if stop < size:
            # End with a whole batch: walk only from the last known batch position before the bound.
            begin = max(index.last_up_to(stop), start)
            stop = _last_end(file, begin, stop)
        data = file.pread(start, stop - start)
        if len(data) != stop - start:
            raise Corruption(f"segment {self.path}: it ends at {start + len(data)}, before {stop}")
        self._soundness.check(data, start, base, index, self.path)
        return data

    def replaced(self) -> None:
        """The file of this sealed segment was replaced: forget its index and what was checked of it."""
        self.unload()
        self._soundness = Soundness(self.summary.size)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def load_index(disk: Disk, folder: str, summary: SegmentSummary) -> SegmentIndex:
    """The index of a segment's first `summary.size` bytes."""
    index = read_sidecar(disk, folder, summary.base)
    if index is None or index.size > summary.size:
        index = SegmentIndex(summary.base)
    if index.size < summary.size:
        name = segment_name(summary.base)
        file = disk.open(f"{folder}/{name}")
        try:
            scan(file, index, summary.size, name)
        finally:
            file.close()
    return index


def _find(file: File, head: bytes, known: Position, offset: int, name: str) -> tuple[int, int, int]:
    """(position, length, base offset) of the batch that holds `offset`. Walks batch by batch from `known`; `head` holds
    the first bytes from there."""
    expected, low = known
    position, end = low, low + len(head)
    while True:
        if position + HEADER_BYTES > end:
            head, low = file.pread(position, SEGMENT_INDEX_INTERVAL_BYTES), position
            end = low + len(head)
        at = position - low
        if at + HEADER_BYTES > len(head):
            raise Corruption(f"segment {name}: no batch at {position}, where offset {offset} should follow")
        base, length = _PLACE.unpack_from(head, at)
        (delta,) = _DELTA.unpack_from(head, at + _DELTA_AT)
        if length + LOG_OVERHEAD < HEADER_BYTES or base != expected or base > offset or delta < 0:
            raise Corruption(f"segment {name}: no batch of offset {expected} at {position}, on the way to {offset}")
        if offset <= base + delta:
            return position, length + LOG_OVERHEAD, base
        position += length + LOG_OVERHEAD
        expected = base + delta + 1


def _last_end(file: File, begin: int, stop: int) -> int:
    """The largest end of a batch at or below `stop`; `begin` is the position of a batch."""
    data = file.pread(begin, stop - begin)
    at, limit = 0, len(data)
    while limit - at >= LOG_OVERHEAD:
        length: int = _PLACE.unpack_from(data, at)[1]
        if not HEADER_BYTES <= length + LOG_OVERHEAD <= limit - at:
            break
        at += length + LOG_OVERHEAD
    return begin + at
