"""Checkpoints cost a replica a handful of syncs each: no two of one replica begin together."""

from itertools import pairwise

import pytest
from muster_coordinator.limits import KIB
from muster_coordinator.replica import limits
from muster_coordinator.replica.snapshots import checkpoints

from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_recovery import FREQUENT, commit_many
from tests.sim.loop import World

PARTITIONS = 6
ROUNDS = 12


def begun(cluster: SimCluster) -> dict[int, list[tuple[float, str]]]:
    """Replica -> (ms, folder) of every checkpoint file that is begun from now on."""
    found: dict[int, list[tuple[float, str]]] = {broker: [] for broker in cluster.nodes}
    for broker in cluster.nodes:

        def look(operation: str, path: str, size: int, broker: int = broker) -> None:
            del size
            if operation == "create" and path.startswith("checkpoints/"):
                found[broker].append((cluster.world.now_us / 1_000, path.rpartition("/")[0]))

        cluster.disks[broker].cost = look
    return found


def loaded(partitions: int) -> dict[int, list[tuple[float, str]]]:
    cluster = SimCluster(World(8), partitions=partitions, **FREQUENT)
    cluster.start()
    found = begun(cluster)
    for turn in range(ROUNDS):
        for partition in range(partitions):
            commit_many(cluster, partition, turn * 100, 100)
    cluster.world.run_for(2_000)
    return found


def test_no_two_checkpoints_of_a_replica_begin_within_the_pace() -> None:
    """They are begun by a turn and written by a thread behind a flush: a few milliseconds may lie between."""
    for starts in loaded(PARTITIONS).values():
        assert len(starts) >= PARTITIONS
        times = [at for at, _ in starts]
        gaps = [after - before for before, after in pairwise(times)]
        assert min(gaps) >= limits.CHECKPOINT_PACE_MS - 10, sorted(gaps)[:5]


def steady() -> dict[int, list[float]]:
    """Replica -> when it began checkpoints of one group that is written to every 20 ms."""
    cluster = SimCluster(World(8), partitions=1, checkpoint_bytes=12 * KIB)
    cluster.start()
    found = begun(cluster)
    for turn in range(300):
        commit_many(cluster, 0, turn, 1)
        cluster.world.run_for(20)
    return {broker: [at for at, where in starts if where == "checkpoints/1"] for broker, starts in found.items()}


def apart(starts: dict[int, list[float]]) -> float:
    """The least time between checkpoints of the group on two replicas."""
    assert all(len(times) >= 4 for times in starts.values()), starts
    return min(after - before for before, after in pairwise(sorted(at for times in starts.values() for at in times)))


def test_the_replicas_of_a_group_do_not_write_the_same_checkpoint_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They apply alike: without a share of its own each would begin in the same milliseconds."""
    assert apart(steady()) >= limits.CHECKPOINT_PACE_MS
    monkeypatch.setattr(checkpoints, "share_of", lambda *_: 0.0)
    assert apart(steady()) < limits.CHECKPOINT_PACE_MS / 2
