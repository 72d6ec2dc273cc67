"""One command gives every Raft group another number of replicas, in whole clusters on virtual time (ADR 48): whoever
dies meanwhile, it is carried out, and nothing that was acknowledged is lost."""

import random

import pytest
from muster_coordinator.controller.commands import DecommissionBroker, PauseBalancer, SetReplicationFactor
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.events import BALANCER_MOVE
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId

from tests.replica import moving
from tests.replica.cluster import SimCluster
from tests.replica.moving import SMALL
from tests.replica.serving_cluster import GROUPS, commit_everywhere, formed
from tests.replica.test_balancer import balancer, image_of, under_way

JOINED = (1, 2, 3, 4)


def grown(seed: int = 1, joined: tuple[int, ...] = JOINED, **settings: int) -> SimCluster:
    """One broker formed the cluster and has everything; the others joined. Nothing is levelled by itself."""
    cluster = formed(seed, replicas=1, balancer_quiet_ms=-1, **SMALL, **settings)
    cluster.notice = moving.suspensions_only
    for broker in joined:
        cluster.add(broker)
    cluster.wait_ready()
    return cluster


def wish(cluster: SimCluster, factor: int, *, every: bool = False) -> None:
    command = SetReplicationFactor(factor=factor, every_topic=every)
    result = cluster.submit(cluster.wait_leader(CONTROLLER_GROUP, ms=60_000), command)
    assert result.error == Code.NONE, result


def is_there(cluster: SimCluster, factor: int) -> bool:
    """Every group's own log has that many voters, and who is let go has no replica any more."""
    image: ClusterImage = image_of(cluster)
    places = {place.group: place for topic in image.topics.values() for place in topic.partitions}
    wanted = {group: {*place.voters} for group, place in places.items()} | {CONTROLLER_GROUP: {*image.voters}}
    for group, voters in wanted.items():
        leader = cluster.leader_of(group)
        config = None if leader is None else cluster.nodes[leader].host.groups[group].core.config
        if config is None or set(config.voters) != voters or len(voters) != factor or config.outgoing:
            return False
    held = {group: {b for b, node in cluster.nodes.items() if group in node.host.groups} for group in places}
    return not under_way(cluster) and all(held[group] == {*place.voters} for group, place in places.items())


def await_there(cluster: SimCluster, factor: int) -> None:
    cluster.world.run_until(f"{factor} of everything", lambda: is_there(cluster, factor), 300_000)


def test_one_of_everything_becomes_three_and_five_and_the_founder_is_not_needed() -> None:
    cluster = grown()
    commit_everywhere(cluster, 3)
    most = 0

    def there() -> bool:
        nonlocal most
        most = max(most, under_way(cluster))
        return is_there(cluster, 3)

    wish(cluster, 3)
    cluster.world.run_until("three of everything", there, 300_000)
    assert 1 <= most <= cluster.base.moves_at_once
    wish(cluster, 5)
    await_there(cluster, 5)
    assert {str(told["reason"]) for told in cluster.told(BALANCER_MOVE)} == {
        "it is to have 3 replicas, and has 1",
        "it is to have 5 replicas, and has 3",
    }
    cluster.kill(0)
    rest = list(JOINED)
    for group in (CONTROLLER_GROUP, *GROUPS):
        cluster.wait_leader(group, ms=30_000, among=rest)
    for offsets in range(3):
        leader = cluster.wait_leader(1 + offsets, among=rest)
        assert cluster.fetch(leader, offsets, "g") == (Code.NONE, 3)
    commit_everywhere(cluster, 4, among=rest)


def test_five_become_one_where_the_leader_is_and_the_others_have_nothing() -> None:
    cluster = grown()
    wish(cluster, 5)
    await_there(cluster, 5)
    commit_everywhere(cluster, 7)
    wish(cluster, 1, every=True)
    await_there(cluster, 1)
    for offsets in range(3):
        assert cluster.fetch(cluster.wait_leader(1 + offsets), offsets, "g") == (Code.NONE, 7)


@pytest.mark.parametrize("seed", range(4))
def test_whoever_dies_at_whatever_step_it_is_carried_out(seed: int) -> None:
    cluster = grown(seed)
    rand = random.Random(seed)
    offset = 1
    for factor in rand.sample((3, 5, 1), 3):
        commit_everywhere(cluster, offset)
        wish(cluster, factor, every=True)
        for _ in range(3):
            cluster.world.run_for(rand.randint(100, 4_000))
            victim = rand.choice(sorted(cluster.nodes))
            cluster.kill(victim)
            cluster.world.run_for(rand.randint(100, 2_000))
            cluster.restart(victim)
        await_there(cluster, factor)
        for offsets in range(3):
            assert cluster.fetch(cluster.wait_leader(1 + offsets, ms=60_000), offsets, "g") == (Code.NONE, offset)
        offset += 1


def test_it_says_who_is_missing_and_goes_on_when_they_are_back() -> None:
    cluster = grown(joined=(1, 2))
    cluster.kill(2)
    cluster.world.run_until("it is seen", lambda: 2 not in cluster.nodes[0].host.peers, 60_000)
    wish(cluster, 3)
    cluster.world.run_for(5_000)
    said = balancer(cluster).status.reason
    assert "t-0 has 1 replicas of 3: no other broker can take a replica: broker 2 is not connected" in said
    assert "the controller's group has 1 voters of 3: no other broker" in said
    assert not cluster.told(BALANCER_MOVE), "two replicas are not begun with"
    uuid = image_of(cluster).brokers[BrokerId(1)].replica_uuid
    leaves = DecommissionBroker(broker=BrokerId(1), replica_uuid=uuid, departing=True)
    assert "2 brokers would be left" in cluster.submit(0, leaves).message
    cluster.restart(2)
    await_there(cluster, 3)


def test_a_pause_holds_it_too() -> None:
    cluster = grown(joined=(1, 2))
    assert cluster.submit(0, PauseBalancer(paused=True)).error == Code.NONE
    wish(cluster, 3)
    cluster.world.run_for(5_000)
    assert not cluster.told(BALANCER_MOVE)
    assert image_of(cluster).voters == (0,)
    assert cluster.submit(0, PauseBalancer(paused=False)).error == Code.NONE
    await_there(cluster, 3)
