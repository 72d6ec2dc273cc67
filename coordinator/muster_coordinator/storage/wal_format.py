"""Bytes of a WAL file: 64-byte header, records of 8-aligned length, batches that end with BATCH_END (docs/format.md,
"WAL").

Problem: after a crash a start must know which batches were synced. Mechanism: every record has a CRC-32C seeded with
the file's identity, so bytes of another file, replica or client payload are not taken for a record; every batch ends
with a BATCH_END that holds its number, its position and a CRC chained over all batches before it.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.raft.members import CONFIG_DATA_BYTES_MAX
from muster_coordinator.raft.messages import HardState
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.contract import RecoveryPoint

MAGIC = b"MWAL"
VERSION = 1
FILE_HEADER_BYTES = 64
RECORD_HEADER_BYTES = 32
ALIGN = 8

ENTRY = 1
HARD_STATE = 2
RECOVERY_POINT = 3
CHECKPOINT = 4
BATCH_END = 5
SEAL = 6
DROP = 7
CONFIG = 8
"""The configuration at the checkpoint of the CHECKPOINT record before it. Only groups whose log has held a CONF entry
have one. No release before feature level 3 reads it, and none has to: below that level no CONF entry exists."""
NO_GROUP = 0xFFFFFFFF
"""Group of BATCH_END and SEAL."""

FILE_HEADER = struct.Struct(">4sHHQ16s16sQII")
RECORD = struct.Struct(">IIBBHIQQ")
"""Payload length, CRC, type, kind, 0, group, index, term. The seeded CRC covers everything after itself."""
_LENGTH_CRC = struct.Struct(">II")
_COVERED = struct.Struct(">BBHIQQ")
_VOTE = struct.Struct(">i")
_LONG_VOTE = struct.Struct(">q")
"""A member number above the i32 of a broker id. Its record is as long: payloads are padded to 8 bytes."""
_RECOVERY_POINT = struct.Struct(">qqq")
_END = struct.Struct(">IQI")
END_BYTES = RECORD_HEADER_BYTES + 16
HARD_STATE_BYTES = RECORD_HEADER_BYTES + 8
CHECKPOINT_BYTES = RECORD_HEADER_BYTES
RECOVERY_POINT_BYTES = RECORD_HEADER_BYTES + 24
"""Bytes of a whole record, padding included, as in the two above."""
CONFIG_BYTES_MAX = RECORD_HEADER_BYTES + CONFIG_DATA_BYTES_MAX + ALIGN - 1
COMPLETES = 1
"""Kind of a HARD_STATE: with it, the file holds the states of all groups (`wal_opening`)."""
COMPLETES_AT_ONCE = 2
"""Kind of a HARD_STATE: this one batch holds the states of all groups, so a hole before it does not matter
(`wal_hole`)."""
KEEPS = 1
"""Kind of a CHECKPOINT: the log held the checkpoint's entry and keeps those after it. Kind 0: an older release wrote
the record and did not say."""
ANEW = 2
"""Kind of a CHECKPOINT: the log did not hold the checkpoint's entry and begins anew after it."""
_SHORT_VOTE_MAX = 2**31 - 1
_SPREAD = 1
"""Flag in the file header, see `FileHeader.spread`."""
_PADS = [bytes(-n % ALIGN) for n in range(ALIGN)]
_END_SIGN = struct.pack(">BBHI", BATCH_END, 0, 0, NO_GROUP)
_CRC_BYTES = FILE_HEADER_BYTES - 4


class FileHeader(NamedTuple):
    """The header of a WAL file."""

    sequence: int
    node_uuid: bytes
    cluster_uuid: bytes
    first_batch: int
    """Number of the first batch in the file."""
    chain: int
    """Chain value before that batch: links the file to the one before it."""
    spread: bool = False
    """The first batch does not hold the states of all groups; a later HARD_STATE of kind COMPLETES says when the file
    has them."""

    @property
    def seed(self) -> int:
        """Start value of every record CRC in this file."""
        return crc32c(self.sequence.to_bytes(8, "big"), crc32c(self.cluster_uuid, crc32c(self.node_uuid)))


class BatchEnd(NamedTuple):
    """The fields of a BATCH_END record."""

    start: int
    """File position of the batch's first record."""
    number: int
    records: int
    size: int
    """Bytes of the records, BATCH_END excluded."""
    chain: int


def file_name(sequence: int) -> str:
    return f"{sequence:016x}.wal"


def encode_file_header(header: FileHeader) -> bytes:
    sequence, node, cluster, first_batch, chain, spread = header
    data = FILE_HEADER.pack(MAGIC, VERSION, _SPREAD * spread, sequence, node, cluster, first_batch, chain, 0)[
        :_CRC_BYTES
    ]
    return data + crc32c(data).to_bytes(4, "big")


