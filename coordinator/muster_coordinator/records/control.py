"""End-transaction markers: the control batches that commit or abort a producer's open transaction (KIP-98)."""

import struct
from typing import NamedTuple

from muster_coordinator.records.batch import Record, encode_batch
from muster_coordinator.records.errors import MalformedError, UnsupportedError

ABORT = 0
COMMIT = 1
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class EndMarker(NamedTuple):
    """How a transaction ended."""

    commit: bool
    coordinator_epoch: int


class TransactionMarker(NamedTuple):
    """What a transaction coordinator writes into each partition of a transaction that ended (WriteTxnMarkers)."""

    producer_id: int
    producer_epoch: int
    """From transaction version 2 on the epoch after the transaction's own: its producer is fenced by the marker."""
    end: EndMarker
    transaction_version: int
    """0, 1 or 2 (KIP-890): from 2 on the marker's epoch must be above that of the producer's last batch."""


def marker_batch(marker: TransactionMarker, timestamp_ms: int) -> bytes:
    """The control batch of one marker, as Kafka's `MemoryRecords` writes it: one record, no sequence."""
    key = _KEY.pack(0, COMMIT if marker.end.commit else ABORT)
    return encode_batch(
        [(key, _VALUE.pack(0, marker.end.coordinator_epoch))],
        timestamp_ms=timestamp_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
    )


def decode_control(record: Record) -> EndMarker | None:
    """The marker in a record of a control batch; None for control types that end no transaction."""
    if record.key is None or len(record.key) < _KEY.size:
        raise MalformedError("a control record without its key")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0:
        raise MalformedError(f"control key version {version}")
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise MalformedError("an end-transaction marker without its value")
    value_version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if value_version < 0:
        raise UnsupportedError(f"end-transaction marker version {value_version}")
    return EndMarker(kind == COMMIT, coordinator_epoch)
