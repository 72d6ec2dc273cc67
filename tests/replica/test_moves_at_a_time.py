"""How many partitions of a cluster are moved at a time (ADR 42): few, and none that cannot get on holds up another."""

import pytest
from muster_coordinator.controller.commands import CreateTopic, MovePartition
from muster_coordinator.controller.image import Partition
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId

from tests.replica.cluster import SimCluster
from tests.replica.moving import NEW, cluster_of_six

ORDERS = bytes([9]) * 16


def cluster_with_orders(partitions: int, **settings: int) -> SimCluster:
    """Partitions of another topic on the founders; three brokers that joined hold nothing."""
    cluster = cluster_of_six(**settings)
    placed = tuple(tuple(BrokerId((at + replica) % 3) for replica in range(3)) for at in range(partitions))
    topic = CreateTopic(name="orders", topic_id=ORDERS, partitions=partitions, configs=(), placed=placed)
    assert cluster.submit(0, topic).error == Code.NONE
    for at in range(partitions):
        cluster.wait_leader(orders(cluster)[at].group)
    return cluster


def orders(cluster: SimCluster) -> tuple[Partition, ...]:
    image = cluster.nodes[cluster.wait_leader(0)].image()
    assert image is not None
    return image.topics["orders"].partitions


def move_order(cluster: SimCluster, index: int, *voters: int) -> None:
    command = MovePartition(topic_id=ORDERS, partition=index, voters=tuple(map(BrokerId, voters)))
    assert cluster.submit(cluster.wait_leader(0), command).error == Code.NONE


def test_a_few_partitions_of_the_whole_cluster_are_moved_at_a_time() -> None:
    """Whoever leads them: without a limit of the cluster each leader would begin two."""
    assert most_at_a_time(2) == 2


@pytest.mark.parametrize("at_once", [1, 5])
def test_how_many_is_a_setting(at_once: int) -> None:
    assert (most_at_a_time(at_once) > 2) is (at_once > 2)


def most_at_a_time(at_once: int) -> int:
    """Six partitions are moved; of how many the members changed at once."""
    cluster = cluster_with_orders(6, moves_at_once=at_once)
    for index in range(6):
        move_order(cluster, index, *NEW)
    most = 0

    def changing() -> int:
        groups = [
            held.core.config
            for partition in orders(cluster)
            for node in cluster.nodes.values()
            if (held := node.host.groups.get(partition.group)) is not None and held.leads
        ]
        return sum(bool(config.outgoing or config.learners) for config in groups)

    def done() -> bool:
        nonlocal most
        most = max(most, changing())
        return not any(partition.moves for partition in orders(cluster))

    cluster.world.run_until("all are moved", done, 300_000)
    assert most <= at_once
    return most


def test_a_move_that_cannot_get_on_holds_up_no_other() -> None:
    """Two go to a broker that is away, and one has lost its majority; those behind them go on."""
    cluster = cluster_with_orders(4, moves_at_once=1)
    cluster.kill(9)
    cluster.world.run_for(3_000)
    move_order(cluster, 0, 0, 1, 9)
    move_order(cluster, 1, 1, 2, 9)
    move_order(cluster, 3, 0, 1, 7)
    cluster.world.run_until("it is moved", lambda: not orders(cluster)[3].moves, 60_000)
    assert orders(cluster)[0].moves
    assert orders(cluster)[1].moves
    cluster.restart(9)
    cluster.world.run_until("they too", lambda: not any(one.moves for one in orders(cluster)), 120_000)
