"""Folders that were given up turn up again, alone or as a majority of the old cluster: they never join (ADR 40)."""

from itertools import product

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, member_no
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica.bootstrap.identity import Phase, StartRefused, load_cluster

from tests.replica.cluster import SimCluster
from tests.replica.recovery.lost_majority import (
    SURVIVOR,
    await_members,
    fetched,
    lose_majority,
    members,
    produce,
    recover,
)
from tests.replica.serving_cluster import commit_everywhere, formed
from tests.sim.disk import SimDisk

LEFT = "was recovered without this data folder"


def run_for(cluster: SimCluster, ms: float) -> list[int]:
    """Let time pass; a process that ends itself is started again, as by a supervisor. Who did."""
    ended: list[int] = []
    until = cluster.world.now_us + int(ms * 1000)
    while cluster.world.now_us < until:
        try:
            cluster.world.run_for((until - cluster.world.now_us) / 1000)
        except StartRefused as error:
            assert LEFT in str(error)
            failed = next(broker for broker, node in cluster.nodes.items() if node.failure is error)
            ended.append(int(failed))
            cluster.kill(failed)
            cluster.restart(failed)
    return ended


def back(cluster: SimCluster, broker: int, disk: SimDisk) -> None:
    """The old folder is mounted in place of the new one."""
    if broker in cluster.nodes:
        cluster.kill(broker)
    cluster.disks[broker] = disk
    cluster.restart(broker)


def recovered() -> tuple[SimCluster, dict[int, SimDisk]]:
    """The survivor of three runs alone, and holds offset 7 of the group in all partitions."""
    cluster = formed()
    commit_everywhere(cluster, 7)
    cluster.converge()
    old = lose_majority(cluster)
    recover(cluster.disks[SURVIVOR])
    cluster.restart(SURVIVOR)
    cluster.wait_ready([SURVIVOR])
    return cluster, old


def terms(cluster: SimCluster) -> dict[int, int]:
    return {int(number): group.core.term for number, group in cluster.nodes[SURVIVOR].host.groups.items()}


def assert_undisturbed(cluster: SimCluster, before: dict[int, int]) -> None:
    assert terms(cluster) == before, "nobody has moved a term of the recovered cluster"
    for partition in range(3):
        assert fetched(cluster, partition, [SURVIVOR]) == (Code.NONE, 7)


@pytest.mark.parametrize("who", [[1], [2], [1, 2]])
def test_old_folders_that_meet_the_recovered_cluster_stay_out_for_good(who: list[int]) -> None:
    cluster, old = recovered()
    before = terms(cluster)
    for broker in who:
        back(cluster, broker, old[broker])
    ended = run_for(cluster, 20_000)
    assert sorted(ended) == who, "each has ended once, and said so"
    assert_undisturbed(cluster, before)
    for broker in who:
        assert load_cluster(old[broker])[0] is Phase.LEFT_BEHIND
        assert LEFT in " ".join(cluster.nodes[broker].not_ready())
        assert not cluster.nodes[broker].host.groups, "it opens no Raft group any more"
    cluster.kill(SURVIVOR)
    run_for(cluster, 20_000)
    for broker in who:
        assert not cluster.nodes[broker].host.groups, "also while nobody is there who could tell"
    assert cluster.net.wire_errors == []


def test_a_majority_of_the_old_cluster_that_was_alone_for_long_ends_at_the_first_meeting() -> None:
    """Nobody can keep them from serving clients while they see only each other: the runbook has them removed. But they
    never win over what was recovered, whatever they did meanwhile."""
    cluster, old = recovered()
    before = terms(cluster)
    for one, other in product([SURVIVOR], [1, 2]):
        cluster.net.cut(one, BrokerId(other))
        cluster.net.cut(BrokerId(other), one)
    for broker in (1, 2):
        back(cluster, broker, old[broker])
    commit_everywhere(cluster, 9, [1, 2])
    produce(cluster, b"of the old epoch", [1, 2])
    cluster.net.heal()
    ended = run_for(cluster, 20_000)
    assert sorted(ended) == [1, 2]
    assert_undisturbed(cluster, before)


def test_a_recovery_that_was_a_mistake_is_taken_back() -> None:
    """The others were only cut off, and are left behind when they come back: one of them has all that they did."""
    cluster, old = recovered()
    for other in (1, 2):
        cluster.net.cut(SURVIVOR, BrokerId(other))
        cluster.net.cut(BrokerId(other), SURVIVOR)
        back(cluster, other, old[other])
    commit_everywhere(cluster, 9, [1, 2])
    cluster.world.run_for(2_000)
    cluster.net.heal()
    assert sorted(run_for(cluster, 10_000)) == [1, 2]
    mistaken = cluster.disks[SURVIVOR]
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    recovery = recover(old[1], broker=1, epoch_id=b"2" * 16)
    assert recovery.record.epoch == 2
    cluster.disks[1] = old[1]
    cluster.restart(1)
    cluster.wait_ready([1])
    for partition in range(3):
        assert fetched(cluster, partition, [1]) == (Code.NONE, 9)
    back(cluster, SURVIVOR, mistaken)
    assert run_for(cluster, 10_000) == [SURVIVOR]
    for broker in (SURVIVOR, BrokerId(2)):
        if broker in cluster.nodes:
            cluster.kill(broker)
        cluster.empty_disk(broker)
        cluster.start_one(broker)
    cluster.wait_ready()
    cluster.converge()


