"""Brokers are levelled and emptied by themselves, in whole clusters on virtual time (ADR 47)."""

import re
from collections import Counter

import pytest
from muster_coordinator.controller.commands import (
    CancelMove,
    CreateTopic,
    DecommissionBroker,
    MovePartition,
    PauseBalancer,
    SetDraining,
)
from muster_coordinator.controller.image import ClusterImage, Partition
from muster_coordinator.controller.weighing import Weight, Weights
from muster_coordinator.errors import Code
from muster_coordinator.events import (
    BALANCER_MOVE,
    BROKER_EMPTIED,
    BROKER_UNREGISTERED,
    CONTROLLER_VOTERS_WANTED,
    MOVE_COMPLETE,
)
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.replica.maintenance.balancer import AVOIDED_MS, Balancer, State

from tests.replica.cluster import SimCluster
from tests.replica.serving_cluster import formed

QUIET_MS = 10_000
ORDERS = bytes([9]) * 16
OTHERS = (7, 8)


def cluster_with_orders(partitions: int = 7, *, quiet_ms: int = QUIET_MS, redirect_ms: int = 0) -> SimCluster:
    """Three brokers that formed the cluster have the partitions of two topics; two have joined and hold nothing."""
    cluster = formed(balancer_quiet_ms=quiet_ms, decommission_redirect_ms=redirect_ms)
    placed = tuple(tuple(BrokerId((at + replica) % 3) for replica in range(3)) for at in range(partitions))
    topic = CreateTopic(name="orders", topic_id=ORDERS, partitions=partitions, configs=(), placed=placed)
    assert cluster.submit(0, topic).error == Code.NONE
    for broker in OTHERS:
        cluster.add(broker)
    cluster.wait_ready()
    return cluster


def image_of(cluster: SimCluster) -> ClusterImage:
    images = [image for node in cluster.nodes.values() if (image := node.image()) is not None]
    return max(images, key=lambda image: image.applied)


def orders(cluster: SimCluster) -> tuple[Partition, ...]:
    return image_of(cluster).topics["orders"].partitions


def under_way(cluster: SimCluster) -> int:
    return sum(partition.moves for topic in image_of(cluster).topics.values() for partition in topic.partitions)


def held(cluster: SimCluster) -> Counter[int]:
    """Replicas of each broker, by the image."""
    image = image_of(cluster)
    return Counter(
        voter for topic in image.topics.values() for partition in topic.partitions for voter in partition.voters
    )


def level(cluster: SimCluster) -> bool:
    count = held(cluster)
    shares = [count[broker] for broker in image_of(cluster).brokers]
    return not under_way(cluster) and max(shares) - min(shares) <= 1


def balancer(cluster: SimCluster, among: list[int] | None = None) -> Balancer:
    """That of the controller's leader."""
    formed_node = cluster.nodes[cluster.wait_leader(CONTROLLER_GROUP, among=among)].formed
    assert formed_node is not None
    return formed_node.balancer


def decommission(cluster: SimCluster, broker: int, *, departing: bool = True, ask: int = 0) -> None:
    uuid = image_of(cluster).brokers[BrokerId(broker)].replica_uuid
    command = DecommissionBroker(broker=BrokerId(broker), replica_uuid=uuid, departing=departing)
    result = cluster.submit(ask, command)
    assert result.error == Code.NONE, result


def await_left(cluster: SimCluster, broker: int, ms: float = 300_000) -> None:
    cluster.world.run_until("it left", lambda: broker not in image_of(cluster).brokers, ms)


def await_silence(cluster: SimCluster, broker: int) -> None:
    """A process that goes on after its broker has left says so, and nothing to the others: each word that is none of
    forming would close the link that it came over, and the next one be made at once."""
    left, net = cluster.nodes[BrokerId(broker)], cluster.net
    cluster.world.run_until("it says so", lambda: "remove its folder" in " ".join(left.not_ready()), 30_000)
    cluster.world.run_for(100)  # what was under way
    said = len(net.wire_errors)
    cluster.world.run_for(10_000)
    assert net.wire_errors[said:] == []
    assert all(net.link_up(BrokerId(broker), other) for other in image_of(cluster).brokers)


