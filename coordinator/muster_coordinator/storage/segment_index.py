"""The sparse index of one segment, and the sidecar file that saves scanning the segment for it.

Problem: find the batch that holds an offset, or the first one with a timestamp, in a 100 MiB file of small batches.
Mechanism: one slot every SEGMENT_INDEX_INTERVAL_BYTES: first offset, file position, and the largest timestamp of all
batches before the slot. The sidecar `<base>.sidx` holds the same for the first `size` bytes of the segment. It is
derived: when it is absent, too short or fails its CRC, the headers of the segment are walked instead. Of a segment with
transactional batches it also says which transactions are open at its end, and vouches for the `.txnindex` file; that
depends on the segments before, so it is added by who knows them (`transaction_index`). Formats: docs/format.md.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from muster_coordinator.errors import Corruption
from muster_coordinator.limits import MIB
from muster_coordinator.ports import Disk, File
from muster_coordinator.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.aborted import is_transactional
from muster_coordinator.storage.limits import SEGMENT_INDEX_INTERVAL_BYTES

NO_TIMESTAMP = -1
_SIDECAR_MAGIC = b"MSIX"
_SIDECAR_VERSION = 1
_WITH_TRANSACTIONS = 2
"""Version of a segment with transactional batches."""
_HEAD = struct.Struct(">4sHHqqqqqIII")
"""Magic, version, 1 if a `TransactionsSection` is at the end, base offset, next offset, size, first timestamp, largest
timestamp, epochs, slots, CRC of the rest."""
_EPOCH = struct.Struct(">iq")
_SECTION = struct.Struct(">III")
"""Open transactions, entries of the `.txnindex` file, its CRC; then the open ones."""
_OPEN = struct.Struct(">qq")
_BATCH = struct.Struct(">qiibIhiqq")
"""A batch header up to maxTimestamp."""
_SCAN_BYTES = 4 * MIB


class Position(NamedTuple):
    """A batch's base offset and its position in the file."""

    offset: int
    position: int


class TransactionsSection(NamedTuple):
    """What a sidecar says of the transactions of its segment."""

    opened: tuple[tuple[int, int], ...]
    """(producer, first offset) of those that are open at the segment's end."""
    aborted: int
    """Entries of the `.txnindex` file."""
    checksum: int
    """CRC of that file."""


class SegmentIndex:
    """What is known of one segment's batches; grows as batches are appended."""

    __slots__ = (
        "_indexed_to",
        "_maxima",
        "_offsets",
        "_positions",
        "base",
        "epochs",
        "first_timestamp_ms",
        "max_timestamp_ms",
        "next_offset",
        "section",
        "size",
        "transactional",
    )

    def __init__(self, base: int) -> None:
        self.base = base
        self.next_offset = base
        self.size = 0
        self.first_timestamp_ms = NO_TIMESTAMP
        """maxTimestamp of the first batch that has one: rolling by time counts from here, as in Kafka."""
        self.max_timestamp_ms = NO_TIMESTAMP
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, first offset) as they change within this segment."""
        self.transactional = False
        """It has batches of transactions, or markers."""
        self.section: TransactionsSection | None = None
        """None: there is none, or it is to be found out from this segment and those before."""
        self._offsets = array("I")
        """Relative to `base`. Invariant: the three columns have equal length, offsets and positions ascend."""
        self._positions = array("I")
        self._maxima = array("q")
        self._indexed_to = -SEGMENT_INDEX_INTERVAL_BYTES

    def note(self, size: int, next_offset: int, epoch: int, max_timestamp_ms: int, attributes: int) -> None:
        """A batch of `size` bytes was appended."""
        if is_transactional(attributes):
            self.transactional, self.section = True, None
        if self.size - self._indexed_to >= SEGMENT_INDEX_INTERVAL_BYTES:
            self._offsets.append(self.next_offset - self.base)
            self._positions.append(self.size)
            self._maxima.append(self.max_timestamp_ms)
            self._indexed_to = self.size
        if not self.epochs or self.epochs[-1][0] != epoch:
            self.epochs.append((epoch, self.next_offset))
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
        if self.first_timestamp_ms == NO_TIMESTAMP:
            self.first_timestamp_ms = max_timestamp_ms
        self.size += size
        self.next_offset = next_offset

    def before(self, offset: int) -> Position:
        """Offset and position of a batch at or before the one that holds `offset` (>= base)."""
        at = bisect_right(self._offsets, offset - self.base)
        return Position(self._offsets[at - 1] + self.base, self._positions[at - 1]) if at else Position(self.base, 0)

    def epoch_at(self, offset: int) -> tuple[int, int]:
        """The leader epoch of the batch that begins at `offset`, and the offset where the next epoch begins.

        Epoch -1 when it is not known: epochs never fall along a log, so where two neighbours do, one of them is damaged
        and it is not known which.
        """
        at = bisect_right(self.epochs, offset, key=itemgetter(1))
        epochs = [epoch for epoch, _ in self.epochs[max(0, at - 2) : at + 1]]
        known = at > 0 and all(earlier < later for earlier, later in pairwise(epochs))
        epoch = self.epochs[at - 1][0] if known else -1
        return epoch, self.epochs[at][1] if at < len(self.epochs) else self.next_offset

    def last_up_to(self, position: int) -> int:
        """The largest known batch position at or below `position`."""
        at = bisect_right(self._positions, position)
        return self._positions[at - 1] if at else 0

    def before_timestamp(self, timestamp_ms: int) -> int:
        """Position at or before the first batch whose maxTimestamp reaches `timestamp_ms`."""
        at = bisect_left(self._maxima, timestamp_ms)
        return self._positions[at - 1] if at else 0

    def alike(self, other: "SegmentIndex") -> bool:
        """Whether both were made from the same bytes of a segment; what the segments before add is left out."""
        return self._encode(None) == other._encode(None)

    def encode(self) -> bytes:
        """The sidecar."""
        return self._encode(self.section)

    def _encode(self, section: TransactionsSection | None) -> bytes:
        body = b"".join(
            (
                *(_EPOCH.pack(epoch, start) for epoch, start in self.epochs),
                _big_endian(self._offsets),
                _big_endian(self._positions),
                _big_endian(self._maxima),
                b"" if section is None else _encode_section(section),
            )
        )
        head = _HEAD.pack(
            _SIDECAR_MAGIC,
            _WITH_TRANSACTIONS if self.transactional else _SIDECAR_VERSION,
            0 if section is None else 1,
            self.base,
            self.next_offset,
            self.size,
            self.first_timestamp_ms,
            self.max_timestamp_ms,
            len(self.epochs),
            len(self._offsets),
            0,
        )[:-4]
        return head + crc32c(body, crc32c(head)).to_bytes(4, "big") + body


def segment_name(base: int) -> str:
    """Kafka's: the base offset in 20 digits."""
    return f"{base:020d}.log"


