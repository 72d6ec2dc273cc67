"""OffsetCommit (protocol notes 4.1, 4.2): judged by applied state, proposed in the same turn, answered once applied.

A commit waits while a membership record of its own group is in flight, so it is judged by every record before it in
the log (decision 8). Commits of one group do not wait for each other, and groups never wait for other groups. All
accepted partitions are in one batch: after a crash either all of them are stored or none (invariant O9).
"""

from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.groups.core import Core, Record
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.inflights import InFlightAppend
from muster_coordinator.groups.live.live_group import LiveGroup
from muster_coordinator.groups.membership import sessions, waking
from muster_coordinator.groups.names import storable
from muster_coordinator.groups.requests import (
    OffsetCommit,
    OffsetCommitAnswer,
    TxnOffsetCommit,
    refusal,
)
from muster_coordinator.groups.state.classic_group import State
from muster_coordinator.limits import MIB, OFFSETS_BATCH_BYTES_MAX
from muster_coordinator.records.fields import I32
from muster_coordinator.records.keys import encode_offset_key
from muster_coordinator.records.offsets_log import encode_offset_value

_I64_MAX = 2**63 - 1
_RECORD_OVERHEAD_BYTES = 32
"""Upper bound of what a batch adds to a key and a value: varints and attributes."""


def commit(core: Core, now: Now, ticket: int, request: OffsetCommit) -> None:
    """Errors of the group are set on every partition; a metadata text that is too long only on its own."""
    live = waking.find(core, now, request.group)
    refused = _judge(core, live, request)
    if refused is not Code.NONE:
        return core.answer(ticket, refusal(request, refused))
    made = commit_records(core, now, request)
    if made is None:
        return core.answer(ticket, refusal(request, Code.INVALID_COMMIT_OFFSET_SIZE))
    records, answer = made
    if live is not None and request.member in live.group.members:
        sessions.restart(core, now, live, request.member)
    if not records:
        return core.answer(ticket, answer)
    applied = partial(committed, core, ticket, len(records), answer)
    dropped = partial(not_committed, core, ticket, request)
    inflight = InFlightAppend(request.group, False, ((ticket, request),), applied, dropped)
    return core.append(now, inflight, tuple(records))


def committed(core: Core, ticket: int, count: int, answer: OffsetCommitAnswer, _: Now) -> None:
    """The commit of `count` partitions is applied."""
    core.stats.offsets_committed += count
    core.answer(ticket, answer)


def not_committed(core: Core, ticket: int, request: OffsetCommit | TxnOffsetCommit, _: Now, code: Code) -> None:
    """The commit was not appended."""
    core.answer(ticket, refusal(request, code))


def commit_records(
    core: Core, now: Now, request: OffsetCommit | TxnOffsetCommit
) -> tuple[list[Record], OffsetCommitAnswer] | None:
    """The records of an accepted commit, and its answer once they are applied. None: they do not fit into a batch."""
    records: list[Record] = []
    answers = []
    size = 0
    timestamp_ms, expire_ms = _timestamps_ms(now, request)
    for topic in request.topics:
        codes = []
        key_head = encode_offset_key(request.group, topic.topic, 0)[:-4]
        for partition in topic.partitions:
            code = _metadata_code(partition.metadata, core.config.offset_metadata_chars_max)
            codes.append((partition.partition, int(code)))
            if code is Code.NONE:
                offset, epoch, metadata = partition.offset, partition.leader_epoch, partition.metadata
                value = encode_offset_value(offset, epoch, metadata, timestamp_ms, expire_ms, topic.topic_id)
                records.append((key_head + I32.pack(partition.partition), value))
                size += len(key_head) + len(value) + _RECORD_OVERHEAD_BYTES
        answers.append((topic.topic, tuple(codes)))
        if size > OFFSETS_BATCH_BYTES_MAX - MIB:
            return None
    return records, OffsetCommitAnswer(tuple(answers))


def _judge(core: Core, live: LiveGroup | None, request: OffsetCommit) -> Code:
    """The group's own validation. A commit without a generation creates a group that does not exist."""
    if not storable(request.group) or not all(storable(topic.topic) for topic in request.topics):
        return Code.INVALID_GROUP_ID if not storable(request.group) else Code.UNKNOWN_TOPIC_OR_PARTITION
    if live is not None:
        return live.group.validate_commit(request, live.state)
    group = core.state.group(request.group)
    if group is not None:
        return group.validate_commit(request, State.EMPTY)
    if request.generation < 0:
        return Code.NONE
    return Code.GROUP_ID_NOT_FOUND if request.unknown_group_is_69 else Code.ILLEGAL_GENERATION


def _metadata_code(metadata: str, chars_max: int) -> Code:
    """Kafka counts Java chars, i.e. UTF-16 units. Apart from that setting, the log's strings hold 32,767 bytes."""
    if not metadata:
        return Code.NONE  # what most commits have, for each of their partitions
    if not storable(metadata):
        return Code.OFFSET_METADATA_TOO_LARGE
    if 2 * len(metadata) <= chars_max:
        return Code.NONE
    units = len(metadata) + sum(1 for char in metadata if ord(char) > 0xFFFF)
    return Code.NONE if units <= chars_max else Code.OFFSET_METADATA_TOO_LARGE


def _timestamps_ms(now: Now, request: OffsetCommit | TxnOffsetCommit) -> tuple[int, int]:
    """(commit timestamp, expire timestamp) of every record of the request."""
    if not isinstance(request, OffsetCommit):
        return now.wall_ms, -1
    timestamp_ms = now.wall_ms if request.commit_timestamp_ms == -1 else request.commit_timestamp_ms
    return timestamp_ms, _expire_timestamp_ms(now, request.retention_ms)


def _expire_timestamp_ms(now: Now, retention_ms: int) -> int:
    """-1: the broker's retention applies. The sum is capped to an int64, where Kafka's overflows into the past. A
    negative retention expires at once; it is clamped to 0, so that the sum cannot be -1, which means none."""
    return -1 if retention_ms == -1 else max(0, min(now.wall_ms + retention_ms, _I64_MAX))
