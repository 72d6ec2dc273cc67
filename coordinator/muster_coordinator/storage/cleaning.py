"""A round of cleaning on the files of one partition: read, written beside, and put in place of what was there.

Problem: at no moment may a reader, a start or a crash find a log that has lost a record which stays, or that means
something else. Mechanism: neighbouring segments become one new file under `<base>.log.cleaned`, synced, with its index
beside it. Then, while no flush or checkpoint of the group is under way (`PartitionLog.put_cleaned`):

1. `prepare`: the index of the first old segment, and that of its aborted transactions, are removed; the folder is
   synced.
2. On the loop, in one turn: the new file is renamed to the first segment's name, and the log's list of segments is
   changed. So the bytes behind a name change at the same moment as what is known of them.
3. `finish`: the folder is synced; then the new indexes get their names, the other old segments are removed, and the
   folder is synced.

A crash before 2 is durable leaves the old segments; a start removes what is beside them. A crash after it may leave old
segments that lie within the new one: a start checks all of the new one, and removes them (`log_opening`). Every step
reads and writes a few batches, for the executor that paces them. An error while reading or writing ends the round and
leaves the log as it was. The index of aborted transactions is made from the batches that are written, as for a log that
never had others. What this does not do: decide what is cleaned (`topics.cleaning`) or when.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from muster_coordinator.errors import SegmentDamaged, StorageFailed, no_space
from muster_coordinator.ports import Disk, File
from muster_coordinator.records.batch import HEADER_BYTES, LOG_OVERHEAD, parse_header
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.storage.aborted import AbortedList, AbortedLists, OpenTransactions, txnindex_name
from muster_coordinator.storage.limits import CLEAN_READ_BYTES, CLEAN_WRITE_BYTES
from muster_coordinator.storage.segment import SegmentSummary
from muster_coordinator.storage.segment_index import SegmentIndex, read_sidecar, segment_name, sidecar_name
from muster_coordinator.storage.transaction_index import section_of
from muster_coordinator.topics.cleaning.rounds import Round
from muster_coordinator.topics.cleaning.transactions import AbortedTransaction

T = TypeVar("T")
NONE_ABORTED = AbortedLists()
SUFFIX = ".cleaned"
"""Ends the names of files that are being written beside the segments; a start removes them."""


class CleanedSegments(NamedTuple):
    """Segments, and the one that is written to take their place."""

    old: tuple[SegmentSummary, ...]
    new: SegmentSummary
    index: SegmentIndex  # type: ignore[assignment]  # shadows tuple.index, which nobody calls
    changed: bool
    """False: one segment of which all stays; nothing is put in place."""
    aborted: AbortedList
    """The aborted transactions whose markers are in the new one."""
    opened: OpenTransactions
    """What is open at its end."""


def look(
    disk: Disk,
    folder: str,
    segments: Sequence[SegmentSummary],
    first_dirty: int,
    round_: Round,
    aborted: AbortedLists = NONE_ABORTED,
) -> Generator[int, None, bool]:
    """Job in steps, each yields the bytes it read: map the keys of the dirty range. False: the map is full. `aborted`:
    `PartitionLog.aborted_lists` of the segments. Raises SegmentDamaged, OSError."""
    for summary in segments:
        if summary.next_offset <= first_dirty:
            continue
        for some in _batches(disk, folder, summary):
            _tell(round_, aborted, some)
            for batch in some:
                if parse_header(batch).next_offset > first_dirty and not _sound(summary, folder, round_.look, batch):
                    return False
            yield sum(map(len, some))
    return True


def clean(
    disk: Disk,
    folder: str,
    segments: Sequence[SegmentSummary],
    round_: Round,
    aborted: Sequence[AbortedLists] = (),
    opened: Iterable[tuple[int, int]] = (),
) -> Generator[int, None, CleanedSegments]:
    """Job in steps, each yields the bytes it read and wrote: write the segment that takes the place of these.

    `aborted`: `PartitionLog.aborted_lists` of each segment, or nothing where the log has none; `opened`: (producer,
    first offset) of what is open before the first one, in the cleaned log. Raises SegmentDamaged, Corruption, or
    OSError, also when the disk is full; `discard` then removes what was written."""
    base = segments[0].base
    path = f"{folder}/{segment_name(base)}{SUFFIX}"
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        out = _Out(file, SegmentIndex(base), OpenTransactions(opened))
        round_.begin_segments()
        for number, summary in enumerate(segments):
            for some in _batches(disk, folder, summary):
                _tell(round_, aborted[number] if aborted else NONE_ABORTED, some)
                for batch in some:
                    out.add(_sound(summary, folder, round_.clean, batch))
                yield sum(map(len, some)) + out.write()
        out.add(round_.end_segments())
        out.write(last=True)
        if out.index.transactional:
            out.index.section = section_of(out.aborted, out.opened)
        changed = len(segments) > 1 or not round_.unchanged or not _says_the_same(disk, folder, out.index)
    finally:
        file.close()
    index, last = out.index, segments[-1]
    if index.next_offset != last.next_offset:
        raise SegmentDamaged(base, f"{path} ends before offset {index.next_offset}, expected {last.next_offset}")
    new = SegmentSummary(base, index.next_offset, index.size, index.max_timestamp_ms)
    if changed:
        _write_derived(disk, f"{folder}/{sidecar_name(base)}{SUFFIX}", index.encode())
        if out.aborted:
            _write_derived(disk, f"{folder}/{txnindex_name(base)}{SUFFIX}", out.aborted.data)
    return CleanedSegments(tuple(segments), new, index, changed, out.aborted, out.opened)


def discard(disk: Disk, folder: str, base: int) -> None:
    """Job: remove what was written beside the segment with this base."""
    for name in (segment_name(base), sidecar_name(base), txnindex_name(base)):
        if disk.exists(f"{folder}/{name}{SUFFIX}"):
            disk.unlink(f"{folder}/{name}{SUFFIX}")


def prepare(disk: Disk, folder: str, base: int) -> None:
    """Job: step 1 of the module."""
    try:
        for name in (sidecar_name(base), txnindex_name(base)):
            if disk.exists(f"{folder}/{name}"):
                disk.unlink(f"{folder}/{name}")
        disk.sync_dir(folder)
    except OSError as error:
        raise StorageFailed(f"log {folder}: {error}") from error


def rename(disk: Disk, folder: str, base: int) -> None:
    """Step 2, on the loop."""
    path = f"{folder}/{segment_name(base)}"
    disk.rename(f"{path}{SUFFIX}", path)


def finish(disk: Disk, folder: str, base: int, replaced: Sequence[int]) -> None:
    """Job: step 3. `replaced`: the bases of the old segments but the first. Invariant: the new indexes get their names
    after that of their segment is durable; they would not fit the old one."""
    try:
        disk.sync_dir(folder)
        for name in (txnindex_name(base), sidecar_name(base)):
            path = f"{folder}/{name}"
            if disk.exists(f"{path}{SUFFIX}"):
                disk.rename(f"{path}{SUFFIX}", path)
        for old in replaced:
            for name in (sidecar_name(old), txnindex_name(old), segment_name(old)):
                if disk.exists(f"{folder}/{name}"):
                    disk.unlink(f"{folder}/{name}")
        if replaced:
            disk.sync_dir(folder)
    except OSError as error:
        raise StorageFailed(f"log {folder}: {error}") from error


class _Out:
    """The new segment's file: gathers batches, and knows their index and their aborted transactions."""

    def __init__(self, file: File, index: SegmentIndex, opened: OpenTransactions) -> None:
        self._file = file
        self.index = index
        self.aborted = AbortedList()
        self.opened = opened
        self._parts: list[bytes] = []
        self._unwritten = 0
        self._written = 0

    def add(self, batches: list[bytes]) -> None:
        for batch in batches:
            header = parse_header(batch)
            self.index.note(
                len(batch), header.next_offset, header.leader_epoch, header.max_timestamp_ms, header.attributes
            )
            if header.is_transactional and (aborted := self.opened.note(batch)) is not None:
                self.aborted.add(aborted)
            self._parts.append(batch)
            self._unwritten += len(batch)

    def write(self, *, last: bool = False) -> int:
        """Bytes written, and synced at once; none until there are enough for one write."""
        if self._unwritten < CLEAN_WRITE_BYTES and not last:
            return 0
        size, self._unwritten = self._unwritten, 0
        if size:
            self._file.pwrite(self._written, self._parts)
            self._written += size
            self._parts.clear()
        self._file.sync()
        return size


