"""Forming a cluster survives the end of any replica at any boundary: one cluster comes out, with every replica in it.

A boundary is a disk operation, a message to a peer or an answer to a client, before it and after it. First a quiet
forming counts the boundaries of each replica; then one cluster is formed for each of them, with the end right there,
once as a kill (the page cache stays) and once as a power loss (what was not synced vanishes or tears).
"""

from functools import cache
from random import Random

import pytest
from muster_coordinator.replica.bootstrap.identity import Phase, load_cluster

from tests.sim.client import Client, Steps
from tests.sim.cluster import Cluster, Replica, Setup
from tests.sim.committers import Committer
from tests.sim.oracle import Oracle

SETUP = Setup(seed="forming", nodes=3, partitions=2, node={"wal_file_bytes": 64 * 1024, "wal_bytes_max": 1024 * 1024})
FORMED_MS_MAX = 15_000
End = tuple[int, int, bool]
"""Replica, boundary, power loss."""

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]


def form(ends: list[End], *, down_ms: int = 120) -> Cluster:
    """Form a cluster in which these ends come; whoever goes down starts again."""
    cluster = Cluster(SETUP)
    oracle = Oracle(cluster)

    def ended(replica: Replica, power: bool) -> None:
        world = cluster.world
        world.at(world.now_us + down_ms * 1000, replica.start)

    cluster.on_ended.append(ended)
    for broker, boundary, power in ends:
        cluster.replicas[broker].end_at_boundary(boundary, power=power, even_down=True)
    cluster.start()
    cluster.world.run_until("everybody serves", lambda: complete(cluster), FORMED_MS_MAX)
    oracle.look()
    assert not cluster.violations, cluster.violations
    return cluster


def complete(cluster: Cluster) -> bool:
    return len(cluster.up()) == SETUP.nodes and all(
        replica.node.image() is not None and not replica.node.not_ready() for replica in cluster.replicas
    )


@cache
def quiet() -> tuple[int, ...]:
    """How many boundaries each replica passes until the cluster serves."""
    cluster = form([])
    assert all(replica.boundaries > 30 for replica in cluster.replicas)
    return tuple(replica.boundaries for replica in cluster.replicas)


def judge(cluster: Cluster) -> None:
    """One cluster, everybody in it, and it works."""
    records = set()
    for replica in cluster.replicas:
        phase, record = load_cluster(replica.disk)
        assert phase is Phase.FORMED
        records.add(record)
        assert record is not None
        assert record.uuid_of(replica.broker) == replica.node.identity.replica_uuid
    assert len(records) == 1
    committer = Committer(cluster, "c", "g", keys=[("t", 0)], pause_ms=5)
    committer.start()
    cluster.world.run_until("a commit", lambda: committer.acknowledged >= 2, 10_000)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("broker", range(SETUP.nodes))
def test_one_end_at_every_boundary(broker: int, power: bool) -> None:
    for boundary in range(quiet()[broker]):
        cluster = form([(broker, boundary, power)])
        assert cluster.replicas[broker].lives == 2, f"boundary {boundary} was not reached"
        judge(cluster)


@pytest.mark.parametrize("seed", range(60))
def test_several_ends_at_once(seed: int) -> None:
    rand = Random(seed)
    brokers = rand.sample(range(SETUP.nodes), rand.randint(2, 3))
    ends = [(broker, rand.randrange(quiet()[broker]), rand.random() < 0.5) for broker in brokers]
    judge(form(ends, down_ms=rand.choice((5, 120, 900))))


class Asker(Client):
    """Asks for a coordinator until there is one."""

    def steps(self) -> Steps:
        yield from self.coordinator("g")


def test_two_of_three_never_form_a_cluster() -> None:
    cluster = Cluster(SETUP)
    asker = Asker(cluster, "asker")
    cluster.replicas[0].start()
    cluster.replicas[1].start()
    asker.start()
    cluster.world.run_for(20_000)
    assert not asker.done
    for replica in cluster.up():
        assert replica.node.image() is None
        assert load_cluster(replica.disk) == (Phase.EMPTY, None)
    cluster.replicas[2].start()
    cluster.world.run_until("everybody serves", lambda: complete(cluster), FORMED_MS_MAX)
    judge(cluster)


def test_an_emptied_replica_never_votes_and_the_others_go_on() -> None:
    cluster = form([])
    victim = cluster.replicas[0]
    victim.kill()
    victim.lose_disk()
    cluster.world.run_for(3_000)
    victim.start()
    cluster.world.run_for(5_000)
    assert "was emptied and stays out" in victim.node.not_ready()[0]
    assert victim.node.group_manager is None
    committer = Committer(cluster, "c", "g", keys=[("t", 0)], pause_ms=5)
    committer.start()
    cluster.world.run_until("a commit", lambda: committer.acknowledged >= 2, 10_000)
