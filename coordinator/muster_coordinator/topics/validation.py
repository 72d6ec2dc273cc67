"""Whether a batch may enter the log, and with which bytes. Rows 5, 11-20, 22, 24 of protocol notes 12.2. Pure.

Problem: everything that is appended is served to every consumer while it is retained, so a malformed batch must be
recognised and refused before, at a cost that the loop can bear. Mechanism: one header parse and one CRC for every
batch; the records of an uncompressed batch are walked once (`record_walk`), those of a compressed one are not read
(decision 25), but for a compacted topic: every record must have a key there, so a batch that is small when inflated is
inflated. Where Kafka answers -1 for malformed input this answers 87, 76 or 42 (protocol notes 18). Fields inside
the CRC are rewritten only where Kafka does so (12.3): maxTimestamp from the records, the LogAppendTime bit, and then a
new CRC. What it does not do: judge producer ids and sequences (`partition`), versions and topics (the API).
"""

import struct
from itertools import islice
from typing import NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.records.batch import (
    BATCH_LENGTH_MIN,
    CONTROL,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    parse_header,
)
from muster_coordinator.records.crc import crc32c
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.inflate import inflate
from muster_coordinator.topics import limits
from muster_coordinator.topics.machine import RecordError, Refused
from muster_coordinator.topics.record_walk import BadRecordError, Scan, keyless, scan, timestamp_deltas
from muster_coordinator.topics.settings import TopicSettings

CODEC_MAX = 4
MAGIC_AT = 16
OLDEST_MESSAGE_BYTES_MIN = 14
"""Least length of a message in any format ever. A smaller length is damage, not the batch of an old producer."""
_INT64_MAX = 2**63 - 1

_LENGTH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_CRC = struct.Struct(">I")


class Checked(NamedTuple):
    """A batch that may be appended, as far as its own bytes show."""

    batch: bytes
    header: BatchHeader
    """The header that will be stored, except for the checksum."""
    log_append_time_ms: int
    """The timestamp to answer; -1 on CreateTime topics."""


def validate(wall_ms: int, records: bytes, settings: TopicSettings) -> Refused | Checked:
    """Check the records field of one partition of a Produce request. `wall_ms` is the leader's clock."""
    batch = _one_batch(records)
    if isinstance(batch, Refused):
        return batch
    header = parse_header(batch)
    refused = _bad_header(batch, header, settings)
    if refused is not None:
        return refused
    timed = _timestamps(wall_ms, batch, header, settings)
    if isinstance(timed, Refused):
        return timed
    if len(batch) > settings.segment_bytes:
        return _unseen(
            Code.RECORD_LIST_TOO_LARGE, f"the batch has {len(batch)} bytes, segment.bytes is {settings.segment_bytes}"
        )
    attributes, max_ms = timed
    if attributes != header.attributes or max_ms != header.max_timestamp_ms:
        header = header._replace(attributes=attributes, max_timestamp_ms=max_ms)
        batch = _rewritten(batch, attributes, max_ms)
    return Checked(batch, header, wall_ms if settings.log_append_time else NO_TIMESTAMP)


def _bad_header(batch: bytes, header: BatchHeader, settings: TopicSettings) -> Refused | None:
    """Rows 11 to 16 and the codec."""
    if header.base_offset != 0:
        return Refused(Code.INVALID_RECORD, f"a produced batch must begin at offset 0, not {header.base_offset}")
    if len(batch) > settings.max_message_bytes:
        return _unseen(
            Code.MESSAGE_TOO_LARGE,
            f"the batch has {len(batch)} bytes, max.message.bytes is {settings.max_message_bytes}",
        )
    if crc32c(memoryview(batch)[CRC_FROM:]) != header.crc:
        return _unseen(Code.CORRUPT_MESSAGE, "the batch does not match its checksum")
    if header.count <= 0 or header.count != header.last_offset_delta + 1:
        return Refused(
            Code.INVALID_RECORD, f"{header.count} records cannot end at offset delta {header.last_offset_delta}"
        )
    if header.attributes & (CONTROL | DELETE_HORIZON):
        return Refused(Code.INVALID_RECORD, "a producer must not send control batches or delete horizons")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return Refused(Code.INVALID_RECORD, "a batch with a producer id must have an epoch and a sequence")
    if header.compression > CODEC_MAX:
        return Refused(Code.UNSUPPORTED_COMPRESSION_TYPE, f"compression codec {header.compression} is unknown")
    return None


