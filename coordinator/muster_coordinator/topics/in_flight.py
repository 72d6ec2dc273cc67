"""Batches of producers and markers that are proposed and not applied yet, on top of the applied table (protocol notes
12.4).

Problem: a producer's next batch must be judged by what is appended, not only by what is committed, and the part that is
not committed must be dropped with leadership. Mechanism: per producer a short list of in-flight appends, each with the
producer's state after it; the next batch or marker is judged by the newest. When an in-flight append is dropped, the
states of those behind it are recomputed from the table. What it does not do: know offsets; the answer to a duplicate of
an in-flight append refers to that append's token.
"""

from typing import NamedTuple

from muster_coordinator.limits import PRODUCER_BATCHES_KEPT
from muster_coordinator.records.batch import BatchHeader
from muster_coordinator.records.producers import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    Judgement,
    ProducerState,
    ProducerTable,
    StoredBatch,
    advance,
    end_transaction,
    judge,
)
from muster_coordinator.topics.machine import Duplicate


class InFlightAppend(NamedTuple):
    """One proposed batch or marker that is not applied yet."""

    token: int
    header: BatchHeader
    coordinator_epoch: int
    """Of a marker."""
    after: ProducerState
    """The producer's state once this and all earlier in-flight appends are applied; their offsets are NO_OFFSET."""


def _after(state: ProducerState | None, header: BatchHeader, coordinator_epoch: int) -> ProducerState:
    if header.is_control:
        return end_transaction(state, header.producer_epoch, header.max_timestamp_ms, coordinator_epoch)
    return advance(state, header, NO_OFFSET)


class InFlight:
    """The in-flight appends of one leader; volatile."""

    __slots__ = ("_inflights", "_owners", "_table")

    def __init__(self, table: ProducerTable) -> None:
        self._table = table
        self._inflights: dict[int, list[InFlightAppend]] = {}
        self._owners: dict[int, int] = {}

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._inflights

    def __len__(self) -> int:
        """Producers with appends in flight: no more transactions than these are about to begin."""
        return len(self._inflights)

    def state(self, producer_id: int) -> ProducerState | None:
        """The state of one producer with its in-flight appends."""
        inflights = self._inflights.get(producer_id)
        return inflights[-1].after if inflights else self._table.get(producer_id)

    def last_token(self, producer_id: int) -> int:
        """Token of the producer's newest in-flight append; -1 for none."""
        inflights = self._inflights.get(producer_id)
        return inflights[-1].token if inflights else -1

    def keeps(self, header: BatchHeader, behind: int) -> bool:
        """Whether a batch may be stored behind one that was refused and will come again, with `behind` as its first
        sequence: a batch of this producer's epoch is applied or in flight, and this one would not be one too many for
        that one to be known as a duplicate, if it was stored."""
        state = self.state(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            return False
        full = len(state.batches) == PRODUCER_BATCHES_KEPT
        return not (full and state.batches[0].first_sequence == behind)

    def judge(self, header: BatchHeader) -> Judgement:
        """Whether a batch is the producer's next, a duplicate, fenced or out of order."""
        state = self.state(header.producer_id)
        return judge(state, header.producer_epoch, header.base_sequence, header.last_offset_delta)

    def duplicate(self, producer_id: int, original: StoredBatch) -> Duplicate:
        """The answer to a duplicate of `original`, which `judge` found."""
        if original.base_offset != NO_OFFSET:
            return Duplicate(original.base_offset, original.timestamp_ms)
        inflights = self._inflights[producer_id]
        epoch = inflights[-1].after.epoch
        for inflight in inflights:
            if inflight.header.is_control or inflight.after.epoch != epoch:
                continue
            batch = inflight.after.batches[-1]
            if batch[:2] == original[:2]:
                return Duplicate(NO_OFFSET, batch.timestamp_ms, inflight.token)
        applied = self._table.get(producer_id)
        assert applied is not None, "a batch that left the in-flight appends was applied"
        stored = next(batch for batch in applied.batches if batch[:2] == original[:2])
        return Duplicate(stored.base_offset, stored.timestamp_ms)

    def add(self, token: int, header: BatchHeader, coordinator_epoch: int = NO_COORDINATOR_EPOCH) -> None:
        """A batch that is the producer's next was proposed, or a marker."""
        after = _after(self.state(header.producer_id), header, coordinator_epoch)
        append = InFlightAppend(token, header, coordinator_epoch, after)
        self._inflights.setdefault(header.producer_id, []).append(append)
        self._owners[token] = header.producer_id

    def applied(self, token: int) -> int | None:
        """The batch is in the table now. Tokens of batches without a producer are ignored. Returns its producer."""
        owner = self._owners.pop(token, None)
        if owner is not None:
            self._keep(owner, [inflight for inflight in self._inflights[owner] if inflight.token != token])
        return owner

    def dropped(self, token: int) -> int | None:
        """The batch was not appended, or its fate is unknown: recompute the rest without it. Returns its producer."""
        owner = self._owners.pop(token, None)
        if owner is None:
            return None
        state = self._table.get(owner)
        left: list[InFlightAppend] = []
        for inflight in self._inflights[owner]:
            if inflight.token != token:
                state = _after(state, inflight.header, inflight.coordinator_epoch)
                left.append(inflight._replace(after=state))
        self._keep(owner, left)
        return owner

    def clear(self) -> None:
        """Leadership is lost."""
        self._inflights.clear()
        self._owners.clear()

    def _keep(self, owner: int, left: list[InFlightAppend]) -> None:
        if left:
            self._inflights[owner] = left
        else:
            del self._inflights[owner]
