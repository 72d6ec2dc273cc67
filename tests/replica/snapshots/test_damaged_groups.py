"""What a full disk or damaged files do to one group is that group's: the others serve, and an install heals it."""

import errno

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import MIB
from muster_coordinator.replica import limits
from muster_coordinator.replica.node import Node

from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_recovery import FREQUENT, TINY_WAL, behind, commit_many, segment_bytes
from tests.sim.disk import SimDisk
from tests.sim.loop import World

GROUP = GroupNo(1)


def troubles(node: Node) -> dict[GroupNo, str]:
    """Groups without a state, and why."""
    return {number: node.host.groups[number].trouble for number in node.group_manager.troubled}


def listening(cluster: SimCluster) -> list[str]:
    """What operators are told from now on."""
    told: list[str] = []
    cluster.notice = lambda what, details, error: told.append(f"{what} {dict(details)}")
    return told


def same_everywhere(cluster: SimCluster) -> None:
    cluster.wait_ready()
    cluster.world.run_until("no trouble", lambda: not any(troubles(n) for n in cluster.nodes.values()), 20_000)
    cluster.converge()
    assert segment_bytes(cluster, 0, 1) == segment_bytes(cluster, 1, 1) == segment_bytes(cluster, 2, 1)


def others_serve(cluster: SimCluster, node: Node) -> None:
    """Every other group of this replica follows what is committed now."""
    for partition in (1, 2):
        assert cluster.commit(cluster.wait_leader(1 + partition), partition, "g", 7) == Code.NONE
        number = GroupNo(1 + partition)
        held = node.host.groups[number]
        leader = cluster.nodes[cluster.wait_leader(int(number))].host.groups[number]
        cluster.world.run_until("the group follows", lambda: held.applied >= leader.core.commit, 5_000)  # noqa: B023


def lead(cluster: SimCluster, broker: int) -> None:
    """The replica can lead the group, so it has a state."""
    leader = cluster.wait_leader(1)
    if leader != broker:
        assert cluster.nodes[leader].transfer(GROUP, cluster.brokers[broker])
    cluster.world.run_until("it leads", lambda: cluster.leader_of(1) == broker, 5_000)
    assert cluster.fetch(broker, 0, "group-49", "topic" * 20)[0] == Code.NONE


def test_an_install_does_not_begin_while_the_disk_has_no_room_for_it() -> None:
    cluster, late = behind(31)
    disk = cluster.disks[late]
    disk.capacity_bytes = disk._used() + limits.DISK_LOW_BYTES + 60_000
    told = listening(cluster)
    node = cluster.restart(late)
    cluster.world.run_until("given up", lambda: node.formed.installs.given_up, 10_000)
    assert node.formed.installs.bytes_received == 0
    assert "are free" in told[0]
    others_serve(cluster, node)
    disk.capacity_bytes = None
    same_everywhere(cluster)
    lead(cluster, late)


@pytest.mark.parametrize("operation", ["pwrite", "sync", "create"])
def test_a_disk_that_fails_what_is_staged_costs_the_install_only(operation: str) -> None:
    cluster, late = behind(32)
    cluster.disks[late].fail_next(operation, errno.ENOSPC, "incoming/1/")
    told = listening(cluster)
    node = cluster.restart(late)
    cluster.world.run_until("given up", lambda: node.formed.installs.given_up, 10_000)
    others_serve(cluster, node)
    same_everywhere(cluster)
    assert node.formed.installs.installed[GROUP] == 1
    assert len(told) == 1


def sealed(seed: int) -> tuple[SimCluster, int, SimDisk]:
    """A cluster, and its late replica's disk as a power loss leaves it between seal and swap."""
    cluster, late = behind(seed)
    disk = cluster.disks[late]
    found: list[SimDisk] = []

    def look(operation: str, path: str, size: int) -> None:
        if not found and operation != "pread" and disk.exists("incoming/1/complete"):
            copy = disk.durable_copy()
            if copy.exists("incoming/1/complete"):
                found.append(copy)

    disk.cost = look
    cluster.restart(late)
    cluster.world.run_until("a sealed transfer", lambda: found, 10_000)
    disk.cost = None
    cluster.kill(late)
    cluster.disks[late] = found[0]
    return cluster, late, found[0]


