"""Applying the offsets log: the only way in which durable state changes (architecture "State changes only by apply").

Runs on leaders and followers alike, on Muster's log and on one written by a Kafka broker (protocol notes 4.4, 5.6). It
depends on the entries alone: no clock, no random numbers, no setting. Kafka's record types that are not implemented
are kept raw. A record of a newer release, or bytes that are no record, raise, and the replica refuses to continue.

A group's tombstone ends the group but not its committed offsets: deleting a group writes tombstones for those, too.
(Kafka also keeps them: when it migrates a group to the newer protocol, it writes such a tombstone.) Offsets in an open
transaction stay until their producer commits or aborts it.
"""

from itertools import groupby
from operator import itemgetter

from muster_coordinator.groups import limits
from muster_coordinator.groups.effects import AppliedBatch
from muster_coordinator.groups.log.plain_commits import Commit, plain_commits
from muster_coordinator.groups.state.classic_group import State
from muster_coordinator.groups.state.offset_row import CommittedOffset, encode_row, record_offset_of
from muster_coordinator.groups.state.offset_table import Row
from muster_coordinator.groups.state.pending_offsets import Partition
from muster_coordinator.groups.state.shard_state import ShardState
from muster_coordinator.groups.state.stored_group import after_metadata, after_own
from muster_coordinator.records.batch import NO_PRODUCER_ID, BatchHeader, Record, iter_records, parse_header
from muster_coordinator.records.control import decode_control
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.inflate import record_block
from muster_coordinator.records.keys import (
    CandidateGenerationKey,
    GroupMetadataKey,
    GroupRebalanceKey,
    OffsetCommitKey,
    RawKey,
    decode_key,
)
from muster_coordinator.records.offsets_log import decode_offset_value
from muster_coordinator.records.producers import NO_COORDINATOR_EPOCH

_GROUP_OF = itemgetter(0)


def replay_batch(state: ShardState, entry: AppliedBatch) -> int:
    """Apply one batch. Returns the number of offset commits in it."""
    header = parse_header(entry.batch)
    if header.producer_id != NO_PRODUCER_ID and not header.is_control:
        _note_producer(state, header, entry.base_offset)
    plain = plain_commits(entry.batch, header, entry.base_offset)
    if plain is not None:
        return _put_all(state, plain)
    commits = 0
    block = record_block(entry.batch) if header.compression else None
    for record in iter_records(entry.batch, block):
        if header.is_control:
            _end_transaction(state, header, entry.base_offset, record)
        else:
            commits += _replay_record(state, header, entry.base_offset - header.base_offset, record)
    return commits


def _put_all(state: ShardState, plain: list[Commit]) -> int:
    commits = 0
    for group, of_group in groupby(plain, _GROUP_OF):
        rows: list[Row] = []
        for _, topic, partition, row in of_group:
            if row is None:
                state.offsets.put_all(group, rows)
                rows = []
                _remove(state, group, topic, partition)
            else:
                rows.append((topic, partition, row))
                commits += 1
        state.offsets.put_all(group, rows)
    return commits


def _remove(state: ShardState, group: str, topic: str, partition: int) -> None:
    """Apply a tombstone; it also removes pending offsets of open transactions for this partition."""
    state.offsets.remove(group, topic, partition)
    state.pending_offsets.remove(Partition(group, topic, partition))


def _note_producer(
    state: ShardState, header: BatchHeader, base_offset: int, coordinator_epoch: int = NO_COORDINATOR_EPOCH
) -> None:
    """Update the producer table. It is bounded: above the limit, the quarter that was silent longest is removed; the
    choice depends on the log alone, so it is the same on all replicas."""
    producers = state.producers
    producers.apply(header, base_offset, coordinator_epoch)
    if len(producers) <= limits.OFFSETS_PRODUCERS_MAX:
        return
    closed = sorted(
        (found.last_timestamp_ms, producer)
        for producer, found in producers.items()
        if found.transaction_first_offset < 0 and producer != header.producer_id
    )
    producers.expire(producer for _, producer in closed[: limits.OFFSETS_PRODUCERS_MAX // 4])


def _end_transaction(state: ShardState, header: BatchHeader, base_offset: int, record: Record) -> None:
    """Apply a marker. A control record of another kind, or without a producer, ends nothing."""
    marker = decode_control(record)
    if marker is None or header.producer_id == NO_PRODUCER_ID:
        return
    _note_producer(state, header, base_offset, marker.coordinator_epoch)
    for key, row in state.pending_offsets.take(header.producer_id).items():
        # A commit outside the transaction that came later in the log stays in force.
        if not marker.commit:
            continue
        committed = state.offsets.get(key.group, key.topic, key.partition)
        if committed is None or record_offset_of(row) > record_offset_of(committed):
            state.offsets.put(key.group, key.topic, key.partition, row)


def _replay_record(state: ShardState, header: BatchHeader, shift: int, record: Record) -> int:
    """Apply one record. Returns 1 for an offset commit, else 0."""
    if record.key is None:
        raise MalformedError("a record of the offsets log without a key")
    key, value = decode_key(record.key), record.value
    match key:
        case OffsetCommitKey(group, topic, partition):
            if value is None:
                _remove(state, group, topic, partition)
                return 0
            row = _row(value, record.offset + shift)
            if header.producer_id == NO_PRODUCER_ID:
                state.offsets.put(group, topic, partition, row)
            else:
                state.pending_offsets.put(header.producer_id, Partition(group, topic, partition), row)
            return 1
        case GroupMetadataKey(group):
            if value is None:
                state.set_group(group, None)
            else:
                state.set_group(group, after_metadata(state.groups.get(group), value))
        case CandidateGenerationKey(group):
            if value is not None:
                state.set_group(group, after_own(State.COMPLETING, value))
        case GroupRebalanceKey(group):
            if value is not None:
                state.set_group(group, after_own(State.PREPARING, value))
        case RawKey():
            if value is None:
                state.raw.pop(record.key, None)
            else:
                state.raw[record.key] = value
    return 0


def _row(value: bytes, record_offset: int) -> bytes:
    commit = decode_offset_value(value)
    return encode_row(
        CommittedOffset(
            record_offset,
            commit.offset,
            commit.leader_epoch,
            commit.commit_timestamp_ms,
            commit.metadata,
            commit.expire_timestamp_ms,
            commit.topic_id,
        )
    )