def decode_file_header(data: bytes, name: str) -> FileHeader:
    """Corruption when it is damaged; UnsupportedFormat when a newer release wrote it.

    Every version keeps a header of 64 bytes with magic, version and CRC at the same positions.
    """
    if len(data) < FILE_HEADER_BYTES:
        raise Corruption(f"WAL file {name}: the header is cut short")
    magic, version, flags, sequence, node, cluster, first_batch, chain, crc = FILE_HEADER.unpack_from(data)
    if magic != MAGIC or crc32c(data[:_CRC_BYTES]) != crc:
        raise Corruption(f"WAL file {name}: the header is damaged")
    if version != VERSION:
        raise UnsupportedFormat(f"WAL file {name}: version {version}, this release knows {VERSION}")
    return FileHeader(sequence, node, cluster, first_batch, chain, bool(flags & _SPREAD))


class BatchWriter:
    """Collects the records of one batch and returns the position of each."""

    __slots__ = ("_parts", "_records", "_seed", "_start", "position")

    def __init__(self, seed: int, start: int) -> None:
        self._seed = seed
        self._start = start
        self._parts: list[bytes] = []
        self._records = 0
        self.position = start

    def add(self, kind_of_record: int, group: int, index: int, term: int, payload: bytes = b"", kind: int = 0) -> int:
        """Append one record; returns its file position."""
        position = self.position
        length = len(payload)
        covered = _COVERED.pack(kind_of_record, kind, 0, group, index, term)
        crc = crc32c(payload, crc32c(covered, self._seed))
        self._parts += (_LENGTH_CRC.pack(length, crc), covered, payload, _PADS[length % ALIGN])
        self.position = position + RECORD_HEADER_BYTES + length + (-length % ALIGN)
        self._records += 1
        return position

    def add_hard_state(self, group: int, state: HardState, *, kind: int = 0) -> None:
        """`kind`: 0, COMPLETES or COMPLETES_AT_ONCE."""
        vote = state.vote
        payload = _VOTE.pack(vote) if vote <= _SHORT_VOTE_MAX else _LONG_VOTE.pack(vote)
        self.add(HARD_STATE, group, state.commit, state.term, payload, kind)

    def add_recovery_point(self, group: int, recovery_point: RecoveryPoint) -> None:
        self.add(
            RECOVERY_POINT,
            group,
            recovery_point.applied,
            0,
            _RECOVERY_POINT.pack(recovery_point.next_offset, recovery_point.segment, recovery_point.position),
        )

    def finish(self, number: int, chain: int) -> tuple[bytes, int]:
        """(bytes of the batch with its BATCH_END, chain value after it)."""
        records = self._records
        size = self.position - self._start
        body = b"".join(self._parts)
        assert len(body) == size
        chain = crc32c(body, chain)
        self._parts.clear()
        self.add(BATCH_END, NO_GROUP, self._start, number, _END.pack(records, size, chain))
        return b"".join((body, *self._parts)), chain


def decode_hard_state(index: int, term: int, payload: bytes) -> HardState:
    form = _VOTE if len(payload) == _VOTE.size else _LONG_VOTE
    return HardState(term, form.unpack(payload)[0], index)


def decode_recovery_point(index: int, payload: bytes) -> RecoveryPoint:
    return RecoveryPoint(index, *_RECOVERY_POINT.unpack(payload))


def decode_end(data: bytes | memoryview, position: int, seed: int) -> BatchEnd | None:
    """The BATCH_END at `position`; None when there is none or its CRC does not match."""
    if len(data) - position < END_BYTES:
        return None
    length, crc, kind_of_record, _kind, _zero, _group, start, number = RECORD.unpack_from(data, position)
    if kind_of_record != BATCH_END or length != _END.size:
        return None
    covered = data[position + 8 : position + RECORD_HEADER_BYTES + _END.size]
    if crc32c(covered, seed) != crc:
        return None
    return BatchEnd(start, number, *_END.unpack_from(data, position + RECORD_HEADER_BYTES))


def record_is_sound(record: bytes, seed: int) -> bool:
    """Does a record (header and payload, without padding) match its CRC?"""
    crc: int = _LENGTH_CRC.unpack_from(record)[1]
    return crc32c(memoryview(record)[8:], seed) == crc


def ends_behind(data: bytes, position: int, seed: int) -> Iterator[tuple[int, BatchEnd]]:
    """(position, fields) of every BATCH_END at or after `position` whose CRC matches and whose size leads back to its
    start. A client may have stored bytes that imitate one (`wal_hole`)."""
    found = data.find(_END_SIGN, position)
    while found >= 0:
        at = found - 8
        if at % ALIGN == 0 and at >= position:
            end = decode_end(data, at, seed)
            if end is not None and end.start + end.size == at:
                yield at, end
        found = data.find(_END_SIGN, found + 1)


def later_end(data: bytes, position: int, seed: int, above: int) -> BatchEnd | None:
    """A sound BATCH_END after `position` of a batch numbered `above` or more. It proves that the batch at `position`
    was synced, because a batch is written only after the one before it is durable."""
    return next((end for _, end in ends_behind(data, position, seed) if end.number >= above), None)
