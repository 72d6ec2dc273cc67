"""What-if: the recorded membership history under other assignors, side by side with what was recorded."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One assignor over one group's whole history."""

    assignor: str
    """Its name, or "recorded"."""
    rebalances: int
    partitions_moved: int
    balance_score: float
    """Mean over the generations; 0 is perfect."""
    paused_partitions: float
    """Mean number of partitions that are not consumed during a rebalance."""
    stall_ms: int | None = None
    """Mean partition-milliseconds of standstill, over generations with a known duration; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One group; the recorded one first."""

    group: str
    alternatives: tuple[Alternative, ...]
