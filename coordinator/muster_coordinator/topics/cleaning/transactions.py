"""Which batches of a log belong to aborted transactions, and which markers still have data (Kafka's
`CleanedTransactionMetadata`).

Problem: the records of an aborted transaction are nobody's, so cleaning removes them; but its marker must stay until
all of its records are gone, since a reader that has seen one of them drops data until the marker comes. Mechanism: the
log's aborted transactions are handed in, at once or part by part; batches and markers are then read in offset order. A
marker may go when no batch of its transaction was seen in this walk. What it does not do: find aborted transactions
(the partition's index knows them), or look at records other than a marker's key.
"""

from collections.abc import Iterable
from typing import NamedTuple

from muster_coordinator.records.batch import BatchHeader, iter_records
from muster_coordinator.records.control import decode_control
from muster_coordinator.records.errors import MalformedError

_OFFSET_MAX = 2**63 - 1


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: its producer, and the offset of its first batch."""

    first_offset: int
    producer_id: int
    last_offset: int = _OFFSET_MAX
    """Of its ABORT marker. Without it the transaction ends at the producer's next marker in the walk."""


class Transactions:
    """One walk over a log in offset order. `aborted`: aborted transactions, in any order; see `add`."""

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._to_come: list[AbortedTransaction] = []
        """By descending first offset."""
        self._aborting: dict[int, tuple[AbortedTransaction, bool]] = {}
        """Producer -> its aborted transaction that is open here, and whether a batch of it was seen."""
        self._committing: set[int] = set()
        self.add(aborted)

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Before a batch is walked, all aborted transactions that it may be part of must be known, and before a marker
        its own. One may be handed in again."""
        self._to_come.extend(aborted)
        self._to_come.sort(reverse=True)

    def data(self, header: BatchHeader) -> bool:
        """Is this data batch of an aborted transaction?"""
        self._reach(header)
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
        self._reach(header)
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
        return found is None or not found[1]

    def _reach(self, header: BatchHeader) -> None:
        """Those that begin at or before this batch. One that ended before it is not looked for: a walk may begin in the
        middle of the log, and the producer's batches since then are of other transactions."""
        while self._to_come and self._to_come[-1].first_offset < header.next_offset:
            aborted = self._to_come.pop()
            if aborted.last_offset >= header.base_offset:
                self._aborting.setdefault(aborted.producer_id, (aborted, False))


def may_go(transactions: Transactions, header: BatchHeader, batch: bytes) -> bool:
    """Is this batch of an aborted transaction, or a marker without data? One that cannot be read stays."""
    if not header.is_control:
        return transactions.data(header)
    try:
        return transactions.marker(header, batch)
    except MalformedError:
        return False
