"""Proposals of a leading coordinator that are not applied yet: at most one of each transactional id.

Problem: two changes of one id that are both judged by the state before would contradict each other. Mechanism: an id
with a proposal in flight takes no other change; requests get CONCURRENT_TRANSACTIONS, on which every client asks again.
Only partitions that the same producer adds while others of its are being added are kept until that is applied, and then
proposed together: from transaction version 2 on each partition's leader adds its own, all at about the same time.
"""

from dataclasses import dataclass, field

from muster_coordinator.transactions.changes import Change
from muster_coordinator.transactions.requests import AddPartitions, Answer

JOINED_MAX = 1_000
"""Requests kept behind one proposal; more are answered CONCURRENT_TRANSACTIONS."""


@dataclass(slots=True, kw_only=True)
class Flight:
    """One proposal."""

    ids: tuple[str, ...]
    change: Change | None
    """None: tombstones of expired ids."""
    tickets: list[int] = field(default_factory=list)
    answer: Answer | None = None
    """For `tickets`, once the change is applied; None: nobody has asked for it."""
    adds: tuple[int, int] | None = None
    """(producer id, epoch) that adds partitions."""
    joined: list[tuple[int, AddPartitions]] = field(default_factory=list)
    """(ticket, request) of partitions to be added next."""

    def joins(self, request: AddPartitions) -> bool:
        """May the request be kept behind this proposal?"""
        same = self.adds == (request.producer_id, request.producer_epoch)
        return same and len(self.joined) < JOINED_MAX

    def everyone(self) -> list[int]:
        """All tickets that depend on the proposal."""
        return [*self.tickets, *(ticket for ticket, _ in self.joined)]
