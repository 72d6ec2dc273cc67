"""TxnOffsetCommit and the end of transactions (protocol notes 4.4): offsets that become visible with their marker.

A commit inside a transaction is judged like any other by the applied group, and also by its producer: an older epoch is
fenced, and the first write of a transaction must have been verified (`live.producers`). Its batch carries the producer
id, so replay keeps the offsets as pending ones. A marker is one control batch for all groups of the partition; it waits
for no group, because what it commits or drops is what lies before it in the log.

Of a marker that comes again after its batch was stored, no second one is written where its epoch was made for it alone
(transaction version 2): it is answered as done while its producer has begun nothing new, and fenced after that. Older
versions write it again, as Kafka does, and so does any while the first one is still in flight, since that one may be
lost with its leader; it ends nothing then.
"""

from functools import partial

from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.inflights import InFlightAppend
from muster_coordinator.groups.live.live_group import LiveGroup
from muster_coordinator.groups.live.producers import Standing, Write
from muster_coordinator.groups.membership import waking
from muster_coordinator.groups.names import storable
from muster_coordinator.groups.offsets.commit import commit_records, committed, not_committed
from muster_coordinator.groups.requests import (
    TxnOffsetCommit,
    WriteMarker,
    WriteMarkerAnswer,
    refusal,
)
from muster_coordinator.groups.state.classic_group import State
from muster_coordinator.records.batch import iter_records
from muster_coordinator.records.control import marker_batch
from muster_coordinator.records.producers import NO_COORDINATOR_EPOCH

_STRICT_EPOCHS_SINCE = 2
"""KIP-890: from this transaction version on a marker's epoch is above the one its transaction wrote with."""


def txn_commit(core: Core, now: Now, ticket: int, request: TxnOffsetCommit) -> None:
    """The group is judged first, then the producer, as in Kafka. No session is restarted: a commit in a transaction
    comes from the producer, and says nothing about the member's life."""
    live = waking.find(core, now, request.group)
    refused = _judge_group(core, live, request)
    if refused is not Code.NONE:
        return core.answer(ticket, refusal(request, refused))
    made = commit_records(core, now, request)
    if made is None:
        return core.answer(ticket, refusal(request, Code.INVALID_COMMIT_OFFSET_SIZE))
    records, answer = made
    if not records:
        return core.answer(ticket, answer)
    standing = standing_of(core, request.producer_id)
    refused = _judge_producer(core, standing, request)
    if refused is not Code.NONE:
        return core.answer(ticket, refusal(request, refused))
    core.producers.end_verification(request.producer_id, request.verification)
    coordinator = NO_COORDINATOR_EPOCH if standing is None else standing.coordinator_epoch
    after = Standing(request.producer_epoch, coordinator, True)
    applied = partial(committed, core, ticket, len(records), answer)
    dropped = partial(not_committed, core, ticket, request)
    inflight = InFlightAppend(request.group, False, ((ticket, request),), applied, dropped)
    write = Write(request.producer_id, request.producer_epoch, after)
    return core.append(now, inflight, tuple(records), write)


def end_transaction(core: Core, now: Now, ticket: int, request: WriteMarker) -> None:
    """47 for an epoch that is over, 52 for a coordinator that is no more."""
    marker = request.marker
    standing = standing_of(core, marker.producer_id)
    if standing is not None:
        strict = marker.transaction_version >= _STRICT_EPOCHS_SINCE
        again = strict and marker.producer_epoch == standing.epoch and not standing.open
        if again and not core.producers.in_flight(marker.producer_id):
            return core.answer(ticket, WriteMarkerAnswer(Code.NONE))
        if marker.producer_epoch < standing.epoch + (strict and not again):
            return core.answer(ticket, WriteMarkerAnswer(Code.INVALID_PRODUCER_EPOCH))
        if marker.end.coordinator_epoch < standing.coordinator_epoch:
            return core.answer(ticket, WriteMarkerAnswer(Code.TRANSACTION_COORDINATOR_FENCED))
    record = next(iter_records(marker_batch(marker, now.wall_ms)))
    after = Standing(marker.producer_epoch, marker.end.coordinator_epoch, False)
    ended, dropped = partial(_ended, core, ticket), partial(_not_ended, core, ticket)
    inflight = InFlightAppend(request.group, False, ((ticket, request),), ended, dropped)
    write = Write(marker.producer_id, marker.producer_epoch, after, control=True)
    return core.append(now, inflight, ((record.key, record.value),), write)


def _ended(core: Core, ticket: int, _: Now) -> None:
    core.answer(ticket, WriteMarkerAnswer(Code.NONE))


def _not_ended(core: Core, ticket: int, _: Now, code: Code) -> None:
    core.answer(ticket, WriteMarkerAnswer(code))


def needs_verification(core: Core, producer_id: int, producer_epoch: int) -> bool:
    """Whether the producer has no open transaction of this epoch here."""
    standing = standing_of(core, producer_id)
    return standing is None or not standing.open or standing.epoch != producer_epoch


def standing_of(core: Core, producer_id: int) -> Standing | None:
    """The producer's standing with all that is in flight."""
    return core.producers.standing(producer_id, core.state.producers.get(producer_id))


def _judge_group(core: Core, live: LiveGroup | None, request: TxnOffsetCommit) -> Code:
    """A group that does not exist is made by a commit without a generation; there is no group ""."""
    if not request.group or not storable(request.group):
        return Code.INVALID_GROUP_ID
    if not all(storable(topic.topic) for topic in request.topics):
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    if live is not None:
        return live.group.validate_commit(request, live.state)
    group = core.state.group(request.group)
    if group is not None:
        return group.validate_commit(request, State.EMPTY)
    return Code.NONE if request.generation < 0 else Code.ILLEGAL_GENERATION


def _judge_producer(core: Core, standing: Standing | None, request: TxnOffsetCommit) -> Code:
    if request.producer_id < 0 or request.producer_epoch < 0:
        return Code.INVALID_PRODUCER_ID_MAPPING
    if standing is not None and request.producer_epoch < standing.epoch:
        return Code.INVALID_PRODUCER_EPOCH
    if standing is not None and standing.open and request.producer_epoch == standing.epoch:
        return Code.NONE
    if not core.producers.verified(request.producer_id, request.verification):
        return Code.INVALID_TXN_STATE
    opened = core.state.producers.open_count() + core.producers.opening()
    return Code.COORDINATOR_NOT_AVAILABLE if opened >= limits.OFFSETS_TRANSACTIONS_MAX else Code.NONE