def test_brokers_that_joined_get_their_share_a_few_partitions_at_a_time() -> None:
    cluster = cluster_with_orders()
    assert held(cluster) == {0: 11, 1: 11, 2: 11}
    cluster.world.run_for(QUIET_MS - 3_000)
    assert not cluster.told(BALANCER_MOVE), "it waits until all have been there for a while"
    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, under_way(cluster))
        return level(cluster)

    cluster.world.run_until("level", done, 300_000)
    assert 1 <= most <= cluster.base.moves_at_once
    assert sorted(held(cluster).values()) == [6, 6, 7, 7, 7]
    told = cluster.told(BALANCER_MOVE)
    assert len(told) == len({(one["topic"], one["moved_partition"], one["voters"]) for one in told}), "each once"
    assert all("replicas, broker" in str(one["reason"]) or "prefer" in str(one["reason"]) for one in told)
    assert cluster.told(MOVE_COMPLETE)
    cluster.world.run_for(5_000)
    assert balancer(cluster).status == (State.LEVEL, "", 0)
    for partition in orders(cluster):
        group = partition.group
        leader = cluster.wait_leader(group, ms=60_000)
        assert leader in partition.voters
        config = cluster.nodes[leader].host.groups[group].core.config
        assert set(config.voters) == set(partition.voters)


def test_nothing_is_levelled_while_a_broker_is_away_or_drains() -> None:
    cluster = cluster_with_orders(quiet_ms=5_000)
    cluster.kill(8)
    cluster.world.run_for(30_000)
    assert not cluster.told(BALANCER_MOVE)
    assert balancer(cluster).status == (State.QUIET, "broker 8 is not connected", 0)
    cluster.restart(8)
    cluster.wait_ready()
    assert cluster.submit(0, SetDraining(broker=BrokerId(7), draining=True)).error == Code.NONE
    cluster.world.run_for(30_000)
    assert not cluster.told(BALANCER_MOVE)
    assert balancer(cluster).status == (State.QUIET, "broker 7 is draining", 0)
    assert cluster.submit(0, SetDraining(broker=BrokerId(7), draining=False)).error == Code.NONE
    cluster.world.run_for(2_000)
    assert "all brokers have to be there for" in balancer(cluster).status.reason
    cluster.world.run_until("level", lambda: level(cluster), 300_000)


def test_switched_off_it_levels_nothing_and_still_empties() -> None:
    cluster = cluster_with_orders(quiet_ms=-1)
    cluster.world.run_for(60_000)
    assert not cluster.told(BALANCER_MOVE)
    assert balancer(cluster).status.state is State.QUIET
    move = MovePartition(topic_id=ORDERS, partition=0, voters=(BrokerId(0), BrokerId(1), BrokerId(7)))
    assert cluster.submit(0, move).error == Code.NONE
    decommission(cluster, 7)
    await_left(cluster, 7)
    assert orders(cluster)[0].voters == (0, 1, 8), "the emptiest of the others"
    assert not under_way(cluster)


def test_one_that_is_to_leave_is_emptied_and_then_unregistered() -> None:
    cluster = cluster_with_orders(quiet_ms=3_000)
    cluster.world.run_until("level", lambda: level(cluster), 300_000)
    assert held(cluster)[7] > 0
    uuid = image_of(cluster).brokers[BrokerId(7)].replica_uuid
    decommission(cluster, 7)
    await_left(cluster, 7)
    assert all(7 not in partition.holders for partition in orders(cluster))
    assert [told["replica"] for told in cluster.told(BROKER_EMPTIED)] == [7]
    assert [told["folder"] for told in cluster.told(BROKER_UNREGISTERED)] == [uuid.hex()]
    cluster.world.run_until("level again", lambda: level(cluster), 300_000)
    await_silence(cluster, 7)


@pytest.mark.parametrize("dead", [False, True])
def test_one_that_formed_the_cluster_and_votes_in_the_controllers_group_leaves_too(dead: bool) -> None:
    """The controller's leader itself, which carries it out until it votes no longer; or one that is dead."""
    cluster = cluster_with_orders(quiet_ms=-1)
    leader = cluster.wait_leader(CONTROLLER_GROUP)
    leaves = next(broker for broker in (0, 1, 2) if broker != leader) if dead else leader
    if dead:
        cluster.kill(leaves)
    decommission(cluster, leaves, ask=leader)
    await_left(cluster, leaves)
    image = image_of(cluster)
    assert set(image.voters) == {0, 1, 2, 7} - {leaves}
    assert not image.former_voters
    assert [told["voters"] for told in cluster.told(CONTROLLER_VOTERS_WANTED)] == [",".join(map(str, image.voters))]
    if not dead:
        await_silence(cluster, leaves)
        cluster.kill(leaves)
    others = sorted(image.brokers)
    first = cluster.wait_leader(CONTROLLER_GROUP, among=others)
    config = cluster.nodes[first].host.groups[CONTROLLER_GROUP].core.config
    assert set(config.voters) == set(image.voters)
    assert all(leaves not in partition.holders for partition in orders(cluster))


