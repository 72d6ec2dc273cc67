"""Batches of idempotent producers that were refused, or whose fate is unknown, and what was pipelined behind them.

Problem: a producer has up to five batches of a partition on their way. When the first is refused because this replica
does not lead yet, and it does when the second comes, the second is judged without its predecessor: out of order, or,
from a producer that nobody knows, even accepted. librdkafka takes "out of order" for a gap, begins a new epoch, and
sends again under it whatever has an unknown fate in any partition: records stand twice (docs/adr/0018).

Mechanism: per connection, partition and producer the first batch that got an answer on which it is sent again. What
comes behind it on the connection gets the same answer, until it comes again itself, or something behind it is known to
be stored. A client that gives it up instead is in order again after the number of batches that can have been on their
way: then the gap is a fact, and is told. What it does not do: grow past its bound; who was refused first is forgotten.
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
))  # fmt: skip
"""Answers after which a producer sends the same batch again."""
_SEQUENCES = 1 << 31
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43


class Place(NamedTuple):
    """Whose batches these are; they come in order."""

    connection: int
    topic: str | bytes
    partition: int
    producer: int


class Numbered(NamedTuple):
    """An idempotent producer's batch."""

    place: Place
    epoch: int
    sequence: int


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    code: Code
    followers: int
    """Batches that may still come of those that were on their way."""


def numbered(connection: int, topic: str | bytes, partition: int, batch: bytes) -> Numbered | None:
    """A whole batch's place; None: its producer is not idempotent."""
    producer, epoch, sequence = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
    return None if producer < 0 else Numbered(Place(connection, topic, partition, producer), epoch, sequence)


class RefusedBatches:
    """Of one replica."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: OrderedDict[Place, _Refused] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refused)

    def before(self, batch: Numbered) -> Code | None:
        """What a batch in front of this one was answered, if this one has to get the same."""
        refused = self._refused.get(batch.place)
        if refused is None:
            return None
        if refused.epoch != batch.epoch or not _follows(batch.sequence, refused.sequence) or not refused.followers:
            del self._refused[batch.place]
            return None
        self._refused[batch.place] = refused._replace(followers=refused.followers - 1)
        return refused.code

    def answered(self, batch: Numbered, code: Code) -> None:
        """What a batch that was judged on its own came to."""
        refused = self._refused.get(batch.place)
        if refused is not None and refused.epoch == batch.epoch and _follows(batch.sequence, refused.sequence):
            if code is Code.NONE:
                del self._refused[batch.place]  # it was stored behind the other one: that is stored as well
        elif code in SENT_AGAIN:
            self._refused[batch.place] = _Refused(batch.epoch, batch.sequence, code, PRODUCER_BATCHES_KEPT - 1)
            if len(self._refused) > limits.REFUSED_BATCHES_KEPT:
                self._refused.popitem(last=False)


def _follows(sequence: int, other: int) -> bool:
    """Is `sequence` later? After 2147483647 comes 0."""
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2
