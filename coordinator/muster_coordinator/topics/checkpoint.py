"""Bytes of a topic partition's checkpoint: offsets and the producer table. Deterministic, versioned, one head.

What it does not do: hold records. They are in the segments, and a checkpoint never goes beyond the durable recovery
point of those (decision 2).
"""

import struct
from dataclasses import dataclass

from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.groups.effects import CheckpointBody, CheckpointParts
from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.producers import ProducerTable

CHECKPOINT_VERSION = 1

_HEAD = struct.Struct(">Bqq")
"""Version, next_offset, log_start_offset; then the producer table in its own layout (`records.producers`)."""


@dataclass(frozen=True, slots=True)
class PartitionCheckpoint:
    """All durable state of a `TopicPartition`."""

    next_offset: int
    log_start_offset: int
    producers: ProducerTable
    """A copy that no code changes."""

    def encode(self) -> CheckpointBody:
        head = _HEAD.pack(CHECKPOINT_VERSION, self.next_offset, self.log_start_offset)
        return CheckpointBody(head + self.producers.encode(), ())

    def parts(self) -> CheckpointParts:
        return CheckpointParts(self.encode().head, iter(()))


def decode_checkpoint(body: CheckpointBody) -> PartitionCheckpoint:
    """The state in `body`. Raises `UnsupportedFormat` for another version, `Corruption` for malformed bytes."""
    head, blobs = body
    if not head or blobs:
        raise Corruption("a partition checkpoint must have a head and no blobs")
    if head[0] != CHECKPOINT_VERSION:
        raise UnsupportedFormat(f"partition checkpoint version {head[0]}; this binary knows {CHECKPOINT_VERSION}")
    if len(head) < _HEAD.size:
        raise Corruption(f"a partition checkpoint of {len(head)} bytes is too short")
    _version, next_offset, log_start_offset = _HEAD.unpack_from(head)
    try:
        producers = ProducerTable.decode(head[_HEAD.size :])
    except UnsupportedError as error:
        raise UnsupportedFormat(f"partition checkpoint: {error}") from error
    except MalformedError as error:
        raise Corruption(f"partition checkpoint: {error}") from error
    return PartitionCheckpoint(next_offset, log_start_offset, producers)
