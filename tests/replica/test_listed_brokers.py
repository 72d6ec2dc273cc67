"""A broker whose link broke is told to clients while Kafka's broker session would last, and is dead at once."""

from muster_coordinator.replica import limits

from tests.replica.cluster import SimCluster
from tests.sim.loop import World


def test_a_dead_broker_is_listed_for_nine_seconds_and_again_when_it_is_back() -> None:
    cluster = SimCluster(World(11))
    cluster.start()
    seen = cluster.nodes[0]
    cluster.kill(2)
    cluster.world.run_until("its death is known", lambda: not seen.alive(2), 5_000)
    assert seen.alive_lately(2)
    began_us = cluster.world.now_us
    cluster.world.run_until("its session is over", lambda: not seen.alive_lately(2), 12_000)
    assert abs((cluster.world.now_us - began_us) / 1000 - limits.BROKER_LISTED_MS) < 500
    cluster.restart(2)
    cluster.world.run_until("it is back", lambda: seen.alive(2), 20_000)
    assert seen.alive_lately(2)
    assert seen.alive_lately(0), "itself"
    assert not seen.alive_lately(7), "never seen"


def test_a_replica_that_was_just_started_says_of_nobody_that_he_is_gone() -> None:
    """A client that asks it at once takes whoever is missing for decommissioned."""
    cluster = SimCluster(World(12))
    cluster.start()
    cluster.kill(1)
    cluster.net.isolate(1)
    node = cluster.restart(1)
    assert not node.alive(0)
    assert node.alive_lately(0)
    cluster.world.run_for(limits.BROKER_LISTED_MS + 100)
    assert not node.alive_lately(0), "it had time to find it"
