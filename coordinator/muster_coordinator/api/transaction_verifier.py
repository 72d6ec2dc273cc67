"""What Produce asks a transaction coordinator before the first batch of a transaction in a partition (KIP-890).

Problem: a batch that is appended outside of any transaction of which the coordinator knows gets no marker, ever: it
would hold read_committed readers for good. Mechanism: a partition's leader appends the first batch of a transaction
only after the coordinator has said that the partition is in the transaction. This is the port; the coordinator's room
implements it, on whichever replica the coordinator is. What it does not do: remember answers.
"""

from collections.abc import Callable
from typing import Protocol

from muster_coordinator.errors import Code


class TransactionVerifier(Protocol):
    """AddPartitionsToTxn, as one broker asks another."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        *,
        add: bool,
        deadline_ms: int,
        done: Callable[[Code], None],
    ) -> None:
        """Is the partition in the open transaction of this producer and epoch? `add`: put it there if it is not
        (transaction version 2).

        `done` is called once, on the loop, by about `deadline_ms`, with the code of AddPartitionsToTxn: NONE; 48 or 120
        if the partition is not in the transaction; 47 or 90 for an old epoch; 49 for another producer id; 51 while the
        transaction before is being completed; 14, 15 or 16 while no coordinator answers, 13 if none did."""