def sidecar_name(base: int) -> str:
    return f"{base:020d}.sidx"


def read_sidecar(disk: Disk, folder: str, base: int) -> SegmentIndex | None:
    """None when it is absent or damaged."""
    try:
        file = disk.open(f"{folder}/{sidecar_name(base)}")
    except FileNotFoundError:
        return None
    try:
        return _decode(file.pread(0, file.size()), base)
    finally:
        file.close()


def _decode(data: bytes, base: int) -> SegmentIndex | None:
    if len(data) < _HEAD.size:
        return None
    magic, version, marked, stored_base, next_offset, size, first_ms, max_ms, epochs, slots, crc = _HEAD.unpack_from(
        data
    )
    if (magic, stored_base) != (_SIDECAR_MAGIC, base) or version not in (_SIDECAR_VERSION, _WITH_TRANSACTIONS):
        return None
    section_at = _HEAD.size + epochs * _EPOCH.size + slots * 16
    if version == _SIDECAR_VERSION or not marked:
        whole = len(data) == section_at
    else:
        whole = len(data) >= section_at + _SECTION.size and len(data) == _section_end(data, section_at)
    if not whole:
        return None
    if crc32c(memoryview(data)[_HEAD.size :], crc32c(data[: _HEAD.size - 4])) != crc:
        return None
    index = SegmentIndex(base)
    index.next_offset, index.size = next_offset, size
    index.first_timestamp_ms, index.max_timestamp_ms = first_ms, max_ms
    index.transactional = version == _WITH_TRANSACTIONS
    if index.transactional and marked:
        index.section = _decode_section(data, section_at)
    at = _HEAD.size
    for _ in range(epochs):
        index.epochs.append(_EPOCH.unpack_from(data, at))
        at += _EPOCH.size
    for column, width in ((index._offsets, 4), (index._positions, 4), (index._maxima, 8)):
        column.frombytes(data[at : at + slots * width])
        if sys.byteorder == "little":
            column.byteswap()
        at += slots * width
    if slots:
        index._indexed_to = index._positions[-1]
    return index


def _encode_section(section: TransactionsSection) -> bytes:
    head = _SECTION.pack(len(section.opened), section.aborted, section.checksum)
    return head + b"".join(_OPEN.pack(*one) for one in section.opened)


def _section_end(data: bytes, at: int) -> int:
    opened: int = _SECTION.unpack_from(data, at)[0]
    return at + _SECTION.size + opened * _OPEN.size


def _decode_section(data: bytes, at: int) -> TransactionsSection:
    opened, aborted, checksum = _SECTION.unpack_from(data, at)
    first = at + _SECTION.size
    pairs = ((int(pid), int(offset)) for pid, offset in _OPEN.iter_unpack(data[first : first + opened * _OPEN.size]))
    return TransactionsSection(tuple(pairs), aborted, checksum)


def _big_endian(column: "array[int]") -> bytes:
    if sys.byteorder == "big":
        return column.tobytes()
    copy = column[:]
    copy.byteswap()
    return copy.tobytes()


def scan(file: File, index: SegmentIndex, stop: int, name: str) -> None:
    """Walk the batch headers from the end of `index` to the byte `stop`, which must end a batch; extends `index`.

    Raises Corruption when the offsets have a gap or the lengths do not add up to `stop`: these bytes were synced once,
    so a torn write is no explanation.
    """
    unpack = _BATCH.unpack_from
    while index.size < stop:
        start = index.size
        data = file.pread(start, min(_SCAN_BYTES, stop - start))
        limit = len(data) - HEADER_BYTES
        at = 0
        while at <= limit:
            offset, length, epoch, magic, _crc, attributes, delta, _base_ms, max_ms = unpack(data, at)
            size = length + LOG_OVERHEAD
            if size < HEADER_BYTES or magic != MAGIC or offset != index.next_offset or delta < 0:
                raise Corruption(f"segment {name}: no batch of offset {index.next_offset} at {start + at}")
            if start + at + size > stop:
                raise Corruption(f"segment {name}: the batch at {start + at} ends after {stop}")
            index.note(size, offset + delta + 1, epoch, max_ms, attributes)
            at += size
        if index.size == start:
            raise Corruption(f"segment {name}: {len(data)} bytes at {start} where a batch should be, up to {stop}")