def _batches(disk: Disk, folder: str, summary: SegmentSummary) -> Generator[list[bytes], None, None]:
    """The segment's batches, some at a time: about CLEAN_READ_BYTES, one at least. Raises SegmentDamaged where offsets
    do not follow one another, and, at the segment's end, where it is not what its index says: no CRC of a batch covers
    offset and epoch, and what is written anew gets an index that would agree with any damage."""
    path = f"{folder}/{segment_name(summary.base)}"
    seen = SegmentIndex(summary.base)
    file = disk.open(path)
    try:
        while seen.size < summary.size:
            position = seen.size
            data = file.pread(position, min(CLEAN_READ_BYTES, summary.size - position))
            some = _split(data, 0)
            if not some:
                size = LOG_OVERHEAD + int.from_bytes(data[8:LOG_OVERHEAD], "big") if len(data) >= LOG_OVERHEAD else 0
                if not HEADER_BYTES <= size <= summary.size - position:
                    raise SegmentDamaged(summary.base, f"segment {path}: no batch at {position}")
                some = _split(file.pread(position, size), 0)
            if not some:
                raise SegmentDamaged(summary.base, f"segment {path}: no batch at {position}")
            for batch in some:
                header = _sound(summary, folder, parse_header, batch)
                if header.base_offset != seen.next_offset:
                    why = f"segment {path}: offset {header.base_offset} at {seen.size}, expected {seen.next_offset}"
                    raise SegmentDamaged(summary.base, why)
                seen.note(
                    len(batch), header.next_offset, header.leader_epoch, header.max_timestamp_ms, header.attributes
                )
            yield some
    finally:
        file.close()
    known = read_sidecar(disk, folder, summary.base)
    fits = known is None or known.size != summary.size or known.alike(seen)
    ascend = all(earlier < later for (earlier, _), (later, _) in pairwise(seen.epochs))
    if seen.next_offset != summary.next_offset or not ascend or not fits:
        raise SegmentDamaged(summary.base, f"segment {path} is not what was written: epochs {seen.epochs[:20]}")


