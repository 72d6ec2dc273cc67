"""What the applied log says of all transactional ids of one partition; changed only by apply."""

from muster_coordinator.groups.effects import AppliedBatch
from muster_coordinator.records.batch import iter_records, parse_header
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.inflate import record_block
from muster_coordinator.records.transaction_log import decode_transaction_key, decode_transaction_value
from muster_coordinator.transactions.metadata import Transaction, transaction_of
from muster_coordinator.transactions.states import PREPARED, State


class LogState:
    """Equal on every replica at the same applied index."""

    __slots__ = ("ongoing", "prepared", "transactions")

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: set[str] = set()
        """Ids with an open transaction."""
        self.prepared: set[str] = set()
        """Ids whose outcome is decided and whose partitions may lack their markers."""

    def put(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Set what is known of an id; None: it is gone."""
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        state = None if transaction is None else transaction.state
        for ids, holds in ((self.ongoing, state is State.ONGOING), (self.prepared, state in PREPARED)):
            if holds:
                ids.add(transactional_id)
            else:
                ids.discard(transactional_id)

    def replay(self, entry: AppliedBatch) -> None:
        """Apply one batch of the log. Raises MalformedError or UnsupportedError for what this release cannot keep."""
        header = parse_header(entry.batch)
        if header.is_control:
            return
        block = record_block(entry.batch) if header.compression else None
        for record in iter_records(entry.batch, block):
            if record.key is None:
                raise MalformedError("a record of the transaction log without a key")
            transactional_id = decode_transaction_key(record.key)
            value = record.value
            self.put(transactional_id, None if value is None else transaction_of(decode_transaction_value(value)))