def _unseen(code: Code, message: str) -> Refused:
    """A refusal whose answer does not carry the log start (protocol notes 12.2, below the table)."""
    return Refused(code, message, log_start_shown=False)


def _one_batch(records: bytes) -> Refused | bytes:
    """The first batch of `records`, which must be complete and the only one. Bytes after it that are no batch are
    dropped."""
    end = _batch_end(records, 0)
    if isinstance(end, Refused):
        return end
    if records[MAGIC_AT] < MAGIC:
        return _unseen(Code.INVALID_RECORD, f"record format {records[MAGIC_AT]} is too old; it must be 2")
    if end - LOG_OVERHEAD < BATCH_LENGTH_MIN:
        return _unseen(Code.CORRUPT_MESSAGE, "the batch is shorter than its header")
    if end == len(records):
        return records
    if not isinstance(_batch_end(records, end), Refused):
        return _unseen(Code.INVALID_RECORD, "a partition of a Produce request must have exactly one batch")
    return records[:end]


def _batch_end(records: bytes, start: int) -> Refused | int:
    """The end of the batch that begins at `start`; Refused when no complete batch begins there."""
    left = len(records) - start
    if left < LOG_OVERHEAD:
        return _unseen(Code.INVALID_RECORD, "the records do not contain a complete batch")
    (length,) = _LENGTH.unpack_from(records, start + 8)
    if length < OLDEST_MESSAGE_BYTES_MIN:
        return _unseen(Code.CORRUPT_MESSAGE, f"a batch length of {length} is not possible")
    if left <= MAGIC_AT:
        return _unseen(Code.INVALID_RECORD, "the records do not contain a complete batch")
    if records[start + MAGIC_AT] > MAGIC:
        return _unseen(Code.CORRUPT_MESSAGE, f"record format {records[start + MAGIC_AT]} is unknown")
    if left < LOG_OVERHEAD + length:
        return _unseen(Code.INVALID_RECORD, "the records do not contain a complete batch")
    end: int = start + LOG_OVERHEAD + length
    return end


def _timestamps(wall_ms: int, batch: bytes, header: BatchHeader, settings: TopicSettings) -> Refused | tuple[int, int]:
    """Attributes and maxTimestamp to store. Walks the records of an uncompressed batch."""
    attributes, base_ms, max_ms, count = (
        header.attributes, header.base_timestamp_ms, header.max_timestamp_ms, header.count
    )  # fmt: skip
    walk = None
    if header.compression == 0:
        try:
            walk = scan(batch, HEADER_BYTES, count)
        except BadRecordError as error:
            return Refused(Code.INVALID_RECORD, error.why, (RecordError(error.record, error.why),))
    if settings.log_append_time and attributes & LOG_APPEND_TIME:
        why = "the topic uses LogAppendTime, so a producer must not set that bit"
        return Refused(
            Code.INVALID_TIMESTAMP, why, tuple(RecordError(i, why) for i in range(min(count, limits.RECORD_ERRORS_MAX)))
        )
    if walk is not None:
        max_ms = max(base_ms + walk.greatest_delta_ms, NO_TIMESTAMP)
        if max_ms > _INT64_MAX:
            return Refused(Code.INVALID_RECORD, "a timestamp exceeds 64 bits")
        refused = _bad_records(wall_ms, batch, header, settings, max_ms, walk)
    else:
        refused = None if settings.log_append_time else _bad_header_times(wall_ms, settings, base_ms, max_ms)
        refused = refused or (_bad_compressed(batch, header) if settings.compacts else None)
    if refused is not None:
        return refused
    if settings.log_append_time:
        return attributes | LOG_APPEND_TIME, wall_ms
    return attributes & ~LOG_APPEND_TIME, max_ms