def test_a_start_puts_a_sealed_install_in_place_on_a_disk_with_one_free_block() -> None:
    """It took twice the partition's size, and every start was refused."""
    cluster, late, disk = sealed(33)
    disk.capacity_bytes = disk._used() + 4_096  # the count of starts
    node = cluster.start_one(late)
    assert troubles(node) == {}
    assert node.host.groups[GROUP].core.log.checkpoint[0] > 400
    disk.capacity_bytes = None
    same_everywhere(cluster)


@pytest.mark.parametrize("operation", ["link", "sync_dir"])
def test_a_sealed_install_that_a_start_cannot_put_in_place_is_tried_again_while_the_others_serve(
    operation: str,
) -> None:
    cluster, late, disk = sealed(34)
    for _ in range(3):
        disk.fail_next(operation, errno.ENOSPC, "checkpoints/1")
    told = listening(cluster)
    node = cluster.start_one(late)
    assert "injected" in troubles(node)[GROUP]
    assert "a group has no state here" in told[0]
    others_serve(cluster, node)
    same_everywhere(cluster)
    assert node.formed.installs.installed[GROUP] == 1
    lead(cluster, late)


def checkpointed(seed: int, replicas: int = 3) -> SimCluster:
    cluster = SimCluster(World(seed), replicas=replicas, **{**TINY_WAL, **FREQUENT})
    cluster.start()
    commit_many(cluster, 0, 0, 2_200)
    cluster.world.run_for(500)
    commit_many(cluster, 0, 2_200, 100)
    assert all(node.group_manager._offsets_writer.wal.first_index(GROUP) > 1 for node in cluster.nodes.values())
    return cluster


def blob_flipped(disk: SimDisk, which: int = -1) -> str:
    """A flipped bit in the first blob of a checkpoint of group 1."""
    names = [name for name in disk.listdir("checkpoints/1") if name.endswith(".ckpt")]
    path = f"checkpoints/1/{names[which]}"
    content = disk.content(path)
    at = content.index(b"topic" * 20)
    disk.damage(path, at, bytes([content[at] ^ 4]))
    return path


def test_a_damaged_newest_checkpoint_is_passed_over_for_an_older_one_that_the_wal_goes_on_from() -> None:
    """And the entries after the older one stay in the WAL, until there is a newer one."""
    roomy = {"wal_file_bytes": MIB, "wal_bytes_max": 8 * MIB}
    cluster = SimCluster(World(35), replicas=1, **{**TINY_WAL, **FREQUENT, **roomy})
    cluster.start()
    commit_many(cluster, 0, 0, 900)
    cluster.world.run_for(500)
    cluster.kill(0)
    disk = cluster.disks[0]
    path = blob_flipped(disk)
    told = listening(cluster)
    node = cluster.restart(0)
    assert path.rpartition("/")[2] in told[0]
    assert troubles(node) == {}
    core = node.host.groups[GROUP].core
    assert 0 < core.applied < int(path.rpartition("/")[2][:20])
    assert not disk.exists(path), "it would displace the good one"
    cluster.wait_ready()
    assert cluster.fetch(0, 0, "group-49", "topic" * 20) == (Code.NONE, 899)
    cluster.world.run_for(1_000)
    assert node.group_manager.checkpoints.newest(GROUP) is not None, "a new one is made at once"


