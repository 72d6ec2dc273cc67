"""Which batches of a log belong to aborted transactions, and which markers still have data (Kafka's
`CleanedTransactionMetadata`).

Problem: the records of an aborted transaction are nobody's, so cleaning removes them; but its marker must stay until
all of its records are gone, since a reader that has seen one of them drops data until the marker comes. Mechanism: the
log's aborted transactions are handed in; batches and markers are then read in offset order. A marker may go when no
batch of its transaction was seen in this walk. What it does not do: find aborted transactions (the partition's index
knows them), or look at records other than a marker's key.
"""

from collections.abc import Iterable
from typing import NamedTuple

from muster_coordinator.records.batch import BatchHeader, iter_records
from muster_coordinator.records.control import decode_control
from muster_coordinator.records.errors import MalformedError


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: its producer, and the offset of its first batch."""

    first_offset: int
    producer_id: int


class Transactions:
    """One walk over a log in offset order. `aborted`: all aborted transactions that reach into what is walked."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, reverse=True)
        self._aborting: dict[int, tuple[AbortedTransaction, bool]] = {}
        """Producer -> its aborted transaction that is open here, and whether a batch of it was seen."""
        self._committing: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """Those whose markers stay: readers need them still."""

    def data(self, header: BatchHeader) -> bool:
        """Is this data batch of an aborted transaction?"""
        self._reach(header.next_offset - 1)
        if not header.is_transactional:
            return False
        found = self._aborting.get(header.producer_id)
        if found is None:
            self._committing.add(header.producer_id)
            return False
        self._aborting[header.producer_id] = (found[0], True)
        return True

    def marker(self, header: BatchHeader, batch: bytes) -> bool:
        """May this control batch go, once its delete horizon has passed? Raises MalformedError."""
        self._reach(header.next_offset - 1)
        record = next(iter_records(batch), None)
        if record is None:
            return True  # An empty one was cleaned before.
        end = decode_control(record)
        if end is None:
            return False
        if end.commit:
            seen = header.producer_id in self._committing
            self._committing.discard(header.producer_id)
            return not seen
        found = self._aborting.pop(header.producer_id, None)
        if found is None or not found[1]:
            return True
        self.kept.append(found[0])
        return False

    def _reach(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            aborted = self._to_come.pop()
            self._aborting.setdefault(aborted.producer_id, (aborted, False))


def may_go(transactions: Transactions, header: BatchHeader, batch: bytes) -> bool:
    """Is this batch of an aborted transaction, or a marker without data? One that cannot be read stays."""
    if not header.is_control:
        return transactions.data(header)
    try:
        return transactions.marker(header, batch)
    except MalformedError:
        return False