def test_a_folder_of_before_sends_nothing_to_the_recovered_one() -> None:
    """From the greeting on, before either has heard of the other's record: no link is broken by a message that nobody
    may send."""
    cluster, old = recovered()
    back(cluster, 1, old[1])
    bootstrap = cluster.nodes[1].bootstrap
    assert bootstrap is not None
    bootstrap.heard = lambda *_: None
    cluster.world.run_for(5_000)
    assert SURVIVOR in bootstrap.linked(), "it has the greeting"
    assert not cluster.nodes[1].linked(SURVIVOR)
    assert "of epoch 1, this one is of epoch 0" in " ".join(cluster.nodes[1].not_ready())
    assert cluster.net.wire_errors == []


def test_the_refusal_is_told_in_words_on_both_sides() -> None:
    cluster, old = recovered()
    back(cluster, 1, old[1])
    run_for(cluster, 5_000)
    bootstrap = cluster.nodes[SURVIVOR].bootstrap
    assert bootstrap is not None
    assert LEFT in " ".join(cluster.nodes[1].not_ready())
    cluster.kill(1)
    cluster.disks[1] = SimDisk()
    cluster.start_one(1)
    cluster.start_one(2)
    cluster.wait_ready()


def test_new_folders_join_whoever_of_the_old_ones_is_there_too() -> None:
    cluster, old = recovered()
    back(cluster, 2, old[2])
    cluster.start_one(1)
    run_for(cluster, 20_000)
    cluster.wait_ready([0, 1])
    cluster.kill(2)
    cluster.empty_disk(2)
    cluster.start_one(2)
    cluster.wait_ready()
    await_members(cluster, {0, member_no(1, 1), member_no(2, 1)})
    cluster.converge()


@pytest.mark.parametrize("seed", range(4))
def test_new_folders_that_met_only_old_ones_first_join_when_the_recovered_one_is_there(seed: int) -> None:
    cluster = formed(seed, replicas=5)
    commit_everywhere(cluster, 7)
    cluster.converge()
    old = lose_majority(cluster)
    recover(cluster.disks[SURVIVOR])
    for broker in (1, 2, 3):
        back(cluster, broker, old[broker])
    cluster.start_one(4)
    cluster.world.run_for(10_000)
    assert cluster.nodes[4].not_ready(), "the old cluster has no seat for a folder that it does not know"
    cluster.restart(SURVIVOR)
    run_for(cluster, 20_000)
    for broker in (1, 2, 3):
        assert LEFT in " ".join(cluster.nodes[broker].not_ready())
        cluster.kill(broker)
        cluster.empty_disk(broker)
        cluster.start_one(broker)
    cluster.wait_ready(ms=60_000)
    await_members(cluster, {0, *(int(member_no(BrokerId(broker), 1)) for broker in (1, 2, 3, 4))})
    for partition in range(3):
        assert fetched(cluster, partition) == (Code.NONE, 7)


def test_a_broker_that_had_joined_comes_back_with_an_empty_folder() -> None:
    """Its log of the controller may be ahead of the survivor's, so it is given up with the others (ADR 41)."""
    cluster = formed()
    observer = BrokerId(7)
    cluster.add(observer)
    cluster.wait_ready()
    commit_everywhere(cluster, 7)
    cluster.converge([0])
    old = lose_majority(cluster)
    recover(cluster.disks[SURVIVOR])
    cluster.restart(SURVIVOR)
    cluster.wait_ready([SURVIVOR])
    back(cluster, observer, old[observer])
    assert run_for(cluster, 10_000) == [observer]
    cluster.kill(observer)
    cluster.disks[observer] = SimDisk()
    for broker in (1, 2, observer):
        cluster.start_one(broker)
    cluster.wait_ready()
    voters = {0, int(member_no(BrokerId(1), 1)), int(member_no(BrokerId(2), 1))}
    wanted = Config(tuple(sorted(voters)), (), (member_no(observer, 1),))

    def as_wanted() -> bool:
        configs = [members(cluster, broker, 0) for broker in cluster.nodes]
        return all(set(one.voters) == voters and one.learners == wanted.learners for one in configs)

    cluster.world.run_until("the observer follows again", as_wanted, 60_000)
    assert all(cluster.nodes[broker].linked(observer) for broker in (0, 1, 2))
