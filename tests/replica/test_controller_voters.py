"""Other brokers vote in the controller's group than those that formed the cluster, in whole clusters on virtual time
(ADR 45): the log goes on, nothing of before is needed, and whoever dies at whatever step, the change is completed."""

import random

import pytest
from muster_coordinator.controller.commands import (
    AllocateProducerIds,
    CommandResult,
    SetControllerVoters,
    UnregisterBroker,
)
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo

from tests.replica import moving
from tests.replica.cluster import SimCluster
from tests.replica.moving import FOUNDERS, NEW, SMALL, cluster_of_six
from tests.replica.serving_cluster import formed

EVERYBODY = (*FOUNDERS, *NEW)
NOT_NOW = (Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT)


def ask(cluster: SimCluster, *voters: int) -> CommandResult:
    command = SetControllerVoters(voters=tuple(map(BrokerId, voters)))
    return cluster.submit(cluster.wait_leader(CONTROLLER_GROUP, ms=30_000), command)


def wish(cluster: SimCluster, *voters: int) -> None:
    result = ask(cluster, *voters)
    assert result.error == Code.NONE, result


def image(cluster: SimCluster, broker: int) -> ClusterImage:
    found = cluster.nodes[broker].image()
    assert found is not None
    return found


def await_voters(cluster: SimCluster, *voters: int, ms: float = 120_000) -> None:
    """Until these vote, all others that run are observers, everybody knows it, and the log says that it is complete."""

    def done() -> bool:
        for broker, node in cluster.nodes.items():
            config = node.host.groups[CONTROLLER_GROUP].core.config
            here = image(cluster, broker)
            if set(config.voters) != set(voters) or config.outgoing or here.former_voters:
                return False
            if not {*cluster.nodes} <= {*config.voters, *config.learners} or set(here.voters) != set(voters):
                return False
        return True

    try:
        cluster.world.run_until(f"the controller's voters are {voters}", done, ms)
    except AssertionError:
        told = {
            broker: (
                node.host.groups[CONTROLLER_GROUP].core.config,
                image(cluster, broker).voters,
                image(cluster, broker).former_voters,
                node.formed and node.formed.membership.held_up,
            )
            for broker, node in cluster.nodes.items()
        }
        raise AssertionError(str(told)) from None