def _bad_records(
    wall_ms: int, batch: bytes, header: BatchHeader, settings: TopicSettings, max_ms: int, walk: Scan
) -> Refused | None:
    """Records without a key in a compacted topic, and records of a CreateTime topic outside its timestamp bounds."""
    base_ms, count = header.base_timestamp_ms, header.count
    errors = _without_keys(batch, HEADER_BYTES, count) if settings.compacts else []
    code = Code.INVALID_RECORD
    oldest, newest = _bounds(wall_ms, settings)
    if not settings.log_append_time and not (oldest <= base_ms + walk.least_delta_ms and max_ms <= newest):
        why = _untimely(oldest, newest)
        times = enumerate(base_ms + delta for delta in timestamp_deltas(batch, HEADER_BYTES, count))
        bad = (RecordError(index, why) for index, ms in times if ms != NO_TIMESTAMP and not oldest <= ms <= newest)
        untimely = list(islice(bad, limits.RECORD_ERRORS_MAX))
        if untimely:
            code = Code.INVALID_TIMESTAMP
            errors += untimely
    if not errors:
        return None
    errors.sort()
    return Refused(code, errors[0].message, tuple(errors[: limits.RECORD_ERRORS_MAX]))


def _without_keys(block: bytes, position: int, count: int) -> list[RecordError]:
    why = "a record of a compacted topic must have a key"
    found = islice(keyless(block, position, count), limits.RECORD_ERRORS_MAX)
    return [RecordError(index, why) for index in found]


def _bad_compressed(batch: bytes, header: BatchHeader) -> Refused | None:
    """Records without a key in a compressed batch to a compacted topic. What cannot be inflated within the bounds is
    taken as it is: records without a key go with the first cleaning."""
    if header.count > limits.KEYS_RECORDS_MAX:
        return None
    try:
        block = inflate(header.compression, batch[HEADER_BYTES:], limits.KEYS_INFLATED_BYTES_MAX)
    except MalformedError:
        return None
    try:
        scan(block, 0, header.count)
    except BadRecordError as error:
        return Refused(Code.INVALID_RECORD, error.why, (RecordError(error.record, error.why),))
    errors = _without_keys(block, 0, header.count)
    return Refused(Code.INVALID_RECORD, errors[0].message, tuple(errors)) if errors else None


def _bad_header_times(wall_ms: int, settings: TopicSettings, base_ms: int, max_ms: int) -> Refused | None:
    """The same for a compressed batch. Only its header is read: the first record's timestamp and the newest."""
    oldest, newest = _bounds(wall_ms, settings)
    why = _untimely(oldest, newest)
    if base_ms != NO_TIMESTAMP and not oldest <= base_ms <= newest:
        return Refused(Code.INVALID_TIMESTAMP, why, (RecordError(0, why),))
    if max_ms != NO_TIMESTAMP and not oldest <= max_ms <= newest:
        return Refused(Code.INVALID_TIMESTAMP, why)
    return None


def _bounds(wall_ms: int, settings: TopicSettings) -> tuple[int, int]:
    return wall_ms - settings.timestamp_before_max_ms, wall_ms + settings.timestamp_after_max_ms


def _untimely(oldest: int, newest: int) -> str:
    return f"its timestamp is not between {oldest} and {newest} (message.timestamp.before.max.ms and .after.max.ms)"


def at_append_time(batch: bytes, wall_ms: int) -> bytes:
    """A batch of the leader's own, for a topic with LogAppendTime."""
    return _rewritten(batch, parse_header(batch).attributes | LOG_APPEND_TIME, wall_ms)


def _rewritten(batch: bytes, attributes: int, max_ms: int) -> bytes:
    changed = bytearray(batch)
    _ATTRIBUTES.pack_into(changed, 21, attributes)
    _TIMESTAMP.pack_into(changed, 35, max_ms)
    _CRC.pack_into(changed, 17, crc32c(memoryview(changed)[CRC_FROM:]))
    return bytes(changed)
