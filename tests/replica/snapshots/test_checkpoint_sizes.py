"""By age alone no group writes its whole state for a little progress: not after a start, an install, a full disk."""

from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import GIB
from muster_coordinator.replica import limits
from muster_coordinator.replica.node import Node

from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_recovery import FREQUENT, behind, commit_many
from tests.sim.disk import SimDisk
from tests.sim.loop import World

GROUP = GroupNo(1)


def newest_bytes(disk: SimDisk) -> int:
    folder = f"checkpoints/{GROUP}"
    return len(disk.content(f"{folder}/{max(disk.listdir(folder))}"))


def tracked(node: Node):
    return node.group_manager.checkpoints._tracked[GROUP]


def test_a_start_knows_how_large_its_state_was_when_it_was_written_last(monkeypatch) -> None:
    """Twice as much as `CHECKPOINT_BYTES_MIN` is applied, the state is six times as large: no checkpoint is due."""
    monkeypatch.setattr(limits, "CHECKPOINT_BYTES_MIN", 1_000)
    cluster = SimCluster(World(7), replicas=1, checkpoint_bytes=GIB, segment_flush_ms=1_000)
    cluster.start()
    commit_many(cluster, 0, 0, 300)
    cluster.world.run_for(3_000)
    size = newest_bytes(cluster.disks[0])
    assert size > 6_000
    cluster.kill(0)
    node = cluster.restart(0)
    cluster.wait_ready()
    cluster.world.run_for(3_000)
    made = node.group_manager.checkpoints.made
    applied_bytes = tracked(node).group.applied_bytes
    commit_many(cluster, 0, 0, 10)
    assert 1_000 <= tracked(node).group.applied_bytes - applied_bytes < size // 2
    cluster.world.run_for(8_000)
    assert node.group_manager.checkpoints.made == made
    assert tracked(node).file_bytes == size
    commit_many(cluster, 0, 0, 200)
    cluster.world.run_for(8_000)
    assert node.group_manager.checkpoints.made > made


def test_an_install_tells_how_large_the_state_is() -> None:
    cluster, late = behind(21)
    node = cluster.restart(late)
    cluster.world.run_until("installed", lambda: node.formed.installs.installed[GROUP], 10_000)
    assert tracked(node).file_bytes == newest_bytes(cluster.disks[late]) > 0


def test_a_full_disk_after_an_install_makes_nothing_due_that_the_install_brought() -> None:
    """What was applied before a snapshot that could not be stored counts again; there was no such snapshot."""
    cluster = SimCluster(World(8), partitions=1, **FREQUENT)
    cluster.start()
    commit_many(cluster, 0, 0, 100)
    node = cluster.nodes[cluster.wait_leader(1)]
    checkpoints, one = node.group_manager.checkpoints, tracked(node)
    cluster.world.run_for(1_000)
    one.captured_before = one.captured_bytes = 0  # as far back as the install found it
    assert checkpoints._far(one)
    release = checkpoints.hold(GROUP)
    assert release is not None
    release()
    assert not checkpoints._far(one)
    checkpoints._postpone(one, "segment")
    assert not checkpoints._far(one)
