"""Who leads what is told by the replica that wins, and by the one that loses, once each."""

from collections import Counter

from muster_coordinator.events import BECAME_LEADER, LOST_LEADERSHIP, Event
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.node import Node

from tests.replica.cluster import SimCluster
from tests.sim.loop import World


def watched(world: World) -> tuple[SimCluster, list[tuple[int, Event]]]:
    told: list[tuple[int, Event]] = []
    cluster = SimCluster(world)

    def watch(node: Node) -> None:
        node.host.tell = lambda event: told.append((int(node.broker), event))

    cluster.on_start = watch
    return cluster, told


def test_each_election_is_told_once_with_its_partition_and_term() -> None:
    cluster, told = watched(World(3))
    cluster.start()
    cluster.world.run_for(3_000)
    won = {(event.fields["raft_group"], event.fields["term"]): by for by, event in told if event.kind is BECAME_LEADER}
    assert len(won) == sum(event.kind is BECAME_LEADER for _, event in told), "one leader a term"
    names = {event.fields["raft_group"]: event.fields["partition"] for _, event in told}
    assert names == {
        0: "controller",
        1: "__consumer_offsets-0",
        2: "__consumer_offsets-1",
        3: "__consumer_offsets-2",
    }
    for group in range(4):
        leader = cluster.leader_of(group)
        newest = max(term for number, term in won if number == group)
        assert won[group, newest] == leader
    for _, event in told:
        assert tuple(event.fields) == event.kind.fields


def test_a_leader_that_is_cut_off_tells_that_it_leads_no_more_and_nobody_whom_it_does_not_know() -> None:
    cluster, told = watched(World(4))
    cluster.start()
    cluster.world.run_for(3_000)
    leader = cluster.leader_of(1)
    led = sum(cluster.leader_of(group) == leader for group in range(4))
    told.clear()
    cluster.net.isolate(BrokerId(leader))
    cluster.world.run_for(10_000)
    lost = [event for by, event in told if by == leader and event.kind is LOST_LEADERSHIP]
    assert len(lost) == led
    assert {event.fields["leader"] for event in lost} == {None}
    won = Counter(event.fields["raft_group"] for by, event in told if event.kind is BECAME_LEADER and by != leader)
    assert won[1] == 1