def test_two_voters_that_leave_are_replaced_as_far_as_there_are_others() -> None:
    cluster = cluster_with_orders(quiet_ms=-1)
    decommission(cluster, 0)
    decommission(cluster, 1)
    await_left(cluster, 0)
    await_left(cluster, 1)
    assert set(image_of(cluster).voters) == {2, 7, 8}
    cluster.kill(0)
    cluster.kill(1)
    assert cluster.wait_leader(CONTROLLER_GROUP, among=[2, 7, 8]) in (2, 7, 8)


@pytest.mark.parametrize("seed_of_death", [0, 400, 3_000])
def test_one_that_is_dead_is_emptied_too(seed_of_death: int) -> None:
    """Killed before it is told to leave, or while its replicas move."""
    cluster = cluster_with_orders(quiet_ms=3_000)
    cluster.world.run_until("level", lambda: level(cluster), 300_000)
    decommission(cluster, 8)
    cluster.world.run_for(seed_of_death)
    if BrokerId(8) in image_of(cluster).brokers:
        cluster.kill(8)
    await_left(cluster, 8)
    assert all(8 not in partition.holders for partition in orders(cluster))


def test_an_empty_one_redirects_clients_for_a_while_before_it_leaves() -> None:
    """It has the image of now all the while, so it names others to clients that know nobody else. Whoever leads next
    counts from its own beginning."""
    cluster = cluster_with_orders(quiet_ms=-1, redirect_ms=60_000)
    decommission(cluster, 7)
    cluster.world.run_for(50_000)
    assert not cluster.told(BROKER_EMPTIED)
    status = balancer(cluster).status
    assert (status.state, status.moving) == (State.QUIET, 0)
    assert re.search(r"broker 7 is empty, and tells clients for (\d+) s more where the others are", status.reason)
    first = cluster.wait_leader(CONTROLLER_GROUP)
    cluster.kill(first)
    others = [broker for broker in (0, 1, 2) if broker != first]
    cluster.wait_leader(CONTROLLER_GROUP, among=others)
    cluster.restart(first)
    cluster.wait_ready()
    move = MovePartition(topic_id=ORDERS, partition=0, voters=(BrokerId(0), BrokerId(1), BrokerId(8)))
    assert cluster.submit(0, move).error == Code.NONE
    cluster.world.run_for(45_000)
    seen = cluster.nodes[BrokerId(7)].image()
    assert seen is not None
    assert seen.topics["orders"].partitions[0].voters == (0, 1, 8)
    assert BrokerId(7) in image_of(cluster).brokers
    await_left(cluster, 7, 120_000)


def test_an_empty_one_that_is_dead_leaves_at_once_and_one_that_is_to_stay_after_all_begins_anew() -> None:
    cluster = cluster_with_orders(quiet_ms=-1, redirect_ms=60_000)
    decommission(cluster, 7)
    cluster.world.run_for(50_000)
    decommission(cluster, 7, departing=False)
    cluster.world.run_for(5_000)
    decommission(cluster, 7)
    cluster.world.run_for(50_000)
    assert BrokerId(7) in image_of(cluster).brokers, "all of the time again"
    cluster.kill(7)
    await_left(cluster, 7, 5_000)


def test_what_is_on_its_way_to_one_that_died_and_is_to_leave_goes_elsewhere() -> None:
    cluster = cluster_with_orders(quiet_ms=-1)
    cluster.kill(7)
    for number in range(3):
        move = MovePartition(topic_id=ORDERS, partition=number, voters=(BrokerId(0), BrokerId(1), BrokerId(7)))
        assert cluster.submit(0, move).error == Code.NONE
    cluster.world.run_for(20_000)
    assert under_way(cluster) == 3, "they wait for it"
    decommission(cluster, 7)
    await_left(cluster, 7)
    assert [partition.voters for partition in orders(cluster)[:3]] == [(0, 1, 8)] * 3


def test_paused_it_begins_nothing_for_whoever_leads() -> None:
    cluster = cluster_with_orders(quiet_ms=2_000)
    assert cluster.submit(0, PauseBalancer(paused=True)).error == Code.NONE
    move = MovePartition(topic_id=ORDERS, partition=0, voters=(BrokerId(0), BrokerId(1), BrokerId(7)))
    assert cluster.submit(0, move).error == Code.NONE
    decommission(cluster, 7)
    cluster.world.run_for(30_000)
    assert not cluster.told(BALANCER_MOVE), "not even what a decommission asks for"
    assert balancer(cluster).status == (State.PAUSED, "", 0)
    first = cluster.wait_leader(CONTROLLER_GROUP)
    cluster.kill(first)
    others = [broker for broker in (0, 1, 2) if broker != first]
    cluster.wait_leader(CONTROLLER_GROUP, among=others)
    cluster.world.run_for(20_000)
    assert not cluster.told(BALANCER_MOVE)
    cluster.restart(first)
    cluster.wait_ready()
    assert cluster.submit(others[0], PauseBalancer(paused=False)).error == Code.NONE
    await_left(cluster, 7)


