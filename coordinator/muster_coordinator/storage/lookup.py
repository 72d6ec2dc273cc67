"""Finding a record by timestamp, in a worker thread: walks batch headers, and the records of one batch.

Problem: ListOffsets by timestamp must answer with the exact record, also within a compressed batch (protocol notes 14).
Mechanism: segment maxima, then the sparse index, then batch headers narrow the search to one batch, which is inflated
within bounds. The jobs open their own files: a segment that is deleted meanwhile is skipped, as its records are gone.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from muster_coordinator.errors import Corruption, SegmentDamaged
from muster_coordinator.limits import MIB
from muster_coordinator.ports import Disk, File
from muster_coordinator.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    Record,
    check,
    iter_records,
    parse_header,
)
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.inflate import record_block
from muster_coordinator.storage.segment import SegmentSummary, load_index
from muster_coordinator.storage.segment_index import NO_TIMESTAMP, SegmentIndex

_READ_BYTES = MIB


class TimedOffset(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class SegmentSource(NamedTuple):
    """One segment as the job may see it: its first `summary.size` bytes."""

    path: str
    summary: SegmentSummary
    known: SegmentIndex | None
    """The log's own index, shared with the loop: it only grows, and the job reads only what lies below
    `summary.size`."""


def offset_by_time_job(
    disk: Disk, sources: tuple[SegmentSource, ...], log_start_offset: int, timestamp_ms: int
) -> Callable[[], TimedOffset | None]:
    """See `PartitionLog.offset_by_time`."""

    def job() -> TimedOffset | None:
        for source in sources:
            if source.summary.max_timestamp_ms >= timestamp_ms and source.summary.next_offset > log_start_offset:
                found = _first_at_or_after(disk, source, log_start_offset, timestamp_ms)
                if found is not None:
                    return found
        return None

    return job


def max_timestamp_job(disk: Disk, sources: tuple[SegmentSource, ...]) -> Callable[[], TimedOffset | None]:
    """See `PartitionLog.max_timestamp`."""
    maxima = sorted({source.summary.max_timestamp_ms for source in sources} - {NO_TIMESTAMP}, reverse=True)

    def job() -> TimedOffset | None:
        largest: TimedOffset | None = None
        for largest_ms in maxima:
            if largest is not None and largest.timestamp_ms >= largest_ms:
                break
            for source in sources:
                if source.summary.max_timestamp_ms == largest_ms:
                    found = _first_at_or_after(disk, source, 0, largest_ms) or _largest(disk, source)
                    if found is not None and (largest is None or _later(found, largest)):
                        largest = found
                        if found.timestamp_ms == largest_ms:
                            break
        return largest

    return job


def _first_at_or_after(
    disk: Disk, source: SegmentSource, log_start_offset: int, timestamp_ms: int
) -> TimedOffset | None:
    try:
        return _look_through(disk, source, log_start_offset, timestamp_ms)
    except Corruption as error:
        raise SegmentDamaged(source.summary.base, str(error)) from error


def _later(found: TimedOffset, than: TimedOffset) -> bool:
    return found.timestamp_ms > than.timestamp_ms or (
        found.timestamp_ms == than.timestamp_ms and found.offset < than.offset
    )


def _largest(disk: Disk, source: SegmentSource) -> TimedOffset | None:
    """The first record with the largest timestamp of a segment whose maximum is that of a batch without records, which
    log cleaning has left."""
    folder = source.path.rpartition("/")[0]
    try:
        index = source.known or load_index(disk, folder, source.summary)
        file = disk.open(source.path)
    except FileNotFoundError:
        return None
    try:
        headers = (header for _, header in _headers(file, 0, source) if header.count)
        largest_ms = max((header.max_timestamp_ms for header in headers), default=NO_TIMESTAMP)
    except Corruption as error:
        raise SegmentDamaged(source.summary.base, str(error)) from error
    finally:
        file.close()
    if largest_ms == NO_TIMESTAMP:
        return None
    return _first_at_or_after(disk, source._replace(known=index), 0, largest_ms)


def _look_through(disk: Disk, source: SegmentSource, log_start_offset: int, timestamp_ms: int) -> TimedOffset | None:
    folder = source.path.rpartition("/")[0]
    try:
        index = source.known or load_index(disk, folder, source.summary)
        file = disk.open(source.path)
    except FileNotFoundError:
        return None
    try:
        for position, header in _headers(file, index.before_timestamp(timestamp_ms), source):
            if header.max_timestamp_ms < timestamp_ms or header.next_offset <= log_start_offset:
                continue
            for record in _records(file, position, header, source.path):
                if record.timestamp_ms >= timestamp_ms and record.offset >= log_start_offset:
                    return TimedOffset(record.offset, record.timestamp_ms, header.leader_epoch)
    finally:
        file.close()
    return None


def _headers(file: File, position: int, source: SegmentSource) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches from `position` to `source.summary.size`."""
    stop = source.summary.size
    data, low, expected = b"", position, -1
    while position < stop:
        if position + HEADER_BYTES > low + len(data):
            data, low = file.pread(position, min(_READ_BYTES, stop - position)), position
        try:
            header = parse_header(data, position - low)
        except MalformedError:
            raise Corruption(f"segment {source.path}: no batch at {position}") from None
        if header.size_bytes < HEADER_BYTES or expected not in (-1, header.base_offset):
            raise Corruption(f"segment {source.path}: no batch at {position}")
        expected = header.next_offset
        yield position, header
        position += header.size_bytes


def _records(file: File, position: int, header: BatchHeader, name: str) -> Iterator[Record]:
    """The batch's records; with LogAppendTime only the first, if none was removed, since all have the same timestamp.

    A batch with a sound CRC whose records cannot be decoded came so from a client and is not disk damage: it counts as
    one record at its base offset.
    """
    if not header.count:
        return
    if header.attributes & LOG_APPEND_TIME and header.count == header.last_offset_delta + 1:
        yield Record(header.base_offset, header.max_timestamp_ms, None, None, ())
        return
    batch = file.pread(position, header.size_bytes)
    if len(batch) != header.size_bytes:
        raise Corruption(f"segment {name}: the batch at {position} is cut short")
    try:
        check(batch)
    except MalformedError as error:
        raise Corruption(f"segment {name}: the batch at {position}: {error}") from error
    try:
        records = list(iter_records(batch, record_block(batch)))
    except MalformedError:
        records = [Record(header.base_offset, header.max_timestamp_ms, None, None, ())]
    yield from records
