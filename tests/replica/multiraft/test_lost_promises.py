"""Damage of a WAL takes back what was promised: the voter stands aside until its leader has made good for it."""

import errno
from collections.abc import Callable

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.events import VOTER_RELEASED
from muster_coordinator.ids import GroupNo
from muster_coordinator.replica.node import Node
from muster_coordinator.storage.wal import Wal

from tests.replica.cluster import SimCluster, commit_request
from tests.replica.snapshots.test_damaged_groups import listening
from tests.replica.snapshots.test_recovery import commit_many
from tests.sim.disk import SimDisk
from tests.sim.loop import World

GROUP = GroupNo(1)


def suspended(node: Node) -> set[int]:
    return {number for number, group in node.host.groups.items() if group.core.suspended}


def last_entry_flipped(disk: SimDisk, what: bytes) -> None:
    """A flipped bit in the newest entry that holds `what`."""
    path = max(path for path in disk.files() if path.startswith("wal-offsets/") and path.endswith(".wal"))
    content = disk.content(path)
    at = content.rindex(what)
    disk.damage(path, at, bytes([content[at] ^ 4]))


def test_a_follower_without_its_last_acknowledged_entry_is_made_whole_and_counts_again() -> None:
    """It was refused for ever: its log ended at 242, its leader knew 243, and no commit without the third."""
    cluster = SimCluster(World(61))
    cluster.start()
    commit_many(cluster, 0, 0, 30)
    leader = cluster.wait_leader(1)
    follower, third = (broker for broker in cluster.brokers if broker != leader)
    cluster.world.run_for(500)
    group = cluster.nodes[leader].host.groups[GROUP]
    cluster.kill(follower)
    last_entry_flipped(cluster.disks[follower], b"group-29")
    told = listening(cluster)
    node = cluster.restart(follower)
    held = node.host.groups[GROUP]
    cluster.world.run_until("told that it is suspended", lambda: any("is suspended here" in one for one in told), 5_000)
    cluster.world.run_until(
        "whole again",
        lambda: not suspended(node) and held.core.last_index == group.core.last_index,
        5_000,
    )
    cluster.world.run_until("told", lambda: any("not suspended any more" in one for one in told), 1_000)
    cluster.kill(third)
    assert cluster.commit(cluster.wait_leader(1), 0, "after", 7) == Code.NONE
    cluster.restart(third)
    cluster.converge()


def test_a_voter_counts_when_its_release_is_stored_and_a_power_loss_right_after_finds_it() -> None:
    """If it counted before, all voters of a group, each released, could lose their power and begin suspended: nobody
    could release them. Here the release cannot be stored for a while."""
    cluster = SimCluster(World(64))
    cluster.start()
    commit_many(cluster, 0, 0, 30)
    leader = cluster.wait_leader(1)
    follower, third = (broker for broker in cluster.brokers if broker != leader)
    cluster.world.run_for(500)
    cluster.kill(follower)
    last_entry_flipped(cluster.disks[follower], b"group-29")
    listening(cluster)
    held = cluster.restart(follower).host.groups[GROUP]
    wal, stored, tries, fails = held.wal_writer.wal, Wal.suspend, 0, True

    def fail() -> None:
        raise OSError(errno.EIO, "the disk does not answer")

    def suspend(self: Wal, group: GroupNo, suspended: bool) -> Callable[[], None]:
        nonlocal tries
        job = stored(self, group, suspended)
        if self is not wal or group != GROUP or suspended:
            return job
        tries += 1
        return fail if fails else job

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Wal, "suspend", suspend)
        cluster.world.run_until("released for the first time", lambda: tries, 10_000)
        cluster.kill(third)
        answers = cluster.ask_later(leader, 0, commit_request("after", 7))
        cluster.world.run_until("tried again", lambda: tries > 1, 10_000)
        assert held.core.suspended
        assert not answers, "it does not count"
        assert GROUP not in [told["raft_group"] for told in cluster.told(VOTER_RELEASED)]
        fails = False
        cluster.world.run_until("released", lambda: not held.core.suspended, 10_000)
    cluster.kill(follower)
    node = cluster.restart(follower)
    assert GROUP not in suspended(node)
    assert cluster.commit(cluster.wait_leader(1, ms=30_000), 0, "after", 7) == Code.NONE
    cluster.restart(third)
    cluster.converge()


def test_a_start_that_proves_its_loss_votes_for_nobody_before_any_leader_tells_it() -> None:
    """Of three, one is down and one has lost its last batch: the third cannot be elected with what may be missing."""
    cluster = SimCluster(World(62))
    cluster.start()
    commit_many(cluster, 0, 0, 30)
    leader = cluster.wait_leader(1)
    follower, third = (broker for broker in cluster.brokers if broker != leader)
    cluster.world.run_for(2_500)
    for broker in cluster.brokers:
        cluster.kill(broker)
    last_entry_flipped(cluster.disks[follower], b"group-29")
    told = listening(cluster)
    node = cluster.restart(follower)
    assert suspended(node) == set(node.host.groups)
    assert sum("is suspended here" in one for one in told) == len(node.host.groups)
    cluster.restart(third)
    cluster.world.run_for(10_000)
    assert cluster.leader_of(1) is None
    cluster.kill(follower)
    node = cluster.restart(follower)
    assert suspended(node) == set(node.host.groups), "it is remembered"
    cluster.restart(leader)
    cluster.world.run_until("whole again", lambda: not suspended(node), 20_000)
    cluster.converge()
    cluster.kill(follower)
    assert not suspended(cluster.restart(follower)), "and forgotten"


def test_a_power_loss_of_all_replicas_suspends_nobody() -> None:
    cluster = SimCluster(World(63))
    cluster.start()
    for turn in range(6):
        commit_many(cluster, 0, 30 * turn, 30)
        for broker in cluster.brokers:
            cluster.kill(broker)
        for broker in cluster.brokers:
            assert not suspended(cluster.restart(broker))
        cluster.wait_leader(1)
    cluster.converge()
