"""The end of a transaction: decided by one record, then told to its partitions by markers, then complete.

Whatever happens after PrepareCommit or PrepareAbort is in the log, the outcome is that one. From transaction version 2
on (KIP-890 part 2) deciding also gives the producer its next epoch, so that nothing it sent before can come later. A
transaction that its coordinator aborts, because its time is over or a new incarnation began, is fenced: the markers
have the next epoch, which no client gets, and no request of the producer before passes any more, whatever version it
uses.
"""

from dataclasses import replace

from muster_coordinator.errors import Code
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.records.transaction_log import NO_PRODUCER
from muster_coordinator.transactions.changes import NEEDS_PRODUCER_ID, Change, Judged, Known
from muster_coordinator.transactions.metadata import (
    EPOCH_BUMP_VERSION,
    EPOCHS_EXHAUSTED,
    NO_EPOCH,
    Transaction,
)
from muster_coordinator.transactions.requests import EndTransaction
from muster_coordinator.transactions.states import PREPARED, State


def ended(known: Transaction | None, request: EndTransaction, now_ms: int) -> Judged:
    """What EndTxn comes to. `Known`: it was decided so before."""
    if known is None:
        return Code.INVALID_PRODUCER_ID_MAPPING
    overflown = _asks_again_after_overflow(known, request)
    if known.producer_id != request.producer_id and not overflown:
        early = known.state in PREPARED and known.next_producer_id == request.producer_id != NO_PRODUCER
        return Code.CONCURRENT_TRANSACTIONS if early else Code.INVALID_PRODUCER_ID_MAPPING
    again = overflown or (known.bumps and known.producer_epoch == request.producer_epoch + 1)
    if known.bumps and known.state in PREPARED:
        mine = again
    elif known.bumps and known.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        mine = again or known.producer_epoch == request.producer_epoch
    else:
        mine, again = known.producer_epoch == request.producer_epoch, False
    if not mine:
        return Code.PRODUCER_FENCED
    return _by_state(known, request, now_ms, again=again)


def _asks_again_after_overflow(known: Transaction, request: EndTransaction) -> bool:
    """The producer had used up its epochs, and did not hear that it has another id now."""
    return (
        known.bumps
        and known.previous_producer_id == request.producer_id
        and request.producer_epoch >= EPOCHS_EXHAUSTED
        and known.producer_epoch == 0
    )


def _by_state(known: Transaction, request: EndTransaction, now_ms: int, *, again: bool) -> Judged:
    if known.state is State.ONGOING:
        return _decided(known, request, now_ms)
    if known.state in PREPARED:
        same = request.commit == (known.state is State.PREPARE_COMMIT)
        return Code.CONCURRENT_TRANSACTIONS if same else Code.INVALID_TXN_STATE
    if known.state is not State.EMPTY and (again or request.client_version < EPOCH_BUMP_VERSION):
        same = request.commit == (known.state is State.COMPLETE_COMMIT)
        return Known(known.producer_id, known.producer_epoch) if same else Code.INVALID_TXN_STATE
    if request.commit or request.client_version < EPOCH_BUMP_VERSION:
        return Code.INVALID_TXN_STATE
    # The client aborts what it has begun, and no partition has heard of: its epoch ends with it all the same.
    return _decided(replace(known, partitions=frozenset(), start_ms=now_ms), request, now_ms)


def _decided(known: Transaction, request: EndTransaction, now_ms: int) -> Judged:
    state = State.PREPARE_COMMIT if request.commit else State.PREPARE_ABORT
    if request.client_version < EPOCH_BUMP_VERSION:
        return Change(replace(known, state=state, last_update_ms=now_ms, client_version=request.client_version))
    if known.exhausted and request.fresh_producer_id == NO_PRODUCER:
        return NEEDS_PRODUCER_ID
    decided = replace(
        known,
        state=state,
        producer_epoch=known.producer_epoch + 1,
        last_update_ms=now_ms,
        next_producer_id=request.fresh_producer_id if known.exhausted else NO_PRODUCER,
        client_version=request.client_version,
    )
    return Change(decided, known.producer_epoch)


def fenced(known: Transaction, now_ms: int) -> Change:
    """The coordinator aborts an open transaction. Its version is not 2: the epoch is not its client's to go on with."""
    aborted = replace(
        known,
        state=State.PREPARE_ABORT,
        producer_epoch=known.producer_epoch + 1,
        last_update_ms=now_ms,
        next_producer_id=NO_PRODUCER,
        client_version=0,
    )
    return Change(aborted, NO_EPOCH)


def completed(known: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker."""
    rotates = known.next_producer_id != NO_PRODUCER
    return replace(
        known,
        state=State.COMPLETE_COMMIT if known.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
        partitions=frozenset(),
        producer_id=known.next_producer_id if rotates else known.producer_id,
        producer_epoch=0 if rotates else known.producer_epoch,
        previous_producer_id=known.producer_id if rotates else known.previous_producer_id,
        next_producer_id=NO_PRODUCER,
        last_update_ms=now_ms,
    )


def goes_on_with(decided: Transaction) -> Known:
    """With what the producer goes on once the outcome is decided."""
    if decided.next_producer_id != NO_PRODUCER:
        return Known(decided.next_producer_id, 0)
    return Known(decided.producer_id, decided.producer_epoch)


def marker_of(decided: Transaction, coordinator_epoch: int) -> TransactionMarker:
    """What is written into each partition of a transaction whose outcome is decided."""
    end = EndMarker(decided.state is State.PREPARE_COMMIT, coordinator_epoch)
    return TransactionMarker(decided.producer_id, decided.producer_epoch, end, decided.client_version)
