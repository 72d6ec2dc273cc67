"""Packs log partitions of many clusters into tasks of about equal work, as values.

Problem: one task a log partition is right for one cluster. Of a fleet most log partitions are small, and a few hold
most bytes: a task each would be half a million starts of a task, and a task a cluster would have one that runs for
hours. Mechanism: the unit is a log partition of a cluster, which cannot be split (its fold is one). What it weighs is
its bytes, and what any costs however small, told in bytes. The heaviest goes first, each to the task that has least
(longest processing time first), so that no task has more than the mean and one log partition, and one that is heavier
than the mean has its task for itself. Tasks are grouped into waves of whole clusters, because a cluster is published
when all of it is there: a wave that dies costs itself and nothing before it.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster_pipeline.job.limits import TASK_BYTES, WAVE_CLUSTERS_MAX, WAVE_LOG_PARTITIONS_MAX
from muster_pipeline.job.unit_costs import TASK_AS_BYTES


class Piece(NamedTuple):
    """One log partition of one cluster."""

    cluster: str
    log_partition: int
    bytes: int

    @property
    def weight(self) -> int:
        """Bytes, and what a log partition costs however few it has."""
        return self.bytes + TASK_AS_BYTES


@dataclass(frozen=True, slots=True)
class Load:
    """The log partitions of one task, heaviest first."""

    pieces: tuple[Piece, ...]

    @property
    def bytes(self) -> int:
        """Of log."""
        return sum(one.bytes for one in self.pieces)

    @property
    def weight(self) -> int:
        """See `Piece.weight`."""
        return sum(one.weight for one in self.pieces)


Sizes = Mapping[int, int]
"""Log partition -> bytes."""


def packed(pieces: Iterable[Piece], tasks: int | None = None) -> tuple[Load, ...]:
    """Tasks, heaviest first; equal pieces in any order give equal tasks. None: as many as TASK_BYTES asks for."""
    ordered = sorted(pieces, key=lambda one: (-one.weight, one.cluster, one.log_partition))
    if tasks is None:
        tasks = -(-sum(one.weight for one in ordered) // TASK_BYTES)
    count = min(tasks, len(ordered))
    loads: list[list[Piece]] = [[] for _ in range(count)]
    least = [(0, number) for number in range(count)]
    for one in ordered:
        weight, number = least[0]
        loads[number].append(one)
        heapq.heapreplace(least, (weight + one.weight, number))
    found = [Load(tuple(load)) for load in loads]
    return tuple(sorted(found, key=lambda load: (-load.weight, load.pieces)))


def waves(clusters: Mapping[str, Sizes]) -> tuple[tuple[str, ...], ...]:
    """Clusters that are read and published together; those with the heaviest log partitions first, so that what is long
    runs beside what is long."""
    heaviest = {cluster: max(sizes.values(), default=0) for cluster, sizes in clusters.items()}
    found: list[list[str]] = []
    count = 0
    for cluster in sorted(clusters, key=lambda name: (-heaviest[name], name)):
        count += len(clusters[cluster])
        if not found or len(found[-1]) == WAVE_CLUSTERS_MAX or count > WAVE_LOG_PARTITIONS_MAX:
            found.append([])
            count = len(clusters[cluster])
        found[-1].append(cluster)
    return tuple(map(tuple, found))


def pieces_of(clusters: Mapping[str, Sizes], names: Sequence[str]) -> list[Piece]:
    """All log partitions of these clusters."""
    return [Piece(name, number, size) for name in names for number, size in clusters[name].items()]


def loads_of(clusters: Mapping[str, Sizes]) -> tuple[tuple[Load, ...], ...]:
    """The tasks of each wave."""
    return tuple(packed(pieces_of(clusters, names)) for names in waves(clusters))