def _split(data: bytes, at: int) -> list[bytes]:
    """The whole batches that `data` begins with, by their lengths."""
    found = []
    while len(data) - at >= HEADER_BYTES:
        size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big")
        if not HEADER_BYTES <= size <= len(data) - at:
            break
        found.append(data[at : at + size])
        at += size
    return found


def _sound(summary: SegmentSummary, folder: str, use: Callable[[bytes], T], batch: bytes) -> T:
    try:
        return use(batch)
    except MalformedError as error:
        path = f"{folder}/{segment_name(summary.base)}"
        raise SegmentDamaged(summary.base, f"segment {path}: {error}") from error


def _tell(round_: Round, aborted: AbortedLists, some: list[bytes]) -> None:
    """The aborted transactions that these batches may be part of, or end."""
    found = aborted.overlapping(parse_header(some[0]).base_offset, parse_header(some[-1]).next_offset)
    round_.add_aborted(AbortedTransaction(one.first_offset, one.producer_id, one.last_offset) for one in found)


def _says_the_same(disk: Disk, folder: str, index: SegmentIndex) -> bool:
    """Does the sidecar that is there know the same of transactions? It may say that one is open of which all was
    removed in segments before; then it is made anew, although no batch of its own segment has changed."""
    if not index.transactional:
        return True
    there = read_sidecar(disk, folder, index.base)
    return there is not None and there.section == index.section


def _write_derived(disk: Disk, path: str, data: bytes | bytearray) -> None:
    """An index: it is not synced, and left out where the disk has no space."""
    try:
        file = disk.open(path, create=True)
        try:
            file.truncate(0)
            file.pwrite(0, (data,))
        finally:
            file.close()
    except OSError as error:
        if not no_space(error):
            raise
        disk.unlink(path)
