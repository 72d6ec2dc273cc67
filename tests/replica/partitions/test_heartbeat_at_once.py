"""Only a leader that serves answers a heartbeat at once (decision 5; docs/adr/0012)."""

from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo

from tests.replica.cluster import SimCluster, commit_request
from tests.replica.test_leadership import others_of, stable_member
from tests.sim.loop import World


def test_the_leader_answers_and_counts_and_nobody_else_does() -> None:
    cluster = SimCluster(World(11))
    cluster.start()
    leader = cluster.wait_leader(1)
    heartbeat = stable_member(cluster, leader)
    shard = cluster.nodes[leader].group_manager.shards[0]
    before = shard.requests
    assert cluster.nodes[leader].heartbeat_at_once(0, heartbeat, 3) is Code.NONE
    assert shard.requests == before + 3
    for other in others_of(cluster, leader):
        assert cluster.nodes[other].heartbeat_at_once(0, heartbeat, 1) is None
    assert cluster.nodes[leader].heartbeat_at_once(99, heartbeat, 1) is None, "no such partition"
    assert shard.requests == before + 3


def test_a_leader_that_hands_over_parks_it() -> None:
    cluster = SimCluster(World(12))
    cluster.start()
    leader = cluster.wait_leader(1)
    target = others_of(cluster, leader)[0]
    heartbeat = stable_member(cluster, leader)
    flying = [cluster.ask_later(leader, 0, commit_request("g", n)) for n in range(5)]
    assert cluster.nodes[leader].transfer(GroupNo(1), BrokerId(target))
    assert cluster.nodes[leader].heartbeat_at_once(0, heartbeat, 1) is None
    cluster.world.run_until("the target leads", lambda: cluster.leader_of(1) == target, 3_000)
    cluster.world.run_until("answers", lambda: all(flying), 3_000)
    assert cluster.nodes[leader].heartbeat_at_once(0, heartbeat, 1) is None
    assert cluster.ask(target, 0, heartbeat).error == Code.NONE, "the long way wakes the group"
    assert cluster.nodes[target].heartbeat_at_once(0, heartbeat, 1) is Code.NONE


def test_a_leader_that_cannot_reach_a_quorum_stops_answering_when_it_steps_down() -> None:
    cluster = SimCluster(World(13))
    cluster.start()
    leader = cluster.wait_leader(1)
    heartbeat = stable_member(cluster, leader)
    cluster.net.isolate(BrokerId(leader))
    cluster.world.run_until("another leads", lambda: cluster.leader_of(1) not in (None, leader), 10_000)
    assert cluster.nodes[leader].heartbeat_at_once(0, heartbeat, 1) is None
