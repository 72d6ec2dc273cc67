"""Partitions and lag in the form that people read: `orders:0-3,7`, `1234`, `-`, `Unknown`.

Lag is the sum of log end offset minus committed offset, over the partitions with a committed offset. A partition
without one has no lag, not a lag of 0 (Kafka's own tools print `-`), and is counted separately. One unknown log end
offset makes the sum unknown: a sum that silently leaves out partitions would look better than the truth. Where offsets
have gaps, in topics in Redis, the coordinator tells the number of records, and `~1234` is an estimate (ADR 97).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster_operator.world.group import ObservedGroup, PartitionView
from muster_operator.world.views import Unknown

UNKNOWN = "Unknown"
NOTHING_COMMITTED = "-"
ABOUT = "~"
"""Before a number that is an estimate."""
EXACT, ESTIMATED, UNCOUNTED = "exact", "estimated", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    records: int | None
    """None: unknown, or no partition has a committed offset."""
    quality: str
    """exact, estimated or unknown: the coordinators' words."""
    text: str
    total: int
    """Number of partitions considered."""
    without_commit: int
    unknown: int
    """Partitions whose log end offset, or number of records, is unknown."""


def lag_of(group: ObservedGroup | Unknown) -> Lag:
    """Lag of the whole group. Without any partition (no such topic, or a cluster without topics) it is unknown, not
    0."""
    if isinstance(group, Unknown):
        return Lag(records=None, quality=UNCOUNTED, text=UNKNOWN, total=0, without_commit=0, unknown=0)
    return lag_over(group.partitions)


def lag_over(partitions: Sequence[PartitionView]) -> Lag:
    without_commit = sum(1 for one in partitions if one.committed is None)
    unknown = sum(map(_is_unknown, partitions))
    records: int | None = None
    text, quality = UNKNOWN, UNCOUNTED
    if partitions and not unknown:
        behind = [behind for one in partitions if (behind := _behind(one)) is not None]
        records = sum(behind) if behind else None
        estimated = any(one.counted is not None and not one.counted.exact for one in partitions)
        quality = UNCOUNTED if records is None else ESTIMATED if estimated else EXACT
        text = NOTHING_COMMITTED if records is None else f"{ABOUT if estimated else ''}{records}"
    return Lag(
        records=records,
        quality=quality,
        text=text,
        total=len(partitions),
        without_commit=without_commit,
        unknown=unknown,
    )


def by_partition(group: ObservedGroup) -> Mapping[tuple[str, int], PartitionView]:
    return {(one.topic, one.partition): one for one in group.partitions}


def text_of(assignment: Iterable[tuple[str, Sequence[int]]]) -> list[str]:
    """`["orders:0-3,7", "payments:2"]`, by topic."""
    return [f"{topic}:{ranges(partitions)}" for topic, partitions in sorted(assignment) if partitions]


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,7` of 0, 1, 2, 3, 7."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _behind(one: PartitionView) -> int | None:
    """Never below 0: log end offset and committed offset are not read at the same instant."""
    if one.counted is not None:
        return one.counted.records
    if one.committed is None or one.log_end is None:
        return None
    return max(0, one.log_end - one.committed)


def _is_unknown(one: PartitionView) -> bool:
    return one.counted.records is None if one.counted is not None else one.log_end is None
