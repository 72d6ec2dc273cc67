"""Counts of what coordinators of transactions did, for metrics; no decision depends on them."""

from dataclasses import dataclass


@dataclass(slots=True)
class TransactionStats:
    """Of all coordinators of a replica since its process started, while they led; volatile, and they never fall."""

    committed: int = 0
    aborted: int = 0
    """Transactions that are complete: each of their partitions has its marker."""
    timed_out: int = 0
    """Those that the coordinator aborted, since their time was over."""
    fenced: int = 0
    """Requests of producers that another incarnation, or their own time-out, has fenced."""
    ids_expired: int = 0
