"""One partition's batches as segment files: appended at apply, flushed lazily, read by everybody (decision 2).

Problem: consumers, tools, snapshot install and history all read batches by offset, for days, while recovery needs only
the WAL. Mechanism: segments in Kafka's format under one folder. A flush job makes everything applied so far durable
and yields the `RecoveryPoint` that is then written to the WAL. After a start the log is cut at that recovery point and
the WAL is replayed from there, so what a crash did to younger bytes does not matter. A new segment begins by a pure
function of applied bytes and record timestamps; sealed segments are therefore equal byte by byte on all replicas. What
it deliberately does not do: check batches (the WAL did), truncate after opening (only applied entries come here),
decide retention, or hold anything that the loop must wait long for: what syncs or walks files is a job.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from muster_coordinator.errors import Corruption, DiskFull, SegmentDamaged, StorageFailed, no_space
from muster_coordinator.limits import SEGMENT_BYTES, SEGMENT_MS
from muster_coordinator.ports import Disk
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveryPoint
from muster_coordinator.storage.epochs import EpochTable
from muster_coordinator.storage.flush import FlushJob
from muster_coordinator.storage.limits import SEGMENTS_LOADED_MAX, SIDECARS_LEFT_OUT_MAX
from muster_coordinator.storage.log_opening import open_segments
from muster_coordinator.storage.lookup import SegmentSource, TimedOffset, max_timestamp_job, offset_by_time_job
from muster_coordinator.storage.segment import Segment, SegmentSummary
from muster_coordinator.storage.segment_index import NO_TIMESTAMP, SegmentIndex, sidecar_name
from muster_coordinator.topics.machine import RetentionView

_BATCH = struct.Struct(">qiibIhiqq")
"""A batch header up to maxTimestamp."""
_SEGMENT_OFFSETS_MAX = 2**31 - 1


class Growing(NamedTuple):
    """The first `size` bytes of the segment that is appended to, whole batches of applied entries, and the epochs of
    all batches: (epoch, first offset) as they change."""

    size: int
    epochs: tuple[tuple[int, int], ...]


class PartitionLog:
    """The batches [log_start_offset, next_offset) of one partition. Made by `open` or `begin`."""

    def __init__(
        self, disk: Disk, folder: str, segments: list[Segment], *, log_start_offset: int, roll: tuple[int, int]
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._segments = segments
        self._bases = [segment.base for segment in segments]
        self._roll_bytes, self._roll_ms = roll
        self._epochs = EpochTable()
        for segment in segments:
            for epoch, start in segment.index.epochs:
                self._epochs.note(epoch, start)
        self.log_start_offset = segments[0].base
        """Smallest offset that may be read."""
        self.next_offset = segments[-1].index.next_offset
        """Offset that the next batch gets."""
        self._loaded: list[Segment] = []
        """Sealed segments with an index in memory, least recently used first."""
        self._dirty: list[Segment] = []
        """Sealed since the last flush; synced even below the log start, because a start walks over what still lies
        there."""
        self._garbage: list[Segment] = []
        """Below the log start since the last flush: its recovery point may lie in them."""
        self._condemned: list[Segment] = []
        """Below the log start at the last flush: removed by the next flush job."""
        self._new_names = True
        self._new_folder = False
        """The name of the folder itself may not be durable: no recovery point has rested on it yet."""
        self._unflushed_bytes = 0
        self._flushing = False
        self._left_out: dict[str, bytes] = {}
        """Sidecars that the disk had no space for."""
        for segment in segments[:-1]:
            segment.unload()
        self.advance_start(log_start_offset)
        # the recovery point that was opened at lies in the last segment
        self._condemned, self._garbage = self._garbage, []

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        recovery_point: RecoveryPoint,
        log_start_offset: int,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_ms: int = SEGMENT_MS,
    ) -> "PartitionLog":
        """Cut the folder's segments at `recovery_point` and go on from there. Blocking: walks headers where sidecars
        are missing.

        With NO_RECOVERY_POINT everything is dropped. A recovery point of an empty segment that does not exist (position
        0) begins it: so a log starts at an installed checkpoint. Corruption: less is there than the recovery point
        promises.
        """
        try:
            segments = open_segments(disk, folder, recovery_point)
        except OSError as error:
            raise StorageFailed(f"log {folder}: {error}") from error
        epochs = [epoch for segment in segments for epoch, _ in segment.index.epochs]
        if epochs != sorted(epochs):  # no batch's CRC covers its epoch
            raise Corruption(f"log {folder}: leader epochs fall along it: {epochs[:20]}")
        log = cls(disk, folder, segments, log_start_offset=log_start_offset, roll=(segment_bytes, segment_ms))
        log._new_folder = recovery_point == NO_RECOVERY_POINT
        return log

    @classmethod
    def begin(cls, disk: Disk, folder: str) -> "PartitionLog":
        """What `open` with NO_RECOVERY_POINT gives in a folder that was made just now: there is nothing to look for."""
        segment = Segment(disk, folder, SegmentSummary(0, 0, 0, NO_TIMESTAMP), SegmentIndex(0))
        try:
            segment.create()
            segment.close()
        except OSError as error:
            raise StorageFailed(f"log {folder}: {error}") from error
        log = cls(disk, folder, [segment], log_start_offset=0, roll=(SEGMENT_BYTES, SEGMENT_MS))
        log._new_folder = True
        return log

    @classmethod
    def absent(cls, disk: Disk, folder: str) -> "PartitionLog":
        """Stands for a log whose files cannot be used: it reads none and is neither appended to nor flushed."""
        segment = Segment(disk, folder, SegmentSummary(0, 0, 0, NO_TIMESTAMP), SegmentIndex(0))
        return cls(disk, folder, [segment], log_start_offset=0, roll=(SEGMENT_BYTES, SEGMENT_MS))

    def close(self) -> None:
        """Close files; what was not flushed is in the WAL. No flush may be in flight."""
        assert not self._flushing
        for segment in (*self._segments, *self._garbage, *self._condemned):
            segment.close()

    # Applying.

    def set_roll(self, segment_bytes: int, segment_ms: int) -> None:
        """Of batches from now on. Rolling must happen at the same batch on every replica: what comes here is what the
        applied log said, or a checkpoint of it."""
        self._roll_bytes, self._roll_ms = segment_bytes, segment_ms

    def append(self, batch: bytes) -> None:
        """One stamped batch; its base offset is `next_offset`, its epoch the term. Into memory or the page cache.

        DiskFull: what came before it could not be written, so it was not taken; nothing has changed."""
        base, length, epoch, _magic, _crc, _attributes, delta, _base_ms, max_ms = _BATCH.unpack_from(batch)
        assert base == self.next_offset, f"batch at {base}, expected {self.next_offset}"
        assert length + 12 == len(batch)
        next_offset = base + delta + 1
        if self._segments[-1].crowded:
            self.write_out()
        if self._rolls(len(batch), next_offset, max_ms):
            self._roll()
        self._epochs.note(epoch, base)
        self._segments[-1].append(batch, next_offset, epoch, max_ms)
        self.next_offset = next_offset
        self._unflushed_bytes += len(batch)
        if self._segments[-1].crowded:
            with suppress(DiskFull):  # the next batch meets it
                self.write_out()

    def write_out(self) -> None:
        """Appended batches become visible to readers of the files; once a turn is enough. DiskFull: they stay in
        memory."""
        try:
            self._segments[-1].write_out()
        except OSError as error:
            raise StorageFailed(f"log {self._folder}: {error}") from error

    def advance_start(self, offset: int) -> None:
        """The log start moves to `offset` (never back); whole segments below it go with the next flush."""
        if offset <= self.log_start_offset:
            return
        assert offset <= self.next_offset, f"log start {offset} above {self.next_offset}"
        self.log_start_offset = offset
        self._epochs.advance_start(offset)
        gone = bisect_right(self._bases, offset) - 1
        if gone > 0:
            dropped = self._segments[:gone]
            del self._segments[:gone], self._bases[:gone]
            self._garbage += dropped
            self._loaded = [segment for segment in self._loaded if segment not in dropped]

    # Reading.

    def read(self, offset: int, max_bytes: int, whole_first_batch: bool) -> bytes:
        """Whole batches from the one that holds `offset`, of one segment; b"" at the log's end.

        At most `max_bytes`, but the first batch whole if `whole_first_batch` (KIP-74). `offset` must lie in
        [log_start_offset, next_offset]. The page cache usually has the bytes. Corruption when they are not what was
        written, or cannot be read: no promise hangs on that.
        """
        assert self.log_start_offset <= offset <= self.next_offset, f"{offset} outside the log"
        if offset == self.next_offset:
            return b""
        segment = self._segments[bisect_right(self._bases, offset) - 1]
        if segment is self._segments[-1]:
            with suppress(DiskFull):
                self.write_out()
        try:
            data = segment.read(offset, max_bytes, whole_first_batch=whole_first_batch)
        except (OSError, Corruption) as error:
            raise SegmentDamaged(segment.base, f"log {self._folder}: {error}") from error
        if segment is not self._segments[-1]:
            self._touch(segment)
        return data

    def latest_epoch(self) -> int:
        """Epoch of the last batch; -1 for none."""
        return self._epochs.latest()

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers (see `EpochTable.end_of`)."""
        return self._epochs.end_of(epoch, self.next_offset)

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 when unknown."""
        return self._epochs.of(offset)

    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset), ascending: part of a checkpoint."""
        return self._epochs.pairs()

    def offset_by_time(self, timestamp_ms: int) -> Callable[[], TimedOffset | None]:
        """Job: the first record in offset order, from the log start, with this timestamp or a later one. DiskFull, from
        here: the files do not hold everything yet."""
        return offset_by_time_job(self._disk, self._sources(), self.log_start_offset, timestamp_ms)

    def max_timestamp(self) -> Callable[[], TimedOffset | None]:
        """Job: the record with the largest timestamp, the first of equals; None for a log without timestamps. DiskFull
        as above."""
        return max_timestamp_job(self._disk, self._sources())

    def views(self) -> tuple[RetentionView, ...]:
        """The sealed segments, oldest first, as retention judges them."""
        return tuple(
            RetentionView(s.base, s.next_offset, s.size, s.max_timestamp_ms)
            for s in (segment.summary for segment in self._segments[:-1])
        )

    def sealed(self) -> tuple[SegmentSummary, ...]:
        """Segments that do not change any more and whose bytes a flush has made durable, oldest first."""
        return tuple(segment.summary for segment in self._segments[:-1] if segment not in self._dirty)

    def sealed_at(self, base: int) -> SegmentSummary | None:
        """The one of `sealed` that begins there."""
        segment = self._segment(base)
        if segment is None or segment is self._segments[-1] or segment in self._dirty:
            return None
        return segment.summary

    def holds(self, base: int) -> bool:
        """Is there a segment that begins there, sealed or not?"""
        return self._segment(base) is not None

    def replaced(self, base: int) -> None:
        """The file of a sealed segment was replaced by a copy; readers check it anew."""
        segment = self._segment(base)
        assert segment is not None
        assert segment is not self._segments[-1]
        segment.replaced()

    def _segment(self, base: int) -> Segment | None:
        at = bisect_right(self._bases, base) - 1
        return self._segments[at] if at >= 0 and self._bases[at] == base else None

    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.summary.size for segment in self._segments[:-1]) + self._segments[-1].index.size

    def files(self) -> tuple[tuple[str, int], ...]:
        """(path, bytes) of every segment up to `next_offset`, for snapshot install; sealed ones never change."""
        with suppress(DiskFull):  # what cannot be written yet lies behind every recovery point
            self.write_out()
        return tuple((segment.path, segment.written) for segment in self._segments)

    def growing(self) -> tuple[int, Growing]:
        """The base of the segment that is appended to, and what of it lies in its file."""
        with suppress(DiskFull):
            self.write_out()
        active = self._segments[-1]
        return active.base, Growing(active.written, tuple(active.index.epochs))

    def reaches_back_to(self, recovery_point: RecoveryPoint) -> bool:
        """Is the segment that `recovery_point` lies in still there? False once the log start has passed it."""
        return self._bases[0] <= recovery_point.segment

    # Flushing.

    def unflushed_bytes(self) -> int:
        """Appended since the last flush job was taken."""
        return self._unflushed_bytes

    @property
    def holds_garbage(self) -> bool:
        """Are there files that further flushes would remove?"""
        return bool(self._garbage or self._condemned)

    def flush_job(self, applied: int) -> FlushJob:
        """Job: sync all that is appended, up to Raft index `applied`; its `recovery_point` is valid once it returned.

        Then call `flush_done` on the loop and stage the recovery point. One at a time. The job raises StorageFailed:
        the process ends. DiskFull, from here: there is nothing to flush for now.
        """
        assert not self._flushing
        self.write_out()
        self._flushing = True
        active = self._segments[-1]
        dirty, self._dirty = self._dirty, []
        garbage, self._condemned, self._garbage = self._condemned, self._garbage, []
        recovery_point = RecoveryPoint(applied, self.next_offset, active.base, active.written)
        sidecars = {
            f"{self._folder}/{sidecar_name(segment.base)}": segment.index.encode() for segment in (*dirty, active)
        }
        left, self._left_out = self._left_out, {}
        for path, data in left.items():
            if path not in sidecars and int(path[-25:-5]) in self._bases:
                sidecars[path] = data
        job = FlushJob(
            self._disk,
            self._folder,
            recovery_point,
            files=tuple(segment.file() for segment in (*dirty, active)),
            sidecars=tuple(sidecars.items()),
            new_names=self._new_names,
            new_folder=self._new_folder,
            remove=tuple(segment.base for segment in garbage),
        )
        for segment in garbage:
            segment.close()
        self._new_names = self._new_folder = False
        self._unflushed_bytes = 0
        return job

    def flush_done(self) -> None:
        """The job of `flush_job` returned."""
        assert self._flushing
        self._flushing = False

    def left_out(self, sidecars: list[tuple[str, bytes]]) -> None:
        """The job did without these: the next flush tries them again, the newest `SIDECARS_LEFT_OUT_MAX` of them. A
        start reads the segments of the others."""
        self._left_out = dict(sidecars[-SIDECARS_LEFT_OUT_MAX:])

    # Within.

    def _rolls(self, size: int, next_offset: int, max_timestamp_ms: int) -> bool:
        """Before this batch a new segment begins. Pure in what was applied: no clock, no file time."""
        index = self._segments[-1].index
        if index.size == 0:
            return False
        first_ms = index.first_timestamp_ms
        return (
            index.size + size > self._roll_bytes
            or (first_ms != NO_TIMESTAMP and max_timestamp_ms - first_ms > self._roll_ms)
            or next_offset - 1 - index.base > _SEGMENT_OFFSETS_MAX
        )

    def _roll(self) -> None:
        """DiskFull: nothing has changed."""
        self.write_out()
        base = self.next_offset
        segment = Segment(self._disk, self._folder, SegmentSummary(base, base, 0, NO_TIMESTAMP), SegmentIndex(base))
        try:
            segment.create()
        except OSError as error:
            if no_space(error):
                raise DiskFull(f"log {self._folder}: {error}") from error
            raise StorageFailed(f"log {self._folder}: {error}") from error
        last = self._segments[-1]
        last.seal()
        self._dirty.append(last)
        self._touch(last)
        self._new_names = True
        self._segments.append(segment)
        self._bases.append(base)

    def _touch(self, segment: Segment) -> None:
        """Keep the index and the file of the sealed segments that were read last; unload others that are flushed."""
        if segment in self._loaded:
            self._loaded.remove(segment)
        self._loaded.append(segment)
        if len(self._loaded) > SEGMENTS_LOADED_MAX and not self._flushing:
            for old in self._loaded[:-SEGMENTS_LOADED_MAX]:
                if old not in self._dirty:
                    self._loaded.remove(old)
                    old.unload()

    def _sources(self) -> tuple[SegmentSource, ...]:
        self.write_out()
        active = self._segments[-1]
        sealed = (SegmentSource(s.path, s.summary, s.index if s.loaded else None) for s in self._segments[:-1])
        index = active.index
        summary = SegmentSummary(index.base, index.next_offset, index.size, index.max_timestamp_ms)
        return (*sealed, SegmentSource(active.path, summary, index))
