"""A segment is synced while it grows: a flush that finds all of it unwritten would keep everybody's commits from the
disk for as long as it takes."""

import pytest
from muster_coordinator.errors import StorageFailed
from muster_coordinator.limits import KIB
from muster_coordinator.replica import limits

from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_recovery import commit_many
from tests.sim.loop import World

COMMITS = 600
OF_A_LOOK = 16 * KIB
"""What these commits append in 100 ms and while one sync is under way."""


def synced(cluster: SimCluster) -> dict[int, list[int]]:
    """Replica -> bytes that each sync of a segment found unwritten, while commits go on."""
    found: dict[int, list[int]] = {broker: [] for broker in cluster.nodes}
    for broker in cluster.nodes:

        def look(operation: str, path: str, size: int, broker: int = broker) -> None:
            if operation == "sync" and path.startswith("segments/") and size:
                found[broker].append(size)

        cluster.disks[broker].cost = look
    for first in range(0, COMMITS, 20):
        commit_many(cluster, 0, first, 20)
        cluster.world.run_for(30)
    return found


def started(**settings: int) -> SimCluster:
    cluster = SimCluster(World(8), partitions=1, segment_flush_ms=600_000, **settings)
    cluster.start()
    return cluster


def test_a_segment_is_synced_piece_by_piece_between_flushes() -> None:
    cluster = started(segment_sync_bytes=16 * KIB)
    for broker, sizes in synced(cluster).items():
        assert len(sizes) > 3, sizes
        assert max(sizes) <= 16 * KIB + OF_A_LOOK, sizes
        assert cluster.nodes[broker].group_manager.checkpoints.flushes == 0, "without a recovery point"


def test_without_it_a_segment_lies_unwritten_until_its_flush() -> None:
    """So the test above would notice; a mebibyte is more than is committed here."""
    assert all(not sizes for sizes in synced(started()).values())


def test_a_partition_that_is_due_for_a_checkpoint_is_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be busy when a slot is free for it; and a checkpoint begins with a flush."""
    monkeypatch.setattr(limits, "CHECKPOINT_PACE_MS", 600_000)
    cluster = started(segment_sync_bytes=1, checkpoint_bytes=16 * KIB)
    assert all(synced(cluster).values()), "until it is due, or has the only slot"
    assert all(node.group_manager.checkpoints.made <= 1 for node in cluster.nodes.values())
    assert not any(synced(cluster).values()), "from then on"


def test_a_sync_that_fails_ends_the_process() -> None:
    """The kernel may have taken the unwritten bytes for written: no flush after it could be believed."""
    cluster = started(segment_sync_bytes=1, replicas=1)
    cluster.disks[0].fail_next("sync", path="segments/")
    commit_many(cluster, 0, 0, 20)
    with pytest.raises(StorageFailed, match="segments/"):
        cluster.world.run_for(1_000)
