"""Manual replica assignments, of new topics and new partitions.

Until placement exists every partition has a voter on every broker, so the only possible assignment lists all of them,
in any order. That is what end-to-end checks of clusters, and `--replica-assignment`, send. The order is not kept: the
preferred leader follows from the partition's Raft group (decision 18).
"""

from collections.abc import Collection, Sequence

from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.errors import ApiError, Code


def judge_replicas(chosen: Collection[Sequence[int]], image: ClusterImage) -> None:
    """Raises ApiError 39 unless each partition's replicas are all brokers, each once."""
    for replicas in chosen:
        if len(replicas) != len(image.voters) or set(replicas) != set(image.voters):
            raise ApiError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"every partition has replicas on all brokers, {sorted(image.voters)}; no other assignment is possible",
            )


def judge_numbers(numbers: Collection[int]) -> None:
    """Raises ApiError 39 unless the partitions are numbered from 0, each once, without a gap."""
    if sorted(numbers) != list(range(len(numbers))):
        raise ApiError(
            Code.INVALID_REPLICA_ASSIGNMENT, "assignments must number the partitions from 0, each once, without a gap"
        )
