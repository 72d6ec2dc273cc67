"""Transactions in a topic partition, as its leader judges them: who may begin one, and which markers may end one. Pure.

Problem: a batch that begins a transaction of which no coordinator knows is never ended (KIP-890), and a marker that
comes late, or from a coordinator of before, must not end the producer's next transaction. Mechanism: a producer begins
a transaction here only with a *verification*: a number that was taken before the coordinator was asked, and that its
next marker makes worthless. So an answer from before a marker allows nothing after it. A marker is judged by
the producer's epoch and the coordinator's, as Kafka's `ProducerAppendInfo` does. What it does not do: ask the
coordinator.
"""

from enum import IntEnum
from typing import NamedTuple

from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.records.producers import ProducerState
from muster_coordinator.topics import limits

EPOCH_BUMPED_SINCE = 2
"""Transaction version from which a marker has the epoch after the transaction's (KIP-890)."""


class MarkerStanding(IntEnum):
    """How a marker relates to its producer's state."""

    NEXT = 0
    WRITTEN = 1
    """It is in the log already, applied or in flight."""
    FENCED = 2
    """Answer 47: the producer has gone on since."""
    COORDINATOR_FENCED = 3
    """Answer 52."""


def judge_marker(state: ProducerState | None, marker: TransactionMarker) -> MarkerStanding:
    """`state`: of the marker's producer, in-flight appends included. From transaction version 2 on the marker's epoch
    must be above that of the transaction; where only a marker can have brought that epoch, it is this one, come again.
    Kafka answers 47 to that, after which its coordinator sends it no more."""
    if state is None:
        return MarkerStanding.NEXT
    epoch, coordinator_epoch = marker.producer_epoch, marker.end.coordinator_epoch
    if epoch < state.epoch:
        return MarkerStanding.FENCED
    if epoch == state.epoch and marker.transaction_version >= EPOCH_BUMPED_SINCE:
        untouched = not state.batches and not state.in_transaction
        return MarkerStanding.WRITTEN if untouched else MarkerStanding.FENCED
    if coordinator_epoch < state.coordinator_epoch:
        return MarkerStanding.COORDINATOR_FENCED
    return MarkerStanding.NEXT


class _Verification(NamedTuple):
    number: int
    begun_ms: int
    epoch: int
    lowest_sequence: int
    """Of the batches that asked: the first of them must be stored first."""
    implicit: bool
    """Transaction version 2: such a producer has told its coordinator of every batch that it sent here before."""


class Verifications:
    """Producers that are about to begin a transaction; volatile, of one leader."""

    __slots__ = ("_begun", "_last")

    def __init__(self) -> None:
        self._begun: dict[int, _Verification] = {}
        """By producer, the one that began first at the front."""
        self._last = 0

    def begin(self, now_ms: int, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | None:
        """The number for a batch with this first sequence: that of the verification that is under way for this producer
        and epoch, or a new one. None: there are too many."""
        known = self._begun.get(producer_id)
        if known is not None and known.epoch == epoch:
            if sequence < known.lowest_sequence:
                self._begun[producer_id] = known._replace(lowest_sequence=sequence)
            return known.number
        if known is None:
            self._expire(now_ms)
            if len(self._begun) >= limits.TOPIC_VERIFICATIONS_MAX:
                return None
        elif epoch < known.epoch:
            return known.number  # it is fenced: its batch is refused for its epoch, or for the coordinator's answer
        self._last += 1
        self._begun.pop(producer_id, None)
        self._begun[producer_id] = _Verification(self._last, now_ms, epoch, sequence, implicit)
        return self._last

    def _expire(self, now_ms: int) -> None:
        while self._begun:
            producer_id, oldest = next(iter(self._begun.items()))
            if now_ms - oldest.begun_ms < limits.VERIFICATION_MS_MAX:
                return
            del self._begun[producer_id]

    def allows(self, producer_id: int, number: int | None) -> bool:
        """Whether a verification of this number still says something about the producer."""
        begun = self._begun.get(producer_id)
        return begun is not None and begun.number == number

    def in_order(self, producer_id: int, sequence: int, *, known: bool) -> bool:
        """Whether a batch may be the first of the transaction. `known`: batches of the producer are known here."""
        begun = self._begun.get(producer_id)
        if begun is None:
            return True
        return sequence <= begun.lowest_sequence and (known or not begun.implicit or sequence == 0)

    def end(self, producer_id: int) -> None:
        """A marker of the producer was proposed, or the batch that begins its transaction is applied. Until that is
        applied it may yet be dropped, and is offered again with the same number."""
        self._begun.pop(producer_id, None)

    def clear(self) -> None:
        """Leadership is lost. Numbers are not given out again."""
        self._begun.clear()
