"""Brokers that leave, in whole clusters on virtual time (ADR 43)."""

from muster_coordinator.controller.commands import UnregisterBroker
from muster_coordinator.errors import Code
from muster_coordinator.events import BROKER_UNREGISTERED
from muster_coordinator.ids import BrokerId, member_no

from tests.replica.cluster import SimCluster
from tests.replica.serving_cluster import formed
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
