"""The proof before a proposal: every replica can read back, now and later, what this batch writes to the offsets log.

Problem: a committed entry that cannot be applied stops its partition on every replica, and again after every restart.
Mechanism: the leader reads each batch as the replicas will, before it proposes it: header, every key, every value,
with the decoders of `replay`. Plain commits take the same single pass as in apply, a microsecond or two per record.
Records of a group are decoded with all members up to `limits.PROOF_DECODED_BYTES_MAX`, some 300 members. Of a larger
record only what `replay` reads is decoded, because a thousand members take 9 ms. That is enough: the encoders refuse
every string that is too long and every number out of range, and each member was in a smaller record before or was
measured when it joined.

What it deliberately does not check: whether the change is right (the handlers do), and whether Raft accepts it (the
host does).
"""

import struct

from muster_coordinator.groups import limits
from muster_coordinator.groups.effects import Append
from muster_coordinator.groups.faults import Unprovable
from muster_coordinator.groups.log.plain_commits import plain_commits
from muster_coordinator.groups.state.classic_group import State
from muster_coordinator.groups.state.stored_group import StoredGroup, after_metadata, after_own
from muster_coordinator.limits import OFFSETS_BATCH_BYTES_MAX
from muster_coordinator.records.batch import (
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    encode_batch,
    iter_records,
    parse_header,
)
from muster_coordinator.records.control import decode_control
from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.keys import (
    CandidateGenerationKey,
    GroupMetadataKey,
    GroupRebalanceKey,
    OffsetCommitKey,
    decode_key,
)
from muster_coordinator.records.offsets_log import decode_offset_value

_UNREADABLE = (MalformedError, UnsupportedError, struct.error, ValueError, IndexError, OverflowError, AssertionError)
"""Errors that encoding and reading back raise; ValueError includes text that is not UTF-8."""


def proven_batch(append: Append) -> bytes:
    """The batch of `append` with base offset 0, which every replica can apply, checkpoint and describe. Raises
    Unprovable."""
    try:
        batch = encode_batch(
            append.records,
            timestamp_ms=append.timestamp_ms,
            producer_id=append.producer_id,
            producer_epoch=append.producer_epoch,
            # Kafka's coordinators begin at 0 and its markers have none; nobody judges either.
            base_sequence=NO_SEQUENCE if append.control or append.producer_id == NO_PRODUCER_ID else 0,
            transactional=append.transactional,
            control=append.control,
        )
        if len(batch) > OFFSETS_BATCH_BYTES_MAX:
            raise Unprovable(f"a batch of {len(batch)} bytes")
        header = parse_header(batch)
        _producer(header)
        if plain_commits(batch, header, 0) is None:
            for record in iter_records(batch, None):
                _read(record, control=header.is_control, transactional=header.is_transactional)
    except _UNREADABLE as error:
        raise Unprovable(f"{type(error).__name__}: {error}") from error
    return batch


def _producer(header: BatchHeader) -> None:
    """A batch has a producer exactly if it belongs to a transaction; a control batch is one marker."""
    owned = header.producer_id >= 0 and header.producer_epoch >= 0
    if owned != header.is_transactional or (header.is_control and not (owned and header.count == 1)):
        raise Unprovable(
            f"a batch of producer {header.producer_id}, epoch {header.producer_epoch}, attributes {header.attributes}"
        )


def _read(record: Record, *, control: bool, transactional: bool) -> None:
    if control:
        if decode_control(record) is None:
            raise Unprovable("a control record that ends no transaction")
        return
    if record.key is None:
        raise Unprovable("a record without a key")
    key, value = decode_key(record.key), record.value
    if transactional and (value is None or not isinstance(key, OffsetCommitKey)):
        raise Unprovable("only offsets are pending until a transaction ends")
    if value is None:
        return
    match key:
        case OffsetCommitKey():
            decode_offset_value(value)
        case GroupMetadataKey():
            _members(after_metadata(None, value), value)
        case CandidateGenerationKey():
            _members(after_own(State.COMPLETING, value), value)
        case GroupRebalanceKey():
            _members(after_own(State.PREPARING, value), value)
        case _:
            raise Unprovable(f"a record that is not ours: {key!r}")


def _members(stored: StoredGroup, value: bytes) -> None:
    if len(value) <= limits.PROOF_DECODED_BYTES_MAX:
        stored.decode()
