"""Records of `__transaction_state`: Kafka's TransactionLogKey v0 and TransactionLogValue v0 and v1 (KIP-98, KIP-890).

Written: v1, the first flexible version, whose tagged fields are Kafka's too: previous producer id (0), next producer id
(1) and the client's transaction version (2), each only where it differs from its default. Read: v0 and v1; a higher
version raises UnsupportedError, as its meaning is unknown, while unknown tags are passed over, as Kafka intends by
KIP-915. Partitions are sorted, so equal values have equal bytes. A null value (a tombstone) never reaches these
functions. What this does not do: judge which states may follow each other.
"""

from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.fields import I16, I32, I64, Reader, compact_string, string
from muster_coordinator.records.varint import encode_unsigned

KEY_VERSION = 0
VALUE_VERSION = 1
NO_PRODUCER = -1
_TOPIC = itemgetter(0)
_PREVIOUS_PRODUCER_TAG = 0
_NEXT_PRODUCER_TAG = 1
_CLIENT_VERSION_TAG = 2

TopicPartition = tuple[str, int]


class TransactionValue(NamedTuple):
    """What the log says of one transactional id."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    """Number of the state, as Kafka numbers them."""
    partitions: tuple[TopicPartition, ...] | None
    """Sorted; None where the state has none."""
    last_update_ms: int
    start_ms: int
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    client_version: int = 0
    """Transaction version that the client of the last change used: 2 from KIP-890 part 2 on."""


def encode_transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id. MalformedError above 32,767 bytes."""
    return I16.pack(KEY_VERSION) + string(transactional_id)


def decode_transaction_key(key: bytes) -> str:
    """The transactional id. Raises UnsupportedError for another version."""
    reader = Reader(key)
    version = reader.i16()
    if version != KEY_VERSION:
        raise UnsupportedError(f"transaction log key version {version}")
    transactional_id = reader.string()
    reader.end()
    return transactional_id


def encode_transaction_value(value: TransactionValue, version: int = VALUE_VERSION) -> bytes:
    """The value in `version`; v0 has no room for the tagged fields, and leaves them out as Kafka's v0 does."""
    parts = [I16.pack(version), I64.pack(value.producer_id), I16.pack(value.producer_epoch)]
    parts += (I32.pack(value.timeout_ms), value.status.to_bytes(1, "big", signed=True))
    parts += _partitions(value.partitions, flexible=version >= VALUE_VERSION)
    parts += (I64.pack(value.last_update_ms), I64.pack(value.start_ms))
    if version >= VALUE_VERSION:
        parts.append(_tags(value))
    return b"".join(parts)


def _partitions(partitions: tuple[TopicPartition, ...] | None, *, flexible: bool) -> list[bytes]:
    if partitions is None:
        return [b"\0" if flexible else I32.pack(-1)]
    topics = [(topic, [index for _, index in rows]) for topic, rows in groupby(partitions, _TOPIC)]
    parts = [_count(len(topics), flexible=flexible)]
    for topic, indexes in topics:
        parts.append(compact_string(topic) if flexible else string(topic))
        parts.append(_count(len(indexes), flexible=flexible))
        parts += [I32.pack(index) for index in indexes]
        if flexible:
            parts.append(b"\0")
    return parts


def _count(count: int, *, flexible: bool) -> bytes:
    return encode_unsigned(count + 1) if flexible else I32.pack(count)


def _tags(value: TransactionValue) -> bytes:
    tags = []
    if value.previous_producer_id != NO_PRODUCER:
        tags.append((_PREVIOUS_PRODUCER_TAG, I64.pack(value.previous_producer_id)))
    if value.next_producer_id != NO_PRODUCER:
        tags.append((_NEXT_PRODUCER_TAG, I64.pack(value.next_producer_id)))
    if value.client_version:
        tags.append((_CLIENT_VERSION_TAG, I16.pack(value.client_version)))
    written = [encode_unsigned(len(tags))]
    for tag, data in tags:
        written += (encode_unsigned(tag), encode_unsigned(len(data)), data)
    return b"".join(written)


def decode_transaction_value(value: bytes) -> TransactionValue:
    """Decode v0 or v1. Raises UnsupportedError for a higher version, MalformedError for anything else."""
    reader = Reader(value)
    version = reader.i16()
    if version < 0:
        raise MalformedError(f"transaction log value version {version}")
    if version > VALUE_VERSION:
        raise UnsupportedError(f"transaction log value version {version}")
    flexible = version >= VALUE_VERSION
    producer_id, producer_epoch, timeout_ms = reader.i64(), reader.i16(), reader.i32()
    status = int.from_bytes(reader.take(1), "big", signed=True)
    partitions = _read_partitions(reader, flexible=flexible)
    last_update_ms, start_ms = reader.i64(), reader.i64()
    tags = reader.tags() if flexible else {}
    reader.end()
    return TransactionValue(
        producer_id,
        producer_epoch,
        timeout_ms,
        status,
        partitions,
        last_update_ms,
        start_ms,
        _tagged(tags, _PREVIOUS_PRODUCER_TAG, I64.size, NO_PRODUCER),
        _tagged(tags, _NEXT_PRODUCER_TAG, I64.size, NO_PRODUCER),
        _tagged(tags, _CLIENT_VERSION_TAG, I16.size, 0),
    )


def _tagged(tags: dict[int, bytes], tag: int, size: int, default: int) -> int:
    data = tags.get(tag)
    if data is None:
        return default
    if len(data) != size:
        raise MalformedError(f"tag {tag} of a transaction log value has {len(data)} bytes")
    return int.from_bytes(data, "big", signed=True)


def _read_partitions(reader: Reader, *, flexible: bool) -> tuple[TopicPartition, ...] | None:
    null = b"\0" if flexible else I32.pack(-1)
    if reader.data[reader.position : reader.position + len(null)] == null:
        reader.take(len(null))
        return None
    found: set[TopicPartition] = set()
    for _ in range(reader.count(compact=flexible, least_bytes=3 if flexible else 6)):
        topic = reader.compact_string() if flexible else reader.string()
        for _ in range(reader.count(compact=flexible, least_bytes=4)):
            found.add((topic, reader.i32()))
        if flexible:
            reader.tags()
    return tuple(sorted(found))