def test_a_group_without_a_usable_checkpoint_votes_and_stores_but_does_not_lead_until_a_leader_gave_it_one() -> None:
    cluster = checkpointed(36)
    follower = next(broker for broker in cluster.brokers if broker != cluster.wait_leader(1))
    leader = cluster.wait_leader(1)
    third = next(broker for broker in cluster.brokers if broker not in (leader, follower))
    cluster.kill(follower)
    disk = cluster.disks[follower]
    damaged = [blob_flipped(disk, which) for which in range(-len(disk.listdir("checkpoints/1")), 0)]
    told = listening(cluster)
    node = cluster.restart(follower)
    group = node.host.groups[GROUP]
    assert damaged[-1] in troubles(node)[GROUP]
    assert damaged[-1] in told[0]
    # Two of three: the third needs this one's acknowledgements and votes.
    cluster.kill(leader)
    cluster.world.run_until("the third leads", lambda: cluster.leader_of(1) == third, 10_000)
    commit_many(cluster, 0, 2_300, 20)
    others_serve(cluster, node)
    cluster.world.run_until("healed", lambda: not troubles(node), 10_000)
    assert node.formed.installs.installed[GROUP] == 1
    assert group.trouble == ""
    cluster.restart(leader)
    same_everywhere(cluster)
    lead(cluster, follower)
    assert cluster.fetch(follower, 0, "group-19", "topic" * 20) == (Code.NONE, 2_319)


def test_a_single_replica_with_a_damaged_group_serves_the_others_and_says_which_file() -> None:
    cluster = checkpointed(37, replicas=1)
    cluster.kill(0)
    disk = cluster.disks[0]
    damaged = [blob_flipped(disk, which) for which in range(-len(disk.listdir("checkpoints/1")), 0)]
    told = listening(cluster)
    node = cluster.restart(0)
    cluster.wait_ready()
    others_serve(cluster, node)
    assert damaged[-1] in troubles(node)[GROUP]
    assert len(told) == 1
    cluster.world.run_for(10_000)
    node.host.groups[GROUP].core.leader = node.host.groups[
        GROUP
    ].core.node  # as its hard state may say it; nobody else leads
    node.formed.installs._heal()
    assert not node.formed.installs._pulls, "it has nothing to give itself"
    assert not node.host.groups[GROUP].leads
    assert cluster.commit(0, 1, "other", 3) == Code.NONE


@pytest.mark.parametrize("cut", [False, True])
def test_missing_or_short_segments_are_given_anew(cut: bool) -> None:
    cluster = checkpointed(38)
    follower = next(broker for broker in cluster.brokers if broker != cluster.wait_leader(1))
    cluster.kill(follower)
    disk = cluster.disks[follower]
    folder = cluster.nodes[cluster.wait_leader(1)].group_manager.states[GROUP].folder
    newest = [name for name in disk.listdir(folder) if name.endswith(".log")][-1]
    if cut:
        disk.open(f"{folder}/{newest}").truncate(3)
    else:
        for name in disk.listdir(folder):
            disk.unlink(f"{folder}/{name}")
    told = listening(cluster)
    node = cluster.restart(follower)
    assert folder in troubles(node)[GROUP]
    others_serve(cluster, node)
    same_everywhere(cluster)
    lead(cluster, follower)
    assert "a group has its state again" in told[-1]


def test_a_leader_epoch_that_no_checksum_covers_is_given_anew_when_it_is_damaged() -> None:
    """It ended every start by an assertion: epochs never fall along a log."""
    cluster = checkpointed(40)
    follower = next(broker for broker in cluster.brokers if broker != cluster.wait_leader(1))
    cluster.kill(follower)
    disk = cluster.disks[follower]
    folder = cluster.nodes[cluster.wait_leader(1)].group_manager.states[GROUP].folder
    for name in disk.listdir(folder):
        if name.endswith(".sidx"):
            disk.unlink(f"{folder}/{name}")
    disk.damage(f"{folder}/00000000000000000000.log", 12, b"\x40")
    listening(cluster)
    node = cluster.restart(follower)
    assert "leader epochs do not ascend" in troubles(node)[GROUP]
    same_everywhere(cluster)
    lead(cluster, follower)


def test_a_damaged_manifest_of_an_install_or_mark_of_birth_refuses_no_start() -> None:
    cluster, late, disk = sealed(39)
    disk.damage("incoming/1/complete", 20, b"\xff\xff\xff")
    disk.damage("born", 3, b"\xff")
    cluster.start_one(late)
    same_everywhere(cluster)
