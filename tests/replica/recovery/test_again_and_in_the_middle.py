"""A majority is lost while members change, and again after a recovery, whichever folder is left (ADR 40)."""

import random

import pytest
from muster_coordinator.controller.commands import ReplaceReplica
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, member_no
from muster_coordinator.replica.bootstrap.identity import Phase, StartRefused, load_cluster

from tests.replica.recovery.lost_majority import SURVIVOR, await_members, fetched, look, lose_majority, plan, recover
from tests.replica.recovery.test_lost_ones_come_back import back, run_for
from tests.replica.serving_cluster import commit_everywhere, formed
from tests.sim.disk import SimDisk


def test_the_cluster_is_recovered_again_from_a_folder_that_came_after_the_first_time() -> None:
    cluster = formed()
    commit_everywhere(cluster, 7)
    cluster.converge()
    lose_majority(cluster)
    recover(cluster.disks[SURVIVOR])
    cluster.restart(SURVIVOR)
    cluster.start_one(1)
    cluster.start_one(2)
    cluster.wait_ready()
    await_members(cluster, {0, member_no(1, 1), member_no(2, 1)})
    commit_everywhere(cluster, 8)
    cluster.converge()
    old = lose_majority(cluster, survivor=1)
    second = recover(cluster.disks[1], broker=1, epoch_id=b"2" * 16)
    assert second.record.epoch == 2
    cluster.restart(1)
    cluster.wait_ready([1])
    for partition in range(3):
        assert fetched(cluster, partition) == (Code.NONE, 8)
    back(cluster, 0, old[0])
    assert run_for(cluster, 10_000) == [0], "the folder of the first recovery is one of before"
    assert load_cluster(old[0])[0] is Phase.LEFT_BEHIND
    cluster.kill(0)
    cluster.disks[0] = SimDisk()
    cluster.start_one(0)
    cluster.start_one(2)
    cluster.wait_ready()
    await_members(cluster, {member_no(0, 1), member_no(1, 1), member_no(2, 2)})
    cluster.converge()


@pytest.mark.parametrize("seed", range(15))
def test_whichever_folder_is_left_at_whatever_moment_of_a_replacement(seed: int) -> None:
    cluster, rand = formed(seed), random.Random(seed)
    commit_everywhere(cluster, 7)
    cluster.converge()
    gone = cluster.nodes[2].identity.replica_uuid
    cluster.kill(2)
    cluster.empty_disk(2)
    cluster.wait_leader(0, among=[0, 1])
    assert cluster.submit(0, ReplaceReplica(broker=BrokerId(2), gone_uuid=gone)).error == Code.NONE
    cluster.start_one(2)
    cluster.world.run_for(rand.randrange(0, 4_000))
    survivor = seed % 3
    lose_majority(cluster, survivor)
    disk = cluster.disks[survivor]
    try:
        refusals = plan(look(disk, survivor), b"e" * 16).refusals
    except StartRefused:
        refusals = ("it belongs to no cluster yet",)
    if refusals:
        assert survivor == 2, refusals
        return
    recover(disk, survivor)
    cluster.restart(survivor)
    cluster.wait_ready([survivor])
    others = [broker for broker in range(3) if broker != survivor]
    if survivor != 2:
        for partition in range(3):
            assert fetched(cluster, partition) == (Code.NONE, 7)
    for broker in others:
        cluster.start_one(broker)
    cluster.wait_ready()
    image = cluster.nodes[survivor].image()
    assert image is not None
    await_members(cluster, {int(image.brokers[BrokerId(broker)].member) for broker in range(3)})
    cluster.converge()
    commit_everywhere(cluster, 9)
