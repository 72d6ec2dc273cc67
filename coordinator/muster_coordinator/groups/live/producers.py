"""Producers of transactions on the leader of an offsets partition: what is in flight, and who may begin.

Problem: a batch with a producer id must be judged by what is proposed, not only by what is applied, or a commit of a
fenced producer slips in behind the marker that ended its transaction; and a commit that arrives after its transaction
has ended would open one that nobody ends. Mechanism: `standing` is the producer's state after all that is proposed. The
first write of a transaction needs a *verification*: a number taken before its coordinator is asked, which the next
marker of that producer makes worthless, so that what the coordinator said before the marker allows nothing after it
(KIP-890). Volatile: the next leader starts from applied state and asks again.
"""

from typing import NamedTuple

from muster_coordinator.records.producers import ProducerState


class Standing(NamedTuple):
    """What later batches of a producer are judged by."""

    epoch: int
    coordinator_epoch: int
    """Of the last marker; -1: none."""
    open: bool
    """A transaction has begun here, and has not ended."""

    @classmethod
    def of(cls, state: ProducerState) -> "Standing":
        """The applied standing."""
        return cls(state.epoch, state.coordinator_epoch, state.in_transaction)


class Write(NamedTuple):
    """The producer of a proposed batch."""

    producer_id: int
    epoch: int
    after: Standing
    control: bool = False


class ProducersInFlight:
    """See the module."""

    __slots__ = ("_after", "_last", "_owners", "_verifications")

    def __init__(self) -> None:
        self._after: dict[int, dict[int, Standing]] = {}
        """Producer -> token -> its standing once that batch is applied; in the order of the log."""
        self._owners: dict[int, int] = {}
        self._verifications: dict[int, set[int]] = {}
        """Producer -> numbers that allow its first write; no empty set."""
        self._last = 0

    def standing(self, producer_id: int, applied: ProducerState | None) -> Standing | None:
        """The producer's standing with all that is in flight; None: it was never here."""
        after = self._after.get(producer_id)
        if after:
            return next(reversed(after.values()))
        return None if applied is None else Standing.of(applied)

    def proposed(self, token: int, write: Write) -> None:
        """A batch of this producer was proposed. A marker makes its verifications worthless."""
        self._after.setdefault(write.producer_id, {})[token] = write.after
        self._owners[token] = write.producer_id
        if write.control:
            self._verifications.pop(write.producer_id, None)

    def landed(self, token: int) -> None:
        """The batch is in applied state now, or was not appended. Other tokens are ignored."""
        owner = self._owners.pop(token, None)
        if owner is not None:
            after = self._after[owner]
            del after[token]
            if not after:
                del self._after[owner]

    def in_flight(self, producer_id: int) -> bool:
        return producer_id in self._after

    def opening(self) -> int:
        """Producers with batches in flight: no more transactions than these can be about to open."""
        return len(self._after)

    def begin_verification(self, producer_id: int) -> int:
        """A number that allows the producer's next first write, unless a marker of it comes before."""
        self._last += 1
        self._verifications.setdefault(producer_id, set()).add(self._last)
        return self._last

    def verified(self, producer_id: int, verification: int) -> bool:
        return verification in self._verifications.get(producer_id, ())

    def end_verification(self, producer_id: int, verification: int) -> None:
        """The request that took it is over."""
        numbers = self._verifications.get(producer_id)
        if numbers is not None:
            numbers.discard(verification)
            if not numbers:
                del self._verifications[producer_id]

    def clear(self) -> None:
        """Leadership is lost. Numbers are not given out again."""
        self._after.clear()
        self._owners.clear()
        self._verifications.clear()
