"""What is durable of one transactional id, and its record. Equal on every replica that has applied the same log."""

from dataclasses import dataclass

from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.transaction_log import NO_PRODUCER, TopicPartition, TransactionValue
from muster_coordinator.transactions.states import IN_LOG, State

NO_EPOCH = -1
EPOCH_MAX = 2**15 - 1
EPOCHS_EXHAUSTED = EPOCH_MAX - 1
"""A client never gets `EPOCH_MAX`, so that its coordinator can always fence it once more."""
EPOCH_BUMP_VERSION = 2
"""Transaction version from which each transaction ends with another epoch (KIP-890 part 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transactional id; immutable, replaced at apply."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    start_ms: int
    """When the transaction began, by its coordinator's wall clock; -1: none began since InitProducerId."""
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER
    """The producer id before the last change; differs from `producer_id` if its epochs were exhausted."""
    next_producer_id: int = NO_PRODUCER
    """The id with which the producer goes on when the markers are written; -1: the same."""
    client_version: int = 0

    @property
    def exhausted(self) -> bool:
        """No epoch of this producer id is left for a client."""
        return self.producer_epoch >= EPOCHS_EXHAUSTED

    @property
    def bumps(self) -> bool:
        """Was the last change a client's that uses transaction version 2?"""
        return self.client_version >= EPOCH_BUMP_VERSION


def value_of(transaction: Transaction) -> TransactionValue:
    """The record's value. Kafka writes null for the partitions of an empty id."""
    return TransactionValue(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        transaction.state,
        None if transaction.state is State.EMPTY else tuple(sorted(transaction.partitions)),
        transaction.last_update_ms,
        transaction.start_ms,
        transaction.previous_producer_id,
        transaction.next_producer_id,
        transaction.client_version,
    )


def transaction_of(value: TransactionValue) -> Transaction:
    """The transaction of a record's value. Raises MalformedError for a state that is never written."""
    if value.status not in IN_LOG:
        raise MalformedError(f"a transaction in state {value.status}")
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        state=State(value.status),
        partitions=frozenset(value.partitions or ()),
        start_ms=value.start_ms,
        last_update_ms=value.last_update_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_version,
    )
