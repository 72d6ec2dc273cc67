"""Brokers that leave, in whole clusters on virtual time (ADR 43)."""

from muster_coordinator.controller.commands import MovePartition, UnregisterBroker
from muster_coordinator.errors import Code
from muster_coordinator.events import BROKER_UNREGISTERED
from muster_coordinator.ids import BrokerId, member_no

from tests.replica.cluster import SimCluster
from tests.replica.serving_cluster import GROUPS, TOPIC_ID, formed
from tests.replica.test_joining import NEW, await_observers, controllers_config

STAYS = BrokerId(8)


def grown() -> tuple[SimCluster, UnregisterBroker]:
    """A cluster with two observers, and the command that lets one go."""
    cluster = formed()
    uuid = cluster.add(NEW).identity.replica_uuid
    cluster.add(STAYS)
    cluster.wait_ready()
    await_observers(cluster, NEW, STAYS)
    return cluster, UnregisterBroker(broker=NEW, replica_uuid=uuid)


def await_gone(cluster: SimCluster) -> None:
    """Until all others have neither the broker nor its member, and trust it no more."""
    others = [cluster.nodes[BrokerId(broker)] for broker in (0, 1, 2, STAYS)]

    def all_have() -> bool:
        images = [node.image() for node in others]
        return all(image is not None and NEW not in image.brokers for image in images) and not any(
            node.linked(NEW) or set(controllers_config(cluster, node.broker).learners) - {STAYS} for node in others
        )

    cluster.world.run_until("nobody knows the broker", all_have, 60_000)


def test_one_that_still_runs_is_let_go_of_and_says_so() -> None:
    cluster, command = grown()
    assert cluster.submit(0, command).error == Code.NONE
    await_gone(cluster)
    gone = {"raft_group": 0, "partition": "controller", "replica": int(NEW), "folder": command.replica_uuid.hex()}
    assert cluster.told(BROKER_UNREGISTERED) == [gone], "once, by the controller's leader"
    cluster.world.run_for(10_000)
    assert "declared gone for good" in " ".join(cluster.nodes[NEW].not_ready())
    assert "remove its folder" in " ".join(cluster.nodes[NEW].not_ready())
    for broker in (0, 1, 2, STAYS):
        assert cluster.nodes[BrokerId(broker)].not_ready() == ()


def test_one_that_comes_back_with_its_folder_stays_out() -> None:
    """Kafka's would register as before."""
    cluster, command = grown()
    cluster.kill(NEW)
    assert cluster.submit(0, command).error == Code.NONE
    cluster.world.run_for(5_000)
    for _ in range(2):
        cluster.restart(NEW)
        cluster.world.run_for(20_000)
        assert "remove its folder" in " ".join(cluster.nodes[NEW].not_ready())
        image = cluster.nodes[BrokerId(0)].image()
        assert image is not None
        assert NEW not in image.brokers
        cluster.kill(NEW)
    for broker in (0, 1, 2, STAYS):
        cluster.kill(broker)
    for broker in (0, 1, 2, STAYS):
        cluster.restart(broker)
    cluster.wait_ready([0, 1, 2, STAYS])
    await_observers(cluster, STAYS)


def test_an_empty_folder_joins_under_its_id_as_another_member() -> None:
    cluster, command = grown()
    cluster.kill(NEW)
    assert cluster.submit(0, command).error == Code.NONE
    cluster.world.run_for(2_000)
    cluster.empty_disk(NEW)
    cluster.start_one(NEW)
    cluster.wait_ready()
    await_observers(cluster, member_no(NEW, 1), STAYS)


def test_the_last_one_to_leave_is_no_learner_any_more() -> None:
    cluster = formed()
    uuid = cluster.add(NEW).identity.replica_uuid
    cluster.wait_ready()
    await_observers(cluster, NEW)
    assert cluster.submit(0, UnregisterBroker(broker=NEW, replica_uuid=uuid)).error == Code.NONE

    def gone() -> bool:
        return not any(controllers_config(cluster, broker).learners for broker in (0, 1, 2))

    cluster.world.run_until("the voters are alone", gone, 60_000)


def test_it_leaves_when_its_partitions_were_moved_away() -> None:
    """What it has of them is of no more use, whether it has removed that by then or not."""
    cluster, command = grown()
    for voters in ((NEW, STAYS, 0), (STAYS, 0, 1)):
        move = MovePartition(topic_id=TOPIC_ID, partition=0, voters=tuple(map(BrokerId, voters)))
        assert cluster.submit(0, move).error == Code.NONE
        assert cluster.submit(0, command).error != Code.NONE, "it has a replica, or may have one"
        cluster.world.run_until("it is there", lambda: not moves(cluster), 60_000)
    assert cluster.submit(0, command).error == Code.NONE
    await_gone(cluster)
    assert cluster.wait_leader(GROUPS[-1], among=[0, 1, STAYS]) != NEW


def moves(cluster: SimCluster) -> bool:
    image = cluster.nodes[cluster.wait_leader(0)].image()
    assert image is not None
    return image.topics["t"].partitions[0].moves
