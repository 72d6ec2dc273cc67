"""A produced batch as the records that become entries, or why it cannot: before anything is sent to Redis.

Problem: a script that fails in its middle has written half a batch, so every limit is judged before the first XADD.
Mechanism: the batch, whose CRC and counts `topics.validation` has checked, is inflated within the limits of `records`,
walked once, and each record and the whole is measured as the arguments that it becomes. Names of headers stay bytes:
`records.batch` reads text, but librdkafka sends any. What this does not do: judge producers or times.
"""

from collections.abc import Iterator
from typing import NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.records.batch import CONTROL, HEADER_BYTES, LOG_APPEND_TIME, TRANSACTIONAL, parse_header
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.inflate import record_block
from muster_coordinator.records.varint import decode_varint, decode_varlong
from muster_coordinator.redis_streams.entries import StreamRecord, fields_of
from muster_coordinator.redis_streams.errors import NotAppendable
from muster_coordinator.redis_streams.limits import BATCH_ARGUMENTS_MAX, BULK_BYTES_MAX, ENTRY_BYTES_MAX, HEADERS_MAX


class Produced(NamedTuple):
    """What is to be appended: for each record its time, or None for that of the id, and its fields."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: list[tuple[int | None, list[bytes]]]


def produced(batch: bytes, *, log_append_time: bool = False, bulk_bytes_max: int = BULK_BYTES_MAX) -> Produced:
    """Raises NotAppendable. `bulk_bytes_max` is the server's `proto-max-bulk-len`."""
    header = parse_header(batch)
    if header.attributes & (TRANSACTIONAL | CONTROL):
        raise NotAppendable(Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, "topics in Redis take no transactions")
    keeps_time = not (log_append_time or header.attributes & LOG_APPEND_TIME)
    records: list[tuple[int | None, list[bytes]]] = []
    arguments = 0
    try:
        for record in _records(batch, header.base_timestamp_ms, header.count):
            fields = fields_of(record)
            _measure(len(records), record, fields, min(bulk_bytes_max, ENTRY_BYTES_MAX))
            arguments += len(fields) + 2
            if arguments > BATCH_ARGUMENTS_MAX:
                raise NotAppendable(
                    Code.RECORD_LIST_TOO_LARGE, f"more than {BATCH_ARGUMENTS_MAX} arguments of a script"
                )
            records.append((record.timestamp_ms if keeps_time else None, fields))
    except MalformedError as error:
        raise NotAppendable(Code.INVALID_RECORD, str(error)) from None
    return Produced(header.producer_id, header.producer_epoch, header.base_sequence, records)


def _measure(index: int, record: StreamRecord, fields: list[bytes], bytes_max: int) -> None:
    if len(record.headers) > HEADERS_MAX:
        raise NotAppendable(Code.MESSAGE_TOO_LARGE, f"record {index} has more than {HEADERS_MAX} headers")
    size = sum(map(len, fields))
    if size > bytes_max:
        raise NotAppendable(Code.MESSAGE_TOO_LARGE, f"record {index} has {size} bytes as an entry, at most {bytes_max}")


def _records(batch: bytes, base_timestamp_ms: int, count: int) -> Iterator[StreamRecord]:
    block = record_block(batch)
    data, position = (batch, HEADER_BYTES) if block is None else (block, 0)
    for _ in range(count):
        length, position = decode_varint(data, position)
        stop = position + length
        if length < 0 or stop > len(data):
            raise MalformedError("a record ends after its batch")
        delta_ms, position = decode_varlong(data, position + 1)
        _, position = decode_varint(data, position)
        key, position = _nullable(data, position, stop)
        value, position = _nullable(data, position, stop)
        headers, position = _headers(data, position, stop)
        if position != stop:
            raise MalformedError("a record's lengths do not add up")
        yield StreamRecord(base_timestamp_ms + delta_ms, key, value, headers)
    if position != len(data):
        raise MalformedError("bytes after the last record")


def _headers(data: bytes, position: int, stop: int) -> tuple[tuple[tuple[bytes, bytes | None], ...], int]:
    count, position = decode_varint(data, position)
    if not 0 <= count <= stop - position:
        raise MalformedError(f"{count} headers")
    headers = []
    for _ in range(count):
        name, position = _nullable(data, position, stop)
        if name is None:
            raise MalformedError("a header without key")
        value, position = _nullable(data, position, stop)
        headers.append((name, value))
    return tuple(headers), position


def _nullable(data: bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(data, position)
    if length < 0:
        if length != -1:
            raise MalformedError(f"length {length}")
        return None, position
    end = position + length
    if end > stop:
        raise MalformedError("a field ends after its record")
    return data[position:end], end
