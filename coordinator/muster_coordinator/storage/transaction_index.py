"""Which transactions were aborted in a partition's log, segment by segment; kept beside it, derived from it.

Problem: a read_committed reader needs the aborted transactions that overlap with what it reads, and the marker of one
may lie many segments later. Mechanism: of a sealed segment two numbers stay in memory: how many markers in it aborted
something, and where the oldest transaction that is open at its end began. So a search goes on into later segments only
while something older than its end is open, and reads the list (`aborted.AbortedList`) only of segments that have one.
A list that is missing or does not fit the sidecar's checksum is made again by walking the segment, with the
transactions that are open before it; those stand in the sidecar before, or are found by walking on from the last that
has them. A log whose beginning was deleted is read as if it began where it begins now: what was open there shows at its
next batch, and nothing before that can be read. The same holds of a log that was cleaned: the list of a cleaned segment
is that of the batches that are left (`cleaning` makes it), so whoever walks it again, or gets it from a leader, finds
the same. What it does not do: sync; the files are derived.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from muster_coordinator.errors import Corruption
from muster_coordinator.limits import MIB
from muster_coordinator.ports import Disk, File
from muster_coordinator.records.batch import CONTROL, HEADER_BYTES, LOG_OVERHEAD
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.aborted import (
    NONE_OPEN,
    Aborted,
    AbortedList,
    AbortedLists,
    OpenTransactions,
    is_transactional,
    sound,
    txnindex_name,
)
from muster_coordinator.storage.limits import SEGMENTS_LOADED_MAX
from muster_coordinator.storage.segment import Segment
from muster_coordinator.storage.segment_index import SegmentIndex, TransactionsSection

_WALK_BYTES = 4 * MIB
_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21


class _Sealed(NamedTuple):
    """What stays in memory of a sealed segment."""

    aborted: int
    """Entries in its list."""
    oldest_open: int
    """First offset of the oldest transaction that is open at its end; NONE_OPEN for none."""


_NOTHING = _Sealed(0, NONE_OPEN)


class TransactionIndex:
    """Of one log; `PartitionLog` calls it for each transactional batch, seal, flush and removal."""

    __slots__ = ("_active", "_disk", "_folder", "_lists", "_open", "_sealed", "_unwritten", "count")

    def __init__(self, disk: Disk, folder: str, segments: Sequence[Segment]) -> None:
        """`segments`: all of the log, with their indexes loaded; the last one is active."""
        self._disk = disk
        self._folder = folder
        self._sealed: dict[int, _Sealed] = {}
        """base -> what is not `_NOTHING`."""
        self._lists: OrderedDict[int, AbortedList] = OrderedDict()
        """base -> the list of a sealed segment, least recently used first."""
        self._unwritten: dict[int, AbortedList] = {}
        """The same of segments that were sealed, or walked, since the last flush."""
        self.count = 0
        """Entries in all lists."""
        self._open = OpenTransactions()
        self._active = AbortedList()
        for segment in segments:
            index, walked = segment.index, False
            if index.transactional:
                self._active, walked = self._known_or_walked(segment, index)
            else:
                self._active = AbortedList()
            self.count += len(self._active)
            if segment is not segments[-1]:
                self._keep(segment.base, self._active)
                if walked:
                    self._unwritten[segment.base] = self._active

    def _known_or_walked(self, segment: Segment, index: SegmentIndex) -> tuple[AbortedList, bool]:
        """The list of a segment, and whether it had to be walked. Moves `_open` to the segment's end."""
        known = self._read(index)
        if known is not None and index.section is not None:
            self._open = OpenTransactions(index.section.opened)
            return known, False
        walked = _walked(self._disk, segment.path, index.size, self._open)
        index.section = section_of(walked, self._open)
        return walked, True

    def _read(self, index: SegmentIndex) -> AbortedList | None:
        """The list that the sidecar vouches for; None: there is none, or it is not what was written."""
        section = index.section
        if section is None:
            return None
        if not section.aborted:
            return AbortedList()
        try:
            file = self._disk.open(f"{self._folder}/{txnindex_name(index.base)}")
        except FileNotFoundError:
            return None
        try:
            data = file.pread(0, file.size())
        finally:
            file.close()
        good = crc32c(data) == section.checksum and sound(data, section.aborted)
        return AbortedList(data) if good else None

    # Appending.

    def note(self, batch: bytes) -> None:
        """A transactional batch was appended to the active segment."""
        aborted = self._open.note(batch)
        if aborted is not None:
            self._active.add(aborted)
            self.count += 1

    def seal(self, index: SegmentIndex) -> None:
        """The active segment, of this index, takes no more batches."""
        if index.transactional:
            index.section = section_of(self._active, self._open)
            self._unwritten[index.base] = self._active
        self._keep(index.base, self._active)
        self._active = AbortedList()

    def _keep(self, base: int, aborted: AbortedList) -> None:
        self._note_sealed(base, aborted, self._open.oldest())

    def _note_sealed(self, base: int, aborted: AbortedList, oldest_open: int) -> None:
        kept = _Sealed(len(aborted), oldest_open)
        if kept != _NOTHING:
            self._sealed[base] = kept
        if aborted:
            self._lists[base] = aborted
            if len(self._lists) > SEGMENTS_LOADED_MAX:
                self._lists.popitem(last=False)

    def put_cleaned(self, replaced: Sequence[int], base: int, aborted: AbortedList, opened: OpenTransactions) -> None:
        """A cleaned segment takes the place of these sealed ones; what is open at its end is known."""
        for old in replaced:
            self.drop(old)
        self.count += len(aborted)
        self._note_sealed(base, aborted, opened.oldest())

    def drop(self, base: int) -> None:
        """A sealed segment fell below the log start, or was replaced."""
        self.count -= self._sealed.pop(base, _NOTHING).aborted
        self._lists.pop(base, None)
        self._unwritten.pop(base, None)

    def unwritten(self) -> list[int]:
        """Bases of the segments that were sealed, or walked, since the last flush, oldest first."""
        return list(self._unwritten)

    def take_files(self, active: SegmentIndex) -> dict[str, bytes]:
        """Path -> content of the lists that the next flush is to write. `active` gets its section, for its sidecar."""
        if active.transactional:
            active.section = section_of(self._active, self._open)
        lists, self._unwritten = {**self._unwritten, active.base: self._active}, {}
        return {f"{self._folder}/{txnindex_name(base)}": bytes(held.data) for base, held in lists.items() if held}

    # Reading.

    def overlapping(self, segments: Sequence[Segment], at: int, first: int, end: int) -> list[Aborted]:
        """The aborted transactions with an offset in [first, end), which lies in segment number `at`."""
        found: list[Aborted] = []
        for aborted in self._reaching(segments, at, end):
            some, enough = aborted.overlapping(first, end)
            found += some
            if enough:
                break
        return found

    def lists(self, segments: Sequence[Segment], at: int, end: int) -> AbortedLists:
        """The lists that have what overlaps with ranges below `end`, which lies in segment number `at`. Those of sealed
        segments never change; of the active one it is a copy."""
        active = self._active
        found = self._reaching(segments, at, end)
        return AbortedLists(tuple(AbortedList(bytes(held.data)) if held is active else held for held in found))

    def _reaching(self, segments: Sequence[Segment], at: int, end: int) -> Iterator[AbortedList]:
        """The lists from segment number `at` on, as far as something that begins below `end` may be open."""
        for number in range(at, len(segments) if self.count else 0):
            segment = segments[number]
            active = number == len(segments) - 1
            kept = _NOTHING if active else self._sealed.get(segment.base, _NOTHING)
            if active or kept.aborted:
                yield self._list(segments, number)
            if not NONE_OPEN < kept.oldest_open < end:
                break

    def _list(self, segments: Sequence[Segment], number: int) -> AbortedList:
        segment = segments[number]
        if number == len(segments) - 1:
            return self._active
        held = self._unwritten.get(segment.base) or self._lists.get(segment.base)
        if held is None:
            held = self._read(segment.index)
            if held is None:
                held = self._made_again(segments, number)
            self._lists[segment.base] = held
            if len(self._lists) > SEGMENTS_LOADED_MAX:
                self._lists.popitem(last=False)
        else:
            self._lists.pop(segment.base, None)
            self._lists[segment.base] = held
        return held

    def _made_again(self, segments: Sequence[Segment], number: int) -> AbortedList:
        """Walk a segment whose files are gone, and those before it whose sidecars do not say what is open."""
        back = number - 1
        while back >= 0 and segments[back].index.section is None:
            back -= 1
        section = segments[back].index.section if back >= 0 else None
        opened = OpenTransactions(() if section is None else section.opened)
        aborted = AbortedList()
        for segment in segments[back + 1 : number + 1]:
            if segment.index.transactional:
                aborted = _walked(self._disk, segment.path, segment.index.size, opened)
        return aborted