def test_it_goes_on_when_the_controllers_leader_dies() -> None:
    """Whoever leads next plans from what the image says by then."""
    cluster = cluster_with_orders(quiet_ms=3_000)
    for _ in range(3):
        cluster.world.run_until("a move", lambda: under_way(cluster) > 0, 60_000)
        leader = cluster.wait_leader(CONTROLLER_GROUP)
        cluster.kill(leader)
        cluster.world.run_for(3_000)
        cluster.restart(leader)
        cluster.wait_ready()
    cluster.world.run_until("level", lambda: level(cluster), 300_000)


def test_one_that_may_stay_after_all_keeps_what_it_has_by_then() -> None:
    cluster = cluster_with_orders(quiet_ms=3_000)
    cluster.world.run_until("level", lambda: level(cluster), 300_000)
    decommission(cluster, 7)
    cluster.world.run_until("a move", lambda: under_way(cluster) > 0, 60_000)
    decommission(cluster, 7, departing=False)
    cluster.world.run_until("level again", lambda: level(cluster), 300_000)
    assert held(cluster)[7] >= 6
    assert BrokerId(7) in image_of(cluster).brokers


def test_what_cannot_go_anywhere_is_said_and_waits_for_a_broker() -> None:
    cluster = cluster_with_orders(partitions=2, quiet_ms=-1)
    move = MovePartition(topic_id=ORDERS, partition=1, voters=(BrokerId(0), BrokerId(1), BrokerId(7)))
    assert cluster.submit(0, move).error == Code.NONE
    cluster.world.run_until("it is there", lambda: not under_way(cluster), 60_000)
    cluster.kill(8)
    cluster.kill(2)
    cluster.world.run_for(5_000)
    decommission(cluster, 7)
    cluster.world.run_for(10_000)
    status = balancer(cluster, among=[0, 1]).status
    assert "orders-1 stays on broker 7: every broker that can be reached has it" in status.reason
    assert status.state is State.QUIET
    cluster.restart(8)
    cluster.restart(2)
    await_left(cluster, 7)


def test_a_low_disk_gets_nothing() -> None:
    cluster = cluster_with_orders(quiet_ms=3_000)
    leader = cluster.nodes[cluster.wait_leader(CONTROLLER_GROUP)]
    leader.host.low_peers.add(BrokerId(7))
    planned = list(leader.balancer_plan(image_of(cluster)))
    assert planned
    assert not any(7 in move.voters for move in planned)
    assert GroupNo(0) in leader.host.groups


def test_what_was_cancelled_is_not_tried_again_for_a_while() -> None:
    """Whoever cancelled it: a target without room, or a person."""
    cluster = cluster_with_orders(quiet_ms=20_000)
    cluster.kill(7)  # else the move would be complete before it is cancelled
    voters = orders(cluster)[0].voters
    to = (*voters[:2], BrokerId(7))
    cluster.submit(0, MovePartition(topic_id=ORDERS, partition=0, voters=to))
    cluster.world.run_for(2_000)
    assert orders(cluster)[0].moves
    assert cluster.submit(0, CancelMove(topic_id=ORDERS, partition=0, voters=to)).error == Code.NONE
    cluster.world.run_until("it is back", lambda: not orders(cluster)[0].moves, 30_000)
    assert orders(cluster)[0].voters == voters
    cluster.restart(7)
    cluster.wait_ready()
    for _ in range(50):
        cluster.world.run_for(AVOIDED_MS // 75)
        assert 7 not in orders(cluster)[0].voters
    assert level(cluster), "others go there"
    assert held(cluster)[7] > 0
    status = balancer(cluster).status
    assert status.state is State.LEVEL
    assert re.fullmatch(r"copies that were cancelled are not tried again for \d+ s: 1", status.reason), status
    cluster.world.run_for(AVOIDED_MS // 2)
    assert balancer(cluster).status == (State.LEVEL, "", 0)


def test_a_broker_gets_nothing_that_is_larger_than_the_room_that_it_has() -> None:
    cluster = cluster_with_orders(quiet_ms=60_000)
    leader = cluster.nodes[cluster.wait_leader(CONTROLLER_GROUP)]
    large = orders(cluster)[0].group
    sizes = {partition.group: Weight(1_000 if partition.group == large else 1) for partition in orders(cluster)}
    known = Weights(sizes, dict.fromkeys(image_of(cluster).brokers, 2_000) | {BrokerId(7): 999}, -1, 1)
    assert leader.formed is not None
    leader.formed.balancer.weights = lambda: known
    cluster.world.run_until("level", lambda: level(cluster), 300_000)
    assert held(cluster)[7] > 0
    assert 7 not in orders(cluster)[0].voters
