"""What is left of one batch (Kafka's `MemoryRecords.filterTo`), and the empty batches between what is left.

Problem: a consumer that was in the middle of a log, a producer that goes on with its sequence, and a reader that looks
for an offset must not notice that records were removed. Mechanism: a batch from which records went keeps its base
offset, last offset delta, producer, epoch, sequences, timestamps and codec; only its count shrinks. The first cleaning
that leaves a tombstone, or a marker without data, sets DELETE_HORIZON and writes the horizon into base timestamp, with
the deltas counted from there (KIP-534). The last batch of a producer stays as a header without records; if it is a
marker, as it is.

Where Kafka removes a batch, one empty batch without a producer covers the run of removed batches of one epoch, as
Kafka itself does at the end of a round. So offsets in a segment follow one another without a gap for ever: a gap stays
what it was, a proof of damage; and a reader of any offset, epoch or time finds its way as before. Records that stay
are copied as bytes unless their deltas change.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster_coordinator.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
)
from muster_coordinator.records.compress import compress
from muster_coordinator.records.crc import crc32c
from muster_coordinator.records.limits import INFLATE_RATIO_MAX
from muster_coordinator.records.varint import decode_unsigned, encode_varint
from muster_coordinator.topics.cleaning.key_map import KeyMap
from muster_coordinator.topics.cleaning.limits import EMPTY_SPAN_MAX
from muster_coordinator.topics.cleaning.records import Area, Place, area

_COVERED = struct.Struct(">hiqqqhii")
_UNCOVERED = struct.Struct(">qiibI")
_LENGTH_OF_REST = 9
"""Bytes of leader epoch, magic and CRC, which the batch's length counts too."""
_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)


class LastOfProducer(NamedTuple):
    """The last that a live producer wrote into the partition."""

    epoch: int
    last_offset: int
    """Last offset of its last data batch; -1: only a marker of it is left."""


class Keeps(NamedTuple):
    """What decides over records and batches in one round."""

    keys: KeyMap
    mapped_to: int
    """Offset after the last batch that the map covers: all from here on stays as it is."""
    now_ms: int
    delete_retention_ms: int
    producers: Mapping[int, LastOfProducer]


def left_of(keeps: Keeps, batch: bytes, header: BatchHeader, may_go: bool) -> bytes | None:
    """The batch as it stays, None when it goes. `may_go`: see `transactions`."""
    horizon_ms = header.base_timestamp_ms if header.attributes & DELETE_HORIZON else None
    passed = horizon_ms is not None and horizon_ms <= keeps.now_ms
    if may_go and (passed or not header.is_control):
        return _last_of_producer(keeps, batch, header)
    found = area(batch, header)
    if found is None:
        return batch
    kept = found.places if header.is_control else _kept(keeps, header, found.places, passed)
    if not kept:
        return _last_of_producer(keeps, batch, header)
    new_ms = min(keeps.now_ms + keeps.delete_retention_ms, _INT64_MAX)
    deletes = horizon_ms is None and (may_go or not all(place[5] for place in kept))
    if deletes and _fits(header, kept, new_ms):
        return _rewritten(header, found, kept, new_ms)
    return batch if len(kept) == len(found.places) else _rewritten(header, found, kept, None)


def _kept(keeps: Keeps, header: BatchHeader, places: list[Place], passed: bool) -> list[Place]:
    base, last = header.base_offset, keeps.keys.last
    kept = []
    for place in places:
        offset, key = base + place[3], place[4]
        if key is not None and offset >= last(key) and (place[5] or not passed):
            kept.append(place)
    return kept


def _fits(header: BatchHeader, kept: Sequence[Place], new_ms: int) -> bool:
    """Do the deltas from `new_ms` fit into 64 bits?"""
    base_ms = header.base_timestamp_ms
    return all(_INT64_MIN <= base_ms + place[2] - new_ms <= _INT64_MAX for place in kept)


