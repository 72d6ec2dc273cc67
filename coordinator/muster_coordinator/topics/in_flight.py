"""Batches of idempotent producers that are proposed and not yet applied, laid over the applied table (protocol notes
12.4).

Problem: the next batch of a producer must be judged by what is appended, not only by what is committed, and that part
must vanish when leadership does. Mechanism: per producer a short list of flights, each with the state as it would be
after it; the newest one is what the next batch is judged by. Removing a flight that was not appended recomputes the
ones behind it from the table. What it does not do: know offsets; a duplicate of a flight is told to wait for the
flight's token.
"""

from typing import NamedTuple

from muster_coordinator.records.batch import BatchHeader
from muster_coordinator.records.producers import (
    NO_OFFSET,
    Judgement,
    ProducerState,
    ProducerTable,
    StoredBatch,
    advance,
    judge,
)
from muster_coordinator.topics.machine import Duplicate


class Flight(NamedTuple):
    """One batch between `offer` and apply."""

    token: int
    header: BatchHeader
    after: ProducerState
    """The producer once this and all earlier flights are applied; their offsets are NO_OFFSET."""


class InFlight:
    """Leader-only, volatile."""

    __slots__ = ("_flights", "_owners", "_table")

    def __init__(self, table: ProducerTable) -> None:
        self._table = table
        self._flights: dict[int, list[Flight]] = {}
        self._owners: dict[int, int] = {}

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._flights

    def state(self, producer_id: int) -> ProducerState | None:
        """What is applied and in flight of one producer."""
        flights = self._flights.get(producer_id)
        return flights[-1].after if flights else self._table.get(producer_id)

    def judge(self, header: BatchHeader) -> Judgement:
        """What a batch is to its producer: next, duplicate, fenced or out of order."""
        state = self.state(header.producer_id)
        return judge(state, header.producer_epoch, header.base_sequence, header.last_offset_delta)

    def duplicate(self, producer_id: int, original: StoredBatch) -> Duplicate:
        """The answer to a repeat of `original`, which `judge` found."""
        if original.base_offset != NO_OFFSET:
            return Duplicate(original.base_offset, original.timestamp_ms)
        flights = self._flights[producer_id]
        epoch = flights[-1].after.epoch
        for flight in flights:
            batch = flight.after.batches[-1]
            if flight.after.epoch == epoch and batch[:2] == original[:2]:
                return Duplicate(NO_OFFSET, batch.timestamp_ms, flight.token)
        applied = self._table.get(producer_id)
        assert applied is not None, "a batch that left the flights was applied"
        stored = next(batch for batch in applied.batches if batch[:2] == original[:2])
        return Duplicate(stored.base_offset, stored.timestamp_ms)

    def add(self, token: int, header: BatchHeader) -> None:
        """A batch that was judged next is proposed."""
        after = advance(self.state(header.producer_id), header, NO_OFFSET)
        self._flights.setdefault(header.producer_id, []).append(Flight(token, header, after))
        self._owners[token] = header.producer_id

    def applied(self, token: int) -> None:
        """The table has it now. Tokens of batches without a producer are unknown here."""
        owner = self._owners.pop(token, None)
        if owner is not None:
            self._keep(owner, [flight for flight in self._flights[owner] if flight.token != token])

    def dropped(self, token: int) -> int | None:
        """It was not appended, or nobody knows: what stays is judged as if it had never been there. Its producer."""
        owner = self._owners.pop(token, None)
        if owner is None:
            return None
        state = self._table.get(owner)
        left: list[Flight] = []
        for flight in self._flights[owner]:
            if flight.token != token:
                state = advance(state, flight.header, NO_OFFSET)
                left.append(flight._replace(after=state))
        self._keep(owner, left)
        return owner

    def clear(self) -> None:
        """Leadership is gone."""
        self._flights.clear()
        self._owners.clear()

    def _keep(self, owner: int, left: list[Flight]) -> None:
        if left:
            self._flights[owner] = left
        else:
            del self._flights[owner]
