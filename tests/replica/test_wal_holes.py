"""Damage in the midst of a replica's WAL: it starts, serves the groups that it can prove, and the others are healed."""

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.replica.accepted_losses import accept, losses
from muster_coordinator.replica.bootstrap.identity import StartRefused
from muster_coordinator.replica.group_manager import TOPICS_WAL
from muster_coordinator.storage.wal_format import CHECKPOINT, END_BYTES, FILE_HEADER_BYTES, RECOVERY_POINT
from muster_coordinator.storage.wal_hole import batch_at

from tests.replica.cluster import SimCluster
from tests.replica.multiraft.test_lost_promises import suspended
from tests.replica.snapshots.test_damaged_groups import listening, same_everywhere, troubles
from tests.replica.snapshots.test_recovery import FREQUENT, TINY_WAL, commit_many
from tests.sim.disk import SimDisk
from tests.sim.loop import World

GROUP = GroupNo(1)
WAL_WRITER = "wal-offsets"


def wal_paths(disk: SimDisk) -> list[str]:
    return [path for path in disk.files() if path.startswith(f"{WAL_WRITER}/") and path.endswith(".wal")]


def records(disk: SimDisk) -> list[tuple[str, int, int, int, int]]:
    """(Path, position of the batch, type, group, position) of every record, in order."""
    found = []
    for path in wal_paths(disk):
        content, at = disk.content(path), FILE_HEADER_BYTES
        while True:
            parsed, stop = batch_at(content, at)
            if stop < 0:
                break
            found += [(path, at, kind, group, position) for kind, _, group, _, _, position, _ in parsed]
            at = stop + END_BYTES
    return found


def flip(disk: SimDisk, path: str, at: int) -> None:
    disk.damage(path, at, bytes([disk.content(path)[at] ^ 4]))


def lived(seed: int, replicas: int = 3) -> SimCluster:
    cluster = SimCluster(World(seed), replicas=replicas, **{**TINY_WAL, **FREQUENT})
    cluster.start()
    for partition in range(3):
        commit_many(cluster, partition, 0, 100)
    commit_many(cluster, 0, 100, 600)
    cluster.world.run_for(2_500)
    return cluster


