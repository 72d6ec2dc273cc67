"""Aborted transactions of one segment, and of a log, as read_committed readers need them (KIP-98).

Problem: a reader cannot know from the batches that it fetched which of them belong to a transaction that was aborted
later. Mechanism: each segment has a list of the transactions whose ABORT marker lies in it, in the order of the
markers, in the bytes of Kafka's `.txnindex`: what is in memory is what is in the file. The list depends on the log
alone (`OpenTransactions` makes it batch by batch), so it is derived: the file has no checksum of its own, the segment's
sidecar has one of it, and where one of the two is missing or wrong the segment is walked again. What it does not do:
say what is stable (`topics.partition` does), or drop entries: they go with their segment.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from muster_coordinator.errors import Corruption
from muster_coordinator.records.batch import CONTROL, HEADER_BYTES, LOG_OVERHEAD, TRANSACTIONAL, iter_records
from muster_coordinator.records.control import decode_control
from muster_coordinator.records.errors import MalformedError, UnsupportedError

_ENTRY = struct.Struct(">hqqqq")
"""Version 0, producer id, first offset, offset of the marker, last stable offset once the marker is applied."""
_PRODUCER = struct.Struct(">q")
_PRODUCER_AT = 43
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_BASE = struct.Struct(">q")
_FRAME = struct.Struct(">qi")
_DELTA = struct.Struct(">i")
_DELTA_AT = 23
_LAST_AT = 18
"""Of the marker's offset within an entry."""
NONE_OPEN = -1


class Aborted(NamedTuple):
    """One aborted transaction of one producer in this log."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the ABORT marker."""
    last_stable_offset: int
    """Once the marker is applied: every transaction that begins below it has ended by then."""


def txnindex_name(base: int) -> str:
    """Kafka's name of the file beside the segment with this base offset."""
    return f"{base:020d}.txnindex"


class AbortedList:
    """The aborted transactions whose markers lie in one segment, ascending by marker."""

    __slots__ = ("data",)

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        """The content of the `.txnindex` file."""

    def __len__(self) -> int:
        return len(self.data) // _ENTRY.size

    def __iter__(self) -> Iterator[Aborted]:
        return (Aborted._make(fields[1:]) for fields in _ENTRY.iter_unpack(self.data))

    def add(self, aborted: Aborted) -> None:
        self.data += _ENTRY.pack(0, *aborted)

    def overlapping(self, first: int, end: int) -> tuple[list[Aborted], bool]:
        """The transactions with an offset in [first, end), and whether later segments can have no more of them."""
        found: list[Aborted] = []
        data = self.data
        for at in range(self._ending_from(first), len(data), _ENTRY.size):
            aborted = Aborted._make(_ENTRY.unpack_from(data, at)[1:])
            if aborted.first_offset < end:
                found.append(aborted)
            if aborted.last_stable_offset >= end:
                return found, True
        return found, False

    def _ending_from(self, offset: int) -> int:
        """Position of the first entry whose marker lies at `offset` or later."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if _BASE.unpack_from(self.data, middle * _ENTRY.size + _LAST_AT)[0] < offset:
                low = middle + 1
            else:
                high = middle
        return low * _ENTRY.size


class AbortedLists(NamedTuple):
    """The lists of neighbouring segments as they were when they were taken, for a job beside the loop."""

    lists: tuple[AbortedList, ...] = ()

    def overlapping(self, first: int, end: int) -> list[Aborted]:
        """The transactions with an offset in [first, end), in the order of their markers."""
        found: list[Aborted] = []
        for aborted in self.lists:
            some, enough = aborted.overlapping(first, end)
            found += some
            if enough:
                break
        return found


def sound(data: bytes, count: int) -> bool:
    """Whether `data` is a file of `count` entries of a version that is known; what they say is the checksum's."""
    return len(data) == count * _ENTRY.size and all(fields[0] == 0 for fields in _ENTRY.iter_unpack(data))


class OpenTransactions:
    """Producers with an open transaction at one offset of the log, by the batches before it."""

    __slots__ = ("_first",)

    def __init__(self, opened: Iterable[tuple[int, int]] = ()) -> None:
        self._first: OrderedDict[int, int] = OrderedDict(sorted(opened, key=lambda one: one[1]))
        """producer -> first offset of its transaction. Invariant: oldest first."""

    def pairs(self) -> tuple[tuple[int, int], ...]:
        """(producer, first offset), oldest first."""
        return tuple(self._first.items())

    def oldest(self) -> int:
        """First offset of the oldest one; NONE_OPEN for none."""
        return next(iter(self._first.values()), NONE_OPEN)

    def note(self, batch: bytes) -> Aborted | None:
        """The next transactional batch of the log, stamped; what it aborts, if it is such a marker. Raises Corruption
        for a control batch that cannot be read."""
        (base,) = _BASE.unpack_from(batch)
        (producer_id,) = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
        (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
        if not attributes & CONTROL:
            self._first.setdefault(producer_id, base)
            return None
        ends = _commits(batch)
        if ends is None:
            return None
        first = self._first.pop(producer_id, None)
        if first is None or ends:
            return None
        oldest = self.oldest()
        return Aborted(producer_id, first, base, base + 1 if oldest == NONE_OPEN else oldest)


def _commits(batch: bytes) -> bool | None:
    """Whether a control batch commits or aborts; None: it ends nothing (another type, or cleaned of its record)."""
    if len(batch) == HEADER_BYTES:
        return None
    try:
        marker = decode_control(next(iter_records(batch)))
    except (MalformedError, UnsupportedError) as error:
        raise Corruption(f"a control batch that cannot be read: {error}") from error
    return None if marker is None else marker.commit


def below(records: bytes, last_stable_offset: int) -> tuple[int, int]:
    """Of whole batches: the bytes of those that begin below the last stable offset, where read_committed ends, and the
    end offset of the last of them."""
    position, end = 0, -1
    while position < len(records):
        base, length = _FRAME.unpack_from(records, position)
        if base >= last_stable_offset:
            break
        end = base + _DELTA.unpack_from(records, position + _DELTA_AT)[0] + 1
        position += LOG_OVERHEAD + length
    return position, end


def is_transactional(attributes: int) -> bool:
    """Whether a batch's attributes say that it is part of a transaction, or ends one."""
    return attributes & TRANSACTIONAL != 0
