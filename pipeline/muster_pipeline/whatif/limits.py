"""Bounds of a replay."""

from typing import Final

GENERATIONS_MAX: Final = 100_000
"""Most recorded generations of one group that are replayed; with more, the replay is refused and not cut short."""

SETTLE_STEPS_MAX: Final = 8
"""Rebalances that a cooperative assignor may need after one change of members; Kafka's needs two."""