def _rewritten(header: BatchHeader, found: Area, kept: Sequence[Place], horizon_ms: int | None) -> bytes:
    data, base_ms, attributes = found.data, header.base_timestamp_ms, header.attributes
    if horizon_ms is None:
        block = b"".join([data[place[0] : place[1]] for place in kept])
    else:
        block = b"".join([_with_delta(data, place, base_ms + place[2] - horizon_ms) for place in kept])
        attributes |= DELETE_HORIZON
    max_ms = header.max_timestamp_ms
    if not attributes & LOG_APPEND_TIME:
        max_ms = base_ms + max(place[2] for place in kept)
    if header.compression:
        small = compress(header.compression, block)
        # What nobody may inflate later is stored as it is.
        if len(block) <= INFLATE_RATIO_MAX * len(small):
            block = small
        else:
            attributes &= ~COMPRESSION_MASK
    return _batch(header, attributes, base_ms if horizon_ms is None else horizon_ms, max_ms, len(kept), block)


def _with_delta(data: bytes, place: Place, delta_ms: int) -> bytes:
    """The record at `place` with another timestamp delta."""
    _length, at = decode_unsigned(data, place[0])
    _delta, rest = decode_unsigned(data, at + 1, 64)
    body = b"".join((data[at : at + 1], encode_varint(delta_ms), data[rest : place[1]]))
    return encode_varint(len(body)) + body


def _last_of_producer(keeps: Keeps, batch: bytes, header: BatchHeader) -> bytes | None:
    """Its header without records, if it is what tells a live producer's epoch and last sequence; else None. A marker
    keeps its record: aiokafka raises at a control batch that has none, and gets no further."""
    last = keeps.producers.get(header.producer_id) if header.producer_id >= 0 else None
    if last is None:
        return None
    if last.last_offset >= 0:
        stays = header.next_offset - 1 == last.last_offset
    else:
        stays = header.is_control and header.producer_epoch == last.epoch
    if not stays:
        return None
    if header.is_control:
        return batch
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL)
    return _batch(header, attributes, header.max_timestamp_ms, header.max_timestamp_ms, 0, b"")


def _batch(header: BatchHeader, attributes: int, base_ms: int, max_ms: int, count: int, block: bytes) -> bytes:
    covered = (
        _COVERED.pack(
            attributes,
            header.last_offset_delta,
            base_ms,
            max_ms,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            count,
        )
        + block
    )
    length = len(covered) + _LENGTH_OF_REST
    return _UNCOVERED.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc32c(covered)) + covered


class Gaps:
    """Writes the batches that stay in offset order, and an empty one for each run of those that went."""

    def __init__(self) -> None:
        self._run: BatchHeader | None = None

    def stays(self, batch: bytes) -> list[bytes]:
        return [*self.end(), batch]

    def goes(self, header: BatchHeader) -> list[bytes]:
        run = self._run
        if run is None:
            self._run = header
            return []
        delta = header.next_offset - 1 - run.base_offset
        if run.leader_epoch != header.leader_epoch or delta > EMPTY_SPAN_MAX:
            return self.end(header)
        max_ms = max(run.max_timestamp_ms, header.max_timestamp_ms)
        self._run = run._replace(last_offset_delta=delta, max_timestamp_ms=max_ms)
        return []

    def end(self, following: BatchHeader | None = None) -> list[bytes]:
        """The empty batch of the run, if there is one; `following` begins the next run."""
        run, self._run = self._run, following
        if run is None:
            return []
        bare = run._replace(producer_id=NO_PRODUCER_ID, producer_epoch=-1, base_sequence=NO_SEQUENCE)
        max_ms = max(run.max_timestamp_ms, NO_TIMESTAMP)
        return [_batch(bare, 0, max_ms, max_ms, 0, b"")]


def is_filler(header: BatchHeader) -> bool:
    """Is this an empty batch that stands for removed ones?"""
    return header.count == 0 and header.producer_id < 0


assert _UNCOVERED.size + _COVERED.size == HEADER_BYTES
