"""Batches of idempotent producers that were refused, or whose outcome is unknown, and those pipelined behind them.

Problem: a producer has up to five batches of a partition in flight. When this replica does not lead yet it refuses the
first; when it leads by the time the second arrives, it judges the second without its predecessor: it is out of order,
or, if the partition does not know the producer, even accepted. librdkafka takes "out of order" for a gap, starts a new
epoch, and sends again in it every batch of unknown outcome in any partition: records are stored twice (docs/adr/0018).

Mechanism: per connection, partition and producer it keeps the first batch that was answered with an error on which
producers send it again. A later batch on that connection is still judged by the partition, because its predecessor may
have been stored through another broker meanwhile; it was if the partition takes this one. But a partition that does not
know the producer does not take it, nor does one that would forget the predecessor for it (it knows a producer's last
five batches), and "out of order" becomes the predecessor's error. If the client has given the predecessor up, it gets
the out-of-order error after as many batches as can be in flight: four behind the refused one, or five when that was
stored through another broker and the client has had its answer there. What this does not do: grow
without bound; above the limit the oldest refusal is dropped.
"""

import struct
from collections import OrderedDict
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.errors import Code
from muster_coordinator.limits import PRODUCER_BATCHES_KEPT

SENT_AGAIN = frozenset((
    Code.CORRUPT_MESSAGE, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.NOT_LEADER_OR_FOLLOWER,
    Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.CONCURRENT_TRANSACTIONS,
))  # fmt: skip
"""Errors after which a producer sends the same batch again."""
_SEQUENCES = 1 << 31
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43


class Place(NamedTuple):
    """One producer's batches of one partition on one connection; they arrive in order."""

    connection: int
    topic: str | bytes
    partition: int
    producer: int


class Numbered(NamedTuple):
    """Place, epoch and first sequence of an idempotent producer's batch."""

    place: Place
    epoch: int
    sequence: int


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    code: Code
    followers: int
    """How many batches that come after it may still be answered with its error."""


class Front(NamedTuple):
    """A refused batch that others are pipelined behind."""

    code: Code
    sequence: int
    """Its first."""


def numbered(connection: int, topic: str | bytes, partition: int, batch: bytes) -> Numbered | None:
    """Place and numbers of a complete batch; None when its producer is not idempotent."""
    producer, epoch, sequence = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
    return None if producer < 0 else Numbered(Place(connection, topic, partition, producer), epoch, sequence)


class RefusedBatches:
    """The refused batches of one replica's connections."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: OrderedDict[Place, _Refused] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refused)

    def before(self, batch: Numbered) -> Front | None:
        """The refused batch before this one, or None. Call it before `batch` is judged."""
        refused = self._refused.get(batch.place)
        if refused is None:
            return None
        if refused.epoch != batch.epoch or refused.sequence == batch.sequence or not refused.followers:
            del self._refused[batch.place]
            return None
        return Front(refused.code, refused.sequence) if _follows(batch.sequence, refused.sequence) else None

    def taken(self, batch: Numbered) -> None:
        """The partition takes the batch, so it has the refused one before it, too: there is nothing to wait for."""
        refused = self._refused.get(batch.place)
        if refused is not None and refused.epoch == batch.epoch and _follows(batch.sequence, refused.sequence):
            del self._refused[batch.place]

    def answered(self, batch: Numbered, code: Code, before: Front | None) -> Code:
        """The code to answer for a batch that was judged `code`. `before`: the result of `before()` when the batch
        arrived, because the refused batch may have been stored since; or it may have been refused only since."""
        refused = self._refused.get(batch.place)
        behind = refused is not None and refused.epoch == batch.epoch and _follows(batch.sequence, refused.sequence)
        if code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if refused is not None and behind:
                self._refused[batch.place] = refused._replace(followers=max(0, refused.followers - 1))
                before = before or Front(refused.code, refused.sequence)
            return before.code if before is not None else code
        if code is Code.NONE:
            if behind:
                del self._refused[batch.place]  # A batch behind the refused one is stored, so that one is stored too.
        elif code in SENT_AGAIN:
            first = refused if refused is not None and behind else _Refused(batch.epoch, batch.sequence, code, 0)
            self._refused[batch.place] = first._replace(followers=PRODUCER_BATCHES_KEPT)
            self._refused.move_to_end(batch.place)
            if len(self._refused) > limits.REFUSED_BATCHES_KEPT:
                self._refused.popitem(last=False)
        return code


def _follows(sequence: int, other: int) -> bool:
    """Whether `sequence` comes after `other`. The sequence after 2147483647 is 0."""
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2
