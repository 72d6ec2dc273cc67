"""The replicas of new partitions: those that a client has chosen, judged in Kafka's order, or those that are placed.

Below `MEMBERS_LEVEL` every partition has a voter on every broker that formed the cluster, so the only possible
assignment lists all of them, in any order. That is what end-to-end checks of clusters, and `--replica-assignment`,
send. The order is not kept there; from that level on the first one is the preferred leader, as in Kafka (ADR 44).
"""

from collections.abc import Callable, Collection, Sequence

from muster_coordinator.api.place_for_topics import PlaceForTopics
from muster_coordinator.controller.image import MEMBERS_LEVEL, ClusterImage
from muster_coordinator.controller.misfit import MisfitError
from muster_coordinator.controller.moves import require_replicas
from muster_coordinator.controller.placement import Unplaceable
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.partitions.surface import Surface

Replicas = tuple[tuple[BrokerId, ...], ...]
"""The brokers of each new partition; none below `MEMBERS_LEVEL`."""


def chosen_replicas(
    chosen: Collection[Sequence[int]], image: ClusterImage, alive: Callable[[BrokerId], bool], factor: int | None = None
) -> Replicas:
    """What a client has chosen for each partition. `factor`: of the partitions that are there. Raises ApiError 39."""
    if image.feature_level < MEMBERS_LEVEL:
        for replicas in chosen:
            _require_all(replicas, image)
        return ()
    for replicas in chosen:
        brokers = tuple(map(BrokerId, replicas))
        try:
            require_replicas(image, brokers)
        except MisfitError as misfit:
            raise ApiError(Code(misfit.result.error), misfit.result.message) from misfit
        factor = len(brokers) if factor is None else factor
        if len(brokers) != factor:
            raise _misassigned(f"a partition has {len(brokers)} replicas, and others have {factor}")
        if not any(map(alive, brokers)):
            raise _misassigned(f"none of the brokers {list(brokers)} can be reached")
    return tuple(tuple(map(BrokerId, replicas)) for replicas in chosen)


def placed_replicas(
    count: int, factor: int, image: ClusterImage, place: PlaceForTopics, surface: Surface, topic_id: bytes
) -> Replicas:
    """Brokers for each partition that a client leaves to us. Raises ApiError 38 if there are not enough."""
    if image.feature_level < MEMBERS_LEVEL:
        return ()
    placed = place.placed(topic_id, count, factor, image, surface.alive)
    if isinstance(placed, Unplaceable):
        raise ApiError(Code.INVALID_REPLICATION_FACTOR, placed.message)
    return placed.partitions


def judge_numbers(numbers: Collection[int]) -> None:
    """Raises ApiError 39 unless the partitions are numbered from 0, each once, without a gap."""
    if sorted(numbers) != list(range(len(numbers))):
        raise _misassigned("assignments must number the partitions from 0, each once, without a gap")


def _require_all(replicas: Sequence[int], image: ClusterImage) -> None:
    if len(replicas) != len(image.voters) or set(replicas) != set(image.voters):
        said = f"every partition has replicas on all brokers, {sorted(image.voters)}; no other assignment is possible"
        raise _misassigned(said)


def _misassigned(message: str) -> ApiError:
    return ApiError(Code.INVALID_REPLICA_ASSIGNMENT, message)