def section_of(aborted: AbortedList, opened: OpenTransactions) -> TransactionsSection:
    """What the sidecar of a segment says that has this list, and at whose end these are open."""
    return TransactionsSection(opened.pairs(), len(aborted), crc32c(aborted.data))


def _walked(disk: Disk, path: str, size: int, opened: OpenTransactions) -> AbortedList:
    """The list of the first `size` bytes of a segment; `opened` moves along."""
    found = AbortedList()
    file = disk.open(path)
    try:
        for batch in _transactional(file, size, path):
            aborted = opened.note(batch)
            if aborted is not None:
                found.add(aborted)
    finally:
        file.close()
    return found


def _transactional(file: File, size: int, path: str) -> Iterator[bytes]:
    """The transactional batches of a segment: markers whole, others as far as their header goes."""
    position = 0
    while position < size:
        data = file.pread(position, min(_WALK_BYTES, size - position))
        at = 0
        while len(data) - at >= HEADER_BYTES:
            length = _LENGTH.unpack_from(data, at + _LENGTH_AT)[0] + LOG_OVERHEAD
            (attributes,) = _ATTRIBUTES.unpack_from(data, at + _ATTRIBUTES_AT)
            if length < HEADER_BYTES:
                raise Corruption(f"segment {path}: no batch at {position + at}")
            if is_transactional(attributes):
                needed = length if attributes & CONTROL else HEADER_BYTES
                if at + needed > len(data):
                    break
                yield data[at : at + needed]
            at += length
        if not at:
            raise Corruption(f"segment {path}: {len(data)} bytes at {position} where a batch should be, up to {size}")
        position += at
