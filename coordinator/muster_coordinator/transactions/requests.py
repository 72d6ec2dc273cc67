"""Requests to a transaction coordinator and their answers, as values without versions of the wire protocol."""

from typing import NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.records.transaction_log import NO_PRODUCER, TopicPartition
from muster_coordinator.transactions.metadata import NO_EPOCH, Transaction


class Expected(NamedTuple):
    """The producer that the client says it is (KIP-360)."""

    producer_id: int
    producer_epoch: int


class InitProducer(NamedTuple):
    """InitProducerId with a transactional id."""

    transactional_id: str
    timeout_ms: int
    expected: Expected | None = None
    fresh_producer_id: int = NO_PRODUCER
    """An unused producer id, if one proved to be needed; see `effects.WantProducerId`."""


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn, and AddOffsetsToTxn with the group's offsets partition: all of them, or none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class VerifyPartitions(NamedTuple):
    """Are these partitions in the producer's open transaction? For the leaders of partitions (KIP-890 part 1)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class EndTransaction(NamedTuple):
    """EndTxn."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    """Transaction version that the client uses: 2 in EndTxn v5, else 0."""
    fresh_producer_id: int = NO_PRODUCER


class DescribeTransaction(NamedTuple):
    transactional_id: str


Request = InitProducer | AddPartitions | VerifyPartitions | EndTransaction | DescribeTransaction


class Answer(NamedTuple):
    """Answer to any of the requests."""

    code: Code
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_EPOCH
    transaction: Transaction | None = None
    """To DescribeTransaction."""
    missing: frozenset[TopicPartition] = frozenset()
    """To VerifyPartitions: those that are not in the transaction."""


RETRIED = frozenset(
    {
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.CONCURRENT_TRANSACTIONS,
        Code.INVALID_REQUEST,
        Code.INVALID_TRANSACTION_TIMEOUT,
        Code.POLICY_VIOLATION,
    }
)
"""Codes that claim nothing about the log; every other answer that changed nothing is one that a deposed coordinator may
be wrong about."""
