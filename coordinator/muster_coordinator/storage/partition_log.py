"""One partition's batches as segment files: appended at apply, flushed lazily, read by all readers (decision 2).

Problem: consumers, tools, snapshot install and history all read batches by offset, for days, while recovery needs only
the WAL. Mechanism: segments in Kafka's format under one folder. A flush job makes everything applied so far durable
and yields the `RecoveryPoint` that is then written to the WAL. After a start the log is cut at that recovery point and
the WAL is replayed from there, so a crash may damage any byte after it. When a segment rolls is a pure function of
applied bytes and record timestamps; sealed segments are therefore equal byte by byte on all replicas. What it
deliberately does not do: check batches (the WAL did), truncate after opening (only applied entries come here), decide
retention, or block the loop: whatever syncs or walks files is a job.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from muster_coordinator.errors import Corruption, DiskFull, SegmentDamaged, StorageFailed, no_space
from muster_coordinator.limits import SEGMENT_BYTES, SEGMENT_MS
from muster_coordinator.ports import Disk
from muster_coordinator.storage import cleaned
from muster_coordinator.storage.aborted import Aborted, AbortedLists, is_transactional, txnindex_name
from muster_coordinator.storage.cleaning import CleanedSegments, rename
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveryPoint
from muster_coordinator.storage.epochs import EpochTable
from muster_coordinator.storage.flush import FlushJob, SyncJob
from muster_coordinator.storage.limits import SEGMENT_WRITE_BYTES, SEGMENTS_LOADED_MAX, SIDECARS_LEFT_OUT_MAX
from muster_coordinator.storage.log_opening import open_segments
from muster_coordinator.storage.lookup import SegmentSource, TimedOffset, max_timestamp_job, offset_by_time_job
from muster_coordinator.storage.segment import Segment, SegmentSummary
from muster_coordinator.storage.segment_index import NO_TIMESTAMP, SegmentIndex, sidecar_name
from muster_coordinator.storage.transaction_index import TransactionIndex
from muster_coordinator.topics.machine import RetentionView

_BATCH = struct.Struct(">qiibIhiqq")
"""A batch header up to maxTimestamp."""
_SEGMENT_OFFSETS_MAX = 2**31 - 1


class Growing(NamedTuple):
    """The active segment: its first `size` bytes, which are whole batches of applied entries, and its epochs as
    (epoch, first offset) pairs."""

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
        """Smallest offset that may be read. Invariant: log_start_offset <= next_offset."""
        self.next_offset = segments[-1].index.next_offset
        """Offset that the next batch gets."""
        self._loaded: list[Segment] = []
        """Sealed segments with an index in memory, least recently used first."""
        self._dirty: list[Segment] = []
        """Sealed since the last flush; synced even below the log start, because a start reads every segment that still
        exists."""
        self._garbage: list[Segment] = []
        """Fell below the log start since the last flush; that flush's recovery point may lie in one of them."""
        self._condemned: list[Segment] = []
        """Were below the log start at the last flush: the next flush job removes them."""
        self._new_names = True
        self._new_folder = False
        """The folder's own name may not be durable: no recovery point relies on it yet."""
        self._unflushed_bytes = 0
        self._unsynced_bytes = 0
        self._flushing = False
        self.cleaned = cleaned.NOTHING
        """What is cleaned; kept by whoever cleans."""
        self.durable_segment = segments[-1].base
        """The segment of the newest recovery point that is durable: a start needs it, and none before it. The flush's
        caller keeps it."""
        self.generation = 0
        """Changes when cleaned segments are put in place: what was learnt of older ones no longer holds."""
        self._left_out: dict[str, bytes] = {}
        """Path -> content of sidecars that were not written because the disk was full, or were made again."""
        self._transactions = TransactionIndex(disk, folder, segments)
        again = self._transactions.unwritten()[-SIDECARS_LEFT_OUT_MAX:]
        self._left_out |= {self._sidecar(s): s.index.encode() for s in segments[:-1] if s.base in again}
        for segment in segments[:-1]:
            segment.unload()
        self.advance_start(log_start_offset)
        # The recovery point that the log was opened at lies in the last segment, so no start needs these any more.
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
        """Cut the folder's segments at `recovery_point` and continue there. Blocking: walks headers where sidecars are
        missing.

        With NO_RECOVERY_POINT all segments are dropped. A recovery point at position 0 of a segment that does not exist
        creates it: that is how a log starts at an installed checkpoint. Raises Corruption when bytes before the
        recovery point are missing or do not add up.
        """
        try:
            segments = open_segments(disk, folder, recovery_point)
        except OSError as error:
            raise StorageFailed(f"log {folder}: {error}") from error
        epochs = [epoch for segment in segments for epoch, _ in segment.index.epochs]
        if epochs != sorted(epochs):  # A batch's CRC does not cover its leader epoch, so this is its only check.
            raise Corruption(f"log {folder}: leader epochs do not ascend: {epochs[:20]}")
        log = cls(disk, folder, segments, log_start_offset=log_start_offset, roll=(segment_bytes, segment_ms))
        log._new_folder = recovery_point == NO_RECOVERY_POINT
        try:
            known = cleaned.read(disk, folder)
        except OSError as error:
            raise StorageFailed(f"log {folder}: {error}") from error
        log.cleaned = cleaned.proven(known, (segment.summary for segment in segments[:-1]))
        return log

    @classmethod
    def begin(cls, disk: Disk, folder: str) -> "PartitionLog":
        """As `open` with NO_RECOVERY_POINT, for a folder that was just made: it is known to be empty."""
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
        """A stand-in for a log whose files cannot be used: it opens none. It must not be appended to or flushed."""
        segment = Segment(disk, folder, SegmentSummary(0, 0, 0, NO_TIMESTAMP), SegmentIndex(0))
        return cls(disk, folder, [segment], log_start_offset=0, roll=(SEGMENT_BYTES, SEGMENT_MS))

    def close(self) -> None:
        """Close all files; batches that were not flushed are in the WAL. No flush may be in flight."""
        assert not self._flushing
        for segment in (*self._segments, *self._garbage, *self._condemned):
            segment.close()

    # Applying.

    def set_roll(self, segment_bytes: int, segment_ms: int) -> None:
        """Roll by these bounds from the next batch on. Every replica must roll at the same batch, so the bounds come
        only from an applied entry or from a checkpoint."""
        self._roll_bytes, self._roll_ms = segment_bytes, segment_ms

    def append(self, batch: bytes) -> None:
        """Append one stamped batch, to memory or the page cache; its base offset is `next_offset`, its epoch the term.

        Raises DiskFull when earlier batches could not be written: this one was not taken, and nothing has changed."""
        base, length, epoch, _magic, _crc, attributes, delta, _base_ms, max_ms = _BATCH.unpack_from(batch)
        assert base == self.next_offset, f"batch at {base}, expected {self.next_offset}"
        assert length + 12 == len(batch)
        next_offset = base + delta + 1
        segment = self._segments[-1]
        if segment.unwritten_bytes >= SEGMENT_WRITE_BYTES:
            self.write_out()
        if self._rolls(len(batch), next_offset, max_ms):
            self._roll()
            segment = self._segments[-1]
        self._epochs.note(epoch, base)
        segment.append(batch, next_offset, epoch, max_ms, attributes)
        if is_transactional(attributes):
            self._transactions.note(batch)
        self.next_offset = next_offset
        self._unflushed_bytes += len(batch)
        self._unsynced_bytes += len(batch)
        if segment.unwritten_bytes >= SEGMENT_WRITE_BYTES:
            with suppress(DiskFull):  # This batch is taken; the next `append` raises it.
                self.write_out()

    def write_out(self) -> None:
        """Write appended batches to the page cache, where readers of the files see them; once a turn is enough.
        DiskFull: they stay in memory."""
        try:
            self._segments[-1].write_out()
        except OSError as error:
            raise StorageFailed(f"log {self._folder}: {error}") from error

    def advance_start(self, offset: int) -> None:
        """Move the log start to `offset` (never back). Segments wholly below it are removed by the second flush from
        now."""
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
            for segment in dropped:
                self._transactions.drop(segment.base)
            self._loaded = [segment for segment in self._loaded if segment not in dropped]

    # Reading.

    def read(self, offset: int, max_bytes: int, whole_first_batch: bool) -> bytes:
        """Whole batches from the one that holds `offset`, of one segment; b"" at the log's end.

        At most `max_bytes`, but the first batch whole if `whole_first_batch` (KIP-74). `offset` must lie in
        [log_start_offset, next_offset]. The page cache usually has the bytes. Raises SegmentDamaged when they are not
        what was written, or cannot be read; a failed read breaks no promise, so it does not end the process.
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

    @property
    def has_aborted(self) -> bool:
        """Is any transaction in the log known to be aborted?"""
        return self._transactions.count > 0

    def aborted(self, offset: int, end: int) -> list[Aborted]:
        """The aborted transactions that a reader of [offset, end) needs: what one `read` from `offset` has returned, in
        the order of their markers. Raises SegmentDamaged as `read` does."""
        assert self.log_start_offset <= offset, f"{offset} outside the log"
        at = bisect_right(self._bases, offset) - 1
        try:
            return self._transactions.overlapping(self._segments, at, offset, end)
        except (OSError, Corruption) as error:
            raise SegmentDamaged(self._segments[at].base, f"log {self._folder}: {error}") from error

    def aborted_lists(self, summary: SegmentSummary) -> AbortedLists:
        """For a job beside the loop: what overlaps with any range of this sealed segment. Raises SegmentDamaged."""
        at = max(0, bisect_right(self._bases, summary.base) - 1)
        try:
            return self._transactions.lists(self._segments, at, summary.next_offset)
        except (OSError, Corruption) as error:
            raise SegmentDamaged(self._segments[at].base, f"log {self._folder}: {error}") from error

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
        """Job: the first record in offset order, from the log start, with this timestamp or a later one. This call
        itself raises DiskFull when appended batches cannot be written to the files that the job would read."""
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
        """Segments that never change again and that a flush job has taken, oldest first."""
        return tuple(segment.summary for segment in self._segments[:-1] if segment not in self._dirty)

    def sealed_at(self, base: int) -> SegmentSummary | None:
        """The segment of `sealed` with this base offset, if any."""
        segment = self._segment(base)
        if segment is None or segment is self._segments[-1] or segment in self._dirty:
            return None
        return segment.summary

    def holds(self, base: int) -> bool:
        """Is there a segment with this base offset, sealed or not?"""
        return self._segment(base) is not None

    def replaced(self, base: int) -> None:
        """The file of a sealed segment was replaced by a peer's copy: readers check it again. Precondition: `holds`."""
        segment = self._segment(base)
        assert segment is not None, "the caller asked `holds` in this turn"
        assert segment is not self._segments[-1]
        segment.replaced()

    def put_cleaned(self, segments: CleanedSegments) -> bool:
        """Put a cleaned segment in place of those that it was made from; `cleaning.prepare` has returned, and no flush
        is in flight. False: they are not all there any more, and nothing has changed."""
        assert not self._flushing
        at = bisect_right(self._bases, segments.old[0].base) - 1
        old = self._segments[max(0, at) : at + len(segments.old)]
        if tuple(segment.summary for segment in old) != segments.old or old[-1] is self._segments[-1]:
            return False
        if any(segment in self._dirty for segment in old):
            return False
        for segment in old:
            segment.close()
        try:
            rename(self._disk, self._folder, segments.new.base)
        except OSError as error:
            raise StorageFailed(f"log {self._folder}: {error}") from error
        new = Segment(self._disk, self._folder, segments.new, segments.index)
        self._segments[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [segments.new.base]
        self._loaded = [segment for segment in self._loaded if segment not in old]
        stale = {f"{self._folder}/{name(s.base)}" for s in old for name in (sidecar_name, txnindex_name)}
        self._left_out = {path: data for path, data in self._left_out.items() if path not in stale}
        replaced = [segment.base for segment in old]
        self._transactions.put_cleaned(replaced, segments.new.base, segments.aborted, segments.opened)
        self.generation += 1
        self._touch(new)
        return True

    def touched(self, base: int) -> bool:
        """May the segment with this base differ from that of other replicas, because it was cleaned?"""
        return base < self.cleaned.touched_to

    def _segment(self, base: int) -> Segment | None:
        at = bisect_right(self._bases, base) - 1
        return self._segments[at] if at >= 0 and self._bases[at] == base else None

    def first_timestamp_ms(self, offset: int) -> int:
        """The largest timestamp of the first batch of the segment that holds `offset`; -1 if it is not known."""
        segment = self._segments[max(0, bisect_right(self._bases, offset) - 1)]
        try:
            file = self._disk.open(segment.path)
        except OSError:
            return NO_TIMESTAMP
        try:
            head = file.pread(0, _BATCH.size)
        except OSError:
            return NO_TIMESTAMP
        finally:
            file.close()
        return int(_BATCH.unpack(head)[-1]) if len(head) == _BATCH.size else NO_TIMESTAMP

    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.summary.size for segment in self._segments[:-1]) + self._segments[-1].index.size

    def files(self) -> tuple[tuple[str, int], ...]:
        """(path, bytes) of every segment up to `next_offset`, for snapshot install; sealed ones never change."""
        with suppress(DiskFull):  # Batches that cannot be written yet lie after every recovery point.
            self.write_out()
        return tuple((segment.path, segment.written) for segment in self._segments)

    def growing(self) -> tuple[int, Growing]:
        """The active segment: its base offset, and the part of it that is in its file."""
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

    def unsynced_bytes(self) -> int:
        """Appended since the last flush or sync job was taken."""
        return self._unsynced_bytes

    @property
    def holds_garbage(self) -> bool:
        """Are there segments that further flushes will remove?"""
        return bool(self._garbage or self._condemned)

    def flush_job(self, applied: int) -> FlushJob:
        """Job: sync all appended batches, up to Raft index `applied`; its `recovery_point` is valid once it returned.

        Then call `flush_done` on the loop and stage the recovery point. One job at a time. When the job raises
        StorageFailed the process ends. This call itself raises DiskFull: nothing is flushed for now.
        """
        assert not self._flushing
        self.write_out()
        self._flushing = True
        active = self._segments[-1]
        dirty, self._dirty = self._dirty, []
        garbage, self._condemned, self._garbage = self._condemned, self._garbage, []
        recovery_point = RecoveryPoint(applied, self.next_offset, active.base, active.written)
        lists = self._transactions.take_files(active.index)
        sidecars = {**lists, **{self._sidecar(segment): segment.index.encode() for segment in (*dirty, active)}}
        left, self._left_out = self._left_out, {}
        for path, data in left.items():
            if path not in sidecars and int(path.rpartition("/")[2].partition(".")[0]) in self._bases:
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
        self._unflushed_bytes = self._unsynced_bytes = 0
        return job

    def sync_job(self) -> SyncJob:
        """Job: sync the newest segment, so that the next flush finds little left to write. Then call `flush_done`.

        It makes nothing known to be durable: there is no recovery point. Raises and is raised as `flush_job`."""
        assert not self._flushing
        self.write_out()
        self._flushing = True
        self._unsynced_bytes = 0
        return SyncJob(self._folder, self._segments[-1].file())

    def flush_done(self) -> None:
        """The job of `flush_job` or `sync_job` returned."""
        assert self._flushing
        self._flushing = False

    def left_out(self, sidecars: list[tuple[str, bytes]]) -> None:
        """The job could not write these: the next flush tries the newest `SIDECARS_LEFT_OUT_MAX` of them again. Of the
        others a start reads the segments instead."""
        self._left_out = dict(sidecars[-SIDECARS_LEFT_OUT_MAX:])

    # Within.

    def _sidecar(self, segment: Segment) -> str:
        return f"{self._folder}/{sidecar_name(segment.base)}"

    def _rolls(self, size: int, next_offset: int, max_timestamp_ms: int) -> bool:
        """Must a new segment begin before this batch? A function of applied batches only: no clock, no file time."""
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
        self._transactions.seal(last.index)
        last.seal()
        self._dirty.append(last)
        self._touch(last)
        self._new_names = True
        self._segments.append(segment)
        self._bases.append(base)

    def _touch(self, segment: Segment) -> None:
        """Keep index and file of the SEGMENTS_LOADED_MAX sealed segments that were read last; unload older ones that
        are flushed."""
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
