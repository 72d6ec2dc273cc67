"""What a transaction coordinator asks its host for.

* `Append` is proposed in the turn and term of the call that returned it; `applied(now, token)` follows directly after
  `apply` when the entry is applied here in the same term, else `dropped(now, token, code)`.
* `Reply` with `proven` may leave at once: what it promises is applied. Another one claims that nothing has changed, and
  leaves after a ReadIndex round: a deposed coordinator does not know what its successor has decided (decision 36).
* `WantProducerId`: have the request judged again with `fresh_producer_id`, or answer it for lack of one.
* `SendMarkers`: have the marker written into these partitions, again and again until `marked` was called for each. The
  host may forget all of them when leadership is lost: the next leader's `lead` asks for them anew.

Every ticket that is passed to `handle` gets exactly one `Reply` or `WantProducerId`, also on `resign`.
"""

from typing import NamedTuple

from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.records.transaction_log import TopicPartition
from muster_coordinator.transactions.requests import Answer, EndTransaction, InitProducer


class Reply(NamedTuple):
    ticket: int
    answer: Answer
    proven: bool


class Append(NamedTuple):
    """Propose these records as one RecordBatch."""

    token: int
    records: tuple[tuple[bytes, bytes | None], ...]
    """(key, value); value None is a tombstone."""
    timestamp_ms: int


class WantProducerId(NamedTuple):
    ticket: int
    request: InitProducer | EndTransaction


class SendMarkers(NamedTuple):
    transactional_id: str
    marker: TransactionMarker
    partitions: tuple[TopicPartition, ...]


Effect = Reply | Append | WantProducerId | SendMarkers
