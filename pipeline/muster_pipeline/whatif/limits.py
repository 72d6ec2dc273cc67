"""Bounds of a replay."""

from typing import Final

GENERATIONS_MAX: Final = 100_000
"""Recorded generations of one group that are replayed; more is refused, not cut."""

SETTLE_STEPS_MAX: Final = 8
"""Rebalances that a cooperative assignor may need after one change of members; Kafka's needs two."""