class ProducerIds:
    """Blocks that the controller has given out: none twice, so none is forgotten."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.given: list[int] = []

    def take(self, count: int, broker: int = 0) -> None:
        for _ in range(count):
            leader = self.cluster.wait_leader(CONTROLLER_GROUP, ms=30_000)
            result = self.cluster.submit(leader, AllocateProducerIds(broker=BrokerId(broker)), ms=30_000)
            if result.error in NOT_NOW:
                continue
            assert result.error == Code.NONE, result
            assert not self.given or result.value > self.given[-1], "what was given out before is known"
            self.given.append(result.value)


def test_observers_become_voters_and_voters_observers() -> None:
    cluster = cluster_of_six()
    ids = ProducerIds(cluster)
    for voters in (NEW, (0, 7, 1), (2,), (8,), (0, 1, 2, 7, 8), (9, 8, 7), FOUNDERS):
        ids.take(3)
        wish(cluster, *voters)
        await_voters(cluster, *voters)
        ids.take(3)
        assert cluster.wait_leader(CONTROLLER_GROUP) in voters
    assert len(ids.given) >= 36, "it served all the time, apart from changes of leadership"


def test_nothing_of_the_founders_is_needed_any_more_and_the_configuration_of_then_is_only_a_hint() -> None:
    """Three changes are behind it, and all configurations still name 0, 1 and 2."""
    cluster = cluster_of_six()
    ids = ProducerIds(cluster)
    for voters in ((7, 1, 2), (7, 8, 2), NEW):
        wish(cluster, *voters)
        await_voters(cluster, *voters)
    for broker in FOUNDERS:
        cluster.kill(broker)
    ids.take(3, broker=7)
    assert len(ids.given) == 3
    for broker in NEW:
        cluster.kill(broker)
        cluster.restart(broker)
    cluster.world.run_until("the new ones are linked", lambda: cluster.leader_of(CONTROLLER_GROUP) in NEW, 60_000)
    ids.take(3, broker=7)
    cluster.restart(0)  # without its own kind, and with a configuration that is three changes old
    group = cluster.nodes[0].host.groups[CONTROLLER_GROUP]
    cluster.world.run_until("it has the log of the new ones", lambda: group.caught_up, 30_000)
    assert set(group.core.config.voters) == set(NEW)
    ids.take(3)
    assert len(ids.given) >= 8


def test_founders_alone_do_not_vote_by_their_configuration() -> None:
    cluster = cluster_of_six(**SMALL)
    wish(cluster, *NEW)
    await_voters(cluster, *NEW)
    for broker in EVERYBODY:
        cluster.kill(broker)
    terms = {}
    for broker in FOUNDERS:
        cluster.restart(broker)
        terms[broker] = cluster.nodes[broker].host.groups[CONTROLLER_GROUP].core.term
    cluster.world.run_for(30_000)
    for broker in FOUNDERS:
        core = cluster.nodes[broker].host.groups[CONTROLLER_GROUP].core
        assert (core.term, core.leader) == (terms[broker], -1)
        assert set(core.config.voters) == set(NEW)


def test_a_change_waits_for_who_is_behind_and_another_may_take_its_place() -> None:
    cluster = cluster_of_six()
    ids = ProducerIds(cluster)
    cluster.kill(9)
    wish(cluster, 7, 8, 9)
    cluster.world.run_for(10_000)
    leader = cluster.wait_leader(CONTROLLER_GROUP)
    config = cluster.nodes[leader].host.groups[CONTROLLER_GROUP].core.config
    assert set(config.voters) == set(FOUNDERS), "a voter to be is away"
    assert image(cluster, leader).former_voters == FOUNDERS
    ids.take(2)
    wish(cluster, 7, 1, 2)
    await_voters(cluster, 7, 1, 2)
    ids.take(2)
    cluster.restart(9)
    cluster.wait_ready()
    await_voters(cluster, 7, 1, 2)


def test_who_may_still_vote_is_not_unregistered() -> None:
    cluster = cluster_of_six()
    cluster.kill(9)
    wish(cluster, 7, 8, 9)
    folder = image(cluster, 0).brokers[BrokerId(2)].replica_uuid
    leave = UnregisterBroker(broker=BrokerId(2), replica_uuid=folder)
    assert "votes in the controller's group" in cluster.submit(cluster.wait_leader(0), leave).message
    cluster.restart(9)
    await_voters(cluster, 7, 8, 9)
    refused = cluster.submit(cluster.wait_leader(0), leave)
    assert "votes" not in refused.message
    assert "has replicas" in refused.message


def test_what_cannot_be_is_refused() -> None:
    cluster = cluster_of_six()
    for voters, words in (
        ((), "1, 3 or 5 voters, not 0"),
        ((0, 1), "1, 3 or 5 voters, not 2"),
        ((0, 1, 1), "named twice"),
        ((0, 1, 5), "broker 5 is not registered"),
    ):
        refused = ask(cluster, *voters)
        assert (refused.error, words in refused.message) == (Code.INVALID_REQUEST, True), refused
    wish(cluster, 2, 1, 0)
    assert image(cluster, 0).voters == FOUNDERS, "the same brokers in another order are the same"


def test_below_its_level_nothing_changes() -> None:
    cluster = formed(level=2)
    refused = ask(cluster, 0)
    assert (refused.error, "feature level 3" in refused.message) == (Code.UNSUPPORTED_VERSION, True)


@pytest.mark.parametrize("seed", range(24))
def test_whoever_dies_at_whatever_step(seed: int) -> None:
    rand = random.Random(seed)
    cluster = cluster_of_six(seed, **(SMALL if seed % 2 else {}))
    ids = ProducerIds(cluster)
    voters: tuple[int, ...] = FOUNDERS
    for _ in range(6):
        voters = tuple(rand.sample(EVERYBODY, rand.choice((1, 3, 3, 5))))
        wish(cluster, *voters)
        for _ in range(rand.randrange(3)):
            cluster.world.run_for(rand.randrange(1, 2_000))
            down = rand.sample(EVERYBODY, rand.choice((1, 1, 2)))
            for broker in down:
                cluster.kill(broker)
            cluster.world.run_for(rand.randrange(1, 3_000))
            for broker in down:
                cluster.restart(broker)
            cluster.world.run_for(rand.randrange(1, 1_000))
        cluster.wait_ready(ms=60_000)
        ids.take(2)
    await_voters(cluster, *voters)
    ids.take(2)
    assert len(ids.given) >= 8
    cluster.converge([0])


def test_voters_are_added_when_nothing_else_has_ever_changed() -> None:
    cluster = formed(replicas=1)
    for broker in (7, 8):
        cluster.add(broker)
    cluster.wait_ready()
    wish(cluster, 0, 7, 8)
    await_voters(cluster, 0, 7, 8)
    wish(cluster, 0)
    await_voters(cluster, 0)


def test_a_cluster_of_one_grows_and_its_founder_is_lost() -> None:
    """All offsets partitions and the controller's group go from one replica to three; then the founder's volume is
    lost, and two brokers that joined have everything."""
    cluster = formed(replicas=1)
    cluster.notice = moving.suspensions_only
    for partition in range(3):
        assert cluster.commit(0, partition, "g", 10 + partition) == Code.NONE
    for broker in (7, 8):
        cluster.add(broker)
    cluster.wait_ready()
    groups = (*(GroupNo(1 + partition) for partition in range(3)), moving.TOPIC_GROUP)
    wish(cluster, 0, 7, 8)
    for group in groups:
        moving.move(cluster, 0, 7, 8, group=group)
    await_voters(cluster, 0, 7, 8)
    for group in groups:
        moving.await_moved(cluster, 0, 7, 8, group=group)
    cluster.kill(0)
    cluster.empty_disk(0)
    ids = ProducerIds(cluster)
    ids.take(2, broker=7)
    assert len(ids.given) == 2
    for partition in range(3):
        leader = cluster.wait_leader(1 + partition, ms=30_000)
        assert cluster.fetch(leader, partition, "g") == (Code.NONE, 10 + partition)
        assert cluster.commit(leader, partition, "g", 20) == Code.NONE
    for broker in (7, 8):
        cluster.kill(broker)
        cluster.restart(broker)
    cluster.wait_leader(CONTROLLER_GROUP, ms=60_000)
    for partition in range(3):
        leader = cluster.wait_leader(1 + partition, ms=30_000)
        assert cluster.fetch(leader, partition, "g") == (Code.NONE, 20)
