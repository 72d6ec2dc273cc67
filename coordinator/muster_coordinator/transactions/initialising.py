"""InitProducerId with a transactional id: a new incarnation of the producer, which fences the one before (KIP-98, 360).

An open transaction is aborted first, with an epoch that nobody gets, and the client is to ask again. Without an
expected producer the epoch is always the next one. With one (KIP-360) a producer that goes on after an error gets the
next epoch if it is still the newest, the present one if it asks for the second time, and else it is fenced.
"""

from dataclasses import replace

from muster_coordinator.errors import Code
from muster_coordinator.records.transaction_log import NO_PRODUCER
from muster_coordinator.transactions.changes import NEEDS_PRODUCER_ID, Change, Judged
from muster_coordinator.transactions.ending import fenced
from muster_coordinator.transactions.metadata import EPOCHS_EXHAUSTED, NO_EPOCH, Transaction
from muster_coordinator.transactions.requests import Expected, InitProducer
from muster_coordinator.transactions.states import PREPARED, State


def initialised(known: Transaction | None, last_epoch: int, request: InitProducer, now_ms: int) -> Judged:
    """What the request comes to. An open transaction: the `Change` aborts it, and the answer is
    CONCURRENT_TRANSACTIONS. `last_epoch`: of the last change, as `Change` has it."""
    fresh = request.fresh_producer_id
    if known is None:
        return NEEDS_PRODUCER_ID if fresh == NO_PRODUCER else Change(_empty(fresh, 0, request, now_ms))
    expected = request.expected
    if expected is not None and not _may_be(known, expected):
        return Code.PRODUCER_FENCED
    if known.state in PREPARED:
        return Code.CONCURRENT_TRANSACTIONS
    if known.state is State.ONGOING:
        return fenced(known, now_ms)
    if known.exhausted and (expected is None or expected.producer_epoch == known.producer_epoch):
        if fresh == NO_PRODUCER:
            return NEEDS_PRODUCER_ID
        rotated = replace(_empty(fresh, 0, request, now_ms), previous_producer_id=known.producer_id)
        return Change(rotated, NO_EPOCH if expected is None else known.producer_epoch)
    epoch = _next_epoch(known, last_epoch, expected)
    if epoch is None:
        return Code.PRODUCER_FENCED
    kept = replace(_empty(known.producer_id, epoch, request, now_ms), previous_producer_id=known.previous_producer_id)
    again = epoch == known.producer_epoch
    return Change(kept, last_epoch if again else NO_EPOCH if expected is None else known.producer_epoch)


def _may_be(known: Transaction, expected: Expected) -> bool:
    """Can this be the newest producer, or one that asks again since it did not hear of its new id?"""
    if expected.producer_id == known.producer_id:
        return True
    return expected.producer_id == known.previous_producer_id and expected.producer_epoch >= EPOCHS_EXHAUSTED


def _next_epoch(known: Transaction, last_epoch: int, expected: Expected | None) -> int | None:
    if expected is None or expected == (known.producer_id, known.producer_epoch):
        return known.producer_epoch + 1
    if last_epoch != NO_EPOCH and expected.producer_epoch == last_epoch:
        return known.producer_epoch
    return None


def _empty(producer_id: int, epoch: int, request: InitProducer, now_ms: int) -> Transaction:
    return Transaction(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=request.timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        start_ms=-1,
        last_update_ms=now_ms,
    )
