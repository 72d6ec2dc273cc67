"""What tests do with batches and no replica does: split a log, and end a transaction as its coordinator would."""

import struct

from muster_coordinator.records.batch import BATCH_LENGTH_MIN, LOG_OVERHEAD, encode_batch
from muster_coordinator.records.control import ABORT, COMMIT, EndMarker
from muster_coordinator.records.errors import MalformedError

_PLACE = struct.Struct(">qi")
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


def split_batches(data: bytes, *, allow_partial: bool = False) -> list[bytes]:
    """The whole batches that lie back to back in `data`, unchecked but for their lengths.

    `allow_partial` drops an incomplete last one, as a Fetch answer may hold; otherwise that is malformed.
    """
    found = []
    position, end = 0, len(data)
    while end - position >= LOG_OVERHEAD:
        length: int = _PLACE.unpack_from(data, position)[1]
        if length < BATCH_LENGTH_MIN:
            raise MalformedError(f"batchLength {length}")
        stop = position + LOG_OVERHEAD + length
        if stop > end:
            break
        found.append(data[position:stop])
        position = stop
    if position != end and not allow_partial:
        raise MalformedError(f"{end - position} bytes after the last whole batch")
    return found


def encode_end_marker(
    marker: EndMarker, *, producer_id: int, producer_epoch: int, timestamp_ms: int, base_offset: int = 0
) -> bytes:
    """The control batch of one marker."""
    key = _KEY.pack(0, COMMIT if marker.commit else ABORT)
    return encode_batch(
        ((key, _VALUE.pack(0, marker.coordinator_epoch)),),
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
