"""What a judged request comes to: a code, a new state to propose, or the need of an unused producer id."""

from typing import Final, NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.transactions.metadata import NO_EPOCH, Transaction


class Change(NamedTuple):
    """Propose this state; it holds when its record is applied."""

    transaction: Transaction
    last_epoch: int = NO_EPOCH
    """The epoch before, with which its owner may ask again (KIP-360); -1: nobody may. As in Kafka it is in no record: a
    retry after a change of coordinator is fenced, and its client begins anew."""


class Known(NamedTuple):
    """The change was made before: its client asks again and is told the same."""

    producer_id: int
    producer_epoch: int


class NeedsProducerId:
    """The epochs of the producer id are used up, or there is none yet: judge again with an unused one."""


NEEDS_PRODUCER_ID: Final = NeedsProducerId()
Judged = Code | Change | Known | NeedsProducerId