def test_a_replica_with_a_hole_in_its_wal_serves_and_is_made_whole() -> None:
    cluster = lived(71)
    follower = next(broker for broker in cluster.brokers if broker != cluster.wait_leader(1))
    cluster.kill(follower)
    disk = cluster.disks[follower]
    batches = sorted({(path, at) for path, at, *_ in records(disk)})
    path, at = batches[len(batches) * 2 // 3]
    flip(disk, path, at + 40)
    told = listening(cluster)
    node = cluster.restart(follower)
    assert any("bytes of the WAL are not what was written" in one for one in told)
    assert suspended(node)
    cluster.world.run_until("whole again", lambda: not suspended(node), 20_000)
    same_everywhere(cluster)
    cluster.kill(follower)
    assert not suspended(cluster.restart(follower)), "the hole is judged once"


def recovery_point_before_a_checkpoint(disk: SimDisk) -> tuple[str, int]:
    """The newest recovery point of the group's that stands in a batch without entries of it, before the newest
    checkpoint."""
    found = records(disk)
    checkpoint = max(n for n, one in enumerate(found) if (one[2], one[3]) == (CHECKPOINT, GROUP))
    recovery_points = [one for one in found[:checkpoint] if (one[2], one[3]) == (RECOVERY_POINT, GROUP)]
    return recovery_points[-1][0], recovery_points[-1][4]


def test_a_checkpoint_whose_recovery_point_is_lost_is_no_reason_to_cut_the_segments() -> None:
    """The recovery point before it says where to cut them, and the entries from there to the checkpoint are not
    replayed."""
    for seed in (72, 73, 74):
        cluster = lived(seed)
        follower = next(broker for broker in cluster.brokers if broker != cluster.wait_leader(1))
        cluster.kill(follower)
        disk = cluster.disks[follower]
        flip(disk, *recovery_point_before_a_checkpoint(disk))
        listening(cluster)
        before = {path: disk.content(path) for path in disk.files() if path.startswith(f"segments/{GROUP}/")}
        node = cluster.restart(follower)
        if troubles(node):
            assert "recovery point of the segments" in troubles(node)[GROUP]
            assert {path: disk.content(path) for path in before} == before
            same_everywhere(cluster)
            return
        same_everywhere(cluster)
    pytest.fail("the recovery point was lost in none of them")


def sole(seed: int) -> tuple[SimCluster, SimDisk]:
    """The only replica of a cluster, stopped, the last synced batch of its WAL damaged."""
    cluster = lived(seed, replicas=1)
    cluster.kill(0)
    disk = cluster.disks[0]
    last = wal_paths(disk)[-1]
    at = max(at for path, at, *_ in records(disk) if path == last)
    flip(disk, last, at + 10)
    return cluster, disk


def test_what_the_only_replica_has_lost_is_neither_served_nor_cut_until_it_is_accepted() -> None:
    cluster, disk = sole(75)
    assert losses(disk) == [], "no start has found it yet"
    listening(cluster)

    def kept() -> dict[str, bytes]:
        return {path: disk.content(path) for path in disk.files() if path.startswith(("segments/", "checkpoints/"))}

    before = kept()
    for _ in range(2):
        node = cluster.restart(0)
        lost = suspended(node)
        assert GROUP in lost
        assert set(troubles(node)) == lost
        assert all("accept-losses" in trouble for trouble in troubles(node).values())
        cluster.world.run_for(10_000)
        assert cluster.leader_of(1) is None
        assert kept() == before
        cluster.kill(0)
    found = losses(disk)
    assert [(one.wal, set(one.groups)) for one in found] == [(WAL_WRITER, lost)]
    accept(disk, found)
    assert losses(disk) == []
    node = cluster.restart(0)
    assert not suspended(node)
    cluster.world.run_until("it serves", lambda: not troubles(node), 5_000)
    assert cluster.commit(cluster.wait_leader(1), 0, "after", 7) == Code.NONE
    cluster.kill(0)
    cluster.restart(0)
    assert cluster.fetch(cluster.wait_leader(1), 0, "after") == (Code.NONE, 7)


def test_nothing_is_accepted_where_others_can_make_good_for_it() -> None:
    cluster = lived(76)
    with pytest.raises(StartRefused, match="3 replicas"):
        losses(cluster.disks[0])
    with pytest.raises(StartRefused, match="no cluster"):
        losses(SimDisk())


def test_a_loss_of_which_no_group_is_suspended_is_over_once_all_groups_are_known() -> None:
    """Each replica has once lost a batch of a WAL without groups: a new topic would wait for a leader for ever."""
    cluster = lived(77)
    for broker in cluster.brokers:
        cluster.kill(broker)
        disk = cluster.disks[broker]
        flip(disk, f"{TOPICS_WAL}/0000000000000001.wal", FILE_HEADER_BYTES + 10)
    listening(cluster)
    for broker in cluster.brokers:
        node = cluster.restart(broker)
        assert node.group_manager.topics_writer.wal.is_suspended(GroupNo(99))
    cluster.wait_ready()
    cluster.world.run_for(2_500)
    topic = CreateTopic(name="t", topic_id=bytes(range(16)), partitions=1, configs=())
    assert cluster.submit(cluster.wait_leader(0), topic).error == Code.NONE
    cluster.world.run_until("made", lambda: all(GroupNo(4) in n.host.groups for n in cluster.nodes.values()), 5_000)
    cluster.wait_leader(4)
    for broker in cluster.brokers:
        cluster.kill(broker)
        assert not cluster.restart(broker).group_manager.topics_writer.wal.is_suspended(GroupNo(99)), "remembered"
