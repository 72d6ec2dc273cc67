"""Segment files of plain offset commits, any number of them, in log partitions of one size.

Every group commits all its partitions in one batch every COMMIT_EVERY_MS. Offsets advance at different speeds, some
stand still, and one commit in REWIND_EVERY goes back. What rounds and unit costs count on: each batch is sixteen
commits, and no log partition has another number of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.pipeline.batches import KEYS_PER_GROUP, LOG_PARTITIONS, Round, make_once

GROUPS_PER_PARTITION = 62
BATCHES_PER_ROUND = GROUPS_PER_PARTITION * KEYS_PER_GROUP
GROUP_EVERY_MS = 7
"""From one group's commit to the next one's."""
_ROUNDS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Groups, partitions and rounds for a number of records."""

    rounds: int

    @classmethod
    def of(cls, records: int) -> "Shape":
        """At least one round; rounded down to whole rounds."""
        return cls(rounds=max(1, records // (LOG_PARTITIONS * BATCHES_PER_ROUND)))

    @property
    def records(self) -> int:
        return self.rounds * LOG_PARTITIONS * BATCHES_PER_ROUND


def make(folder: Path, shape: Shape) -> Path:
    """The log's folder, made once."""
    return make_once(folder / f"log-{shape.records}", lambda number: _chunks(number, shape.rounds))


def _chunks(number: int, rounds: int) -> Iterator[tuple[int, bytes]]:
    made = Round()
    for place in range(GROUPS_PER_PARTITION):
        made.commit(number * GROUPS_PER_PARTITION + place, place * GROUP_EVERY_MS)
    for first in range(0, rounds, _ROUNDS_AT_ONCE):
        base = first * BATCHES_PER_ROUND
        yield base, made.filled(base, BATCHES_PER_ROUND, first, min(_ROUNDS_AT_ONCE, rounds - first))
