"""Replicas that a request chooses by hand, for new topics and new partitions.

Until placement exists every partition has a voter on every broker, so the one assignment that can be had names all of
them, in any order. Tools that check a cluster from end to end, and `--replica-assignment`, send just that. The order is
not kept: which broker is the preferred leader follows from the partition's Raft group (decision 18).
"""

from collections.abc import Collection, Sequence

from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.errors import ApiError, Code


def judge_replicas(chosen: Collection[Sequence[int]], image: ClusterImage) -> None:
    """ApiError 39 unless each partition's replicas are all brokers, each once."""
    for replicas in chosen:
        if len(replicas) != len(image.voters) or set(replicas) != set(image.voters):
            raise ApiError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"every partition is on every broker, {sorted(image.voters)}; other replicas cannot be had",
            )


def judge_numbers(numbers: Collection[int]) -> None:
    """ApiError 39 unless the partitions are numbered from 0, each once, without a gap."""
    if sorted(numbers) != list(range(len(numbers))):
        raise ApiError(
            Code.INVALID_REPLICA_ASSIGNMENT, "assignments must number the partitions from 0, each once, without a gap"
        )
