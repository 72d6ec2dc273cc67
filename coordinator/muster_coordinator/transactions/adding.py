"""AddPartitionsToTxn, AddOffsetsToTxn, and the questions of partition leaders (KIP-98, KIP-890 part 1).

A partition is in the log of its transaction before its first record is accepted: a coordinator that takes over knows
every partition that may need a marker.
"""

from dataclasses import replace

from muster_coordinator.errors import Code
from muster_coordinator.records.transaction_log import NO_PRODUCER
from muster_coordinator.transactions.changes import Change
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.requests import AddPartitions, EndTransaction, VerifyPartitions
from muster_coordinator.transactions.states import PREPARED, State


def owner_code(known: Transaction | None, request: AddPartitions | VerifyPartitions | EndTransaction) -> Code:
    """NONE if the request comes from the newest producer of its id; else how it is refused."""
    if known is None:
        return Code.INVALID_PRODUCER_ID_MAPPING
    if known.producer_id != request.producer_id:
        # The producer was told its next id when the outcome was decided, before the log has come that far.
        early = known.state in PREPARED and known.next_producer_id == request.producer_id != NO_PRODUCER
        return Code.CONCURRENT_TRANSACTIONS if early else Code.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != request.producer_epoch:
        return Code.PRODUCER_FENCED
    return Code.CONCURRENT_TRANSACTIONS if known.state in PREPARED else Code.NONE


def added(known: Transaction | None, request: AddPartitions, now_ms: int) -> Code | Change:
    """NONE: they are all in it already."""
    code = owner_code(known, request)
    if code is not Code.NONE or known is None:
        return code
    is_open = known.state is State.ONGOING
    if is_open and request.partitions <= known.partitions:
        return Code.NONE
    return Change(
        replace(
            known,
            state=State.ONGOING,
            partitions=known.partitions | request.partitions if is_open else request.partitions,
            start_ms=known.start_ms if is_open else now_ms,
            last_update_ms=now_ms,
        )
    )
