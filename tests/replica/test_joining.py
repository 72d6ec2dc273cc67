"""Brokers that join a formed cluster, in whole clusters on virtual time (ADR 41)."""

import pytest
from muster_coordinator.controller import brokers
from muster_coordinator.controller.commands import CreateTopic, DeleteTopic, ReplaceReplica
from muster_coordinator.controller.image import observers
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo, member_no
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica.bootstrap.formation import StartRefused
from muster_coordinator.replica.bootstrap.identity import CLUSTER_FILE

from tests.replica.cluster import SimCluster
from tests.replica.serving_cluster import GROUPS, formed

NEW = BrokerId(7)


def controllers_config(cluster: SimCluster, broker: int) -> Config:
    return cluster.nodes[broker].host.groups[GroupNo(0)].core.config


def await_observers(cluster: SimCluster, *members: int, ms: float = 60_000) -> None:
    """Until the controller's log says so at every replica, the new ones too."""

    def all_have() -> bool:
        return all(
            set(controllers_config(cluster, broker).learners) == set(members)
            and set(controllers_config(cluster, broker).voters) == set(cluster.base.initial_voters)
            for broker in cluster.nodes
        )

    cluster.world.run_until(f"observers {members}", all_have, ms)


def test_a_broker_joins_and_follows_the_controllers_log_without_a_vote() -> None:
    cluster = formed()
    node = cluster.add(NEW)
    cluster.wait_ready()
    await_observers(cluster, NEW)
    assert set(node.host.groups) == {GroupNo(0)}, "it holds nothing else"
    for other in cluster.nodes.values():
        image = other.image()
        assert image is not None
        assert observers(image) == (NEW,)
        assert image.brokers[NEW].replica_uuid == node.identity.replica_uuid
        assert other.linked(NEW)
        assert other.groups_to_change() == 0


def test_it_answers_who_leads_what_it_does_not_hold() -> None:
    """Whatever replica a client asks: leaders by gossip, topics by the controller's log, commands by its leader."""
    cluster = formed()
    node = cluster.add(NEW)
    cluster.wait_ready()
    others = [0, 1, 2]

    def all_known() -> bool:
        return all(node.leadership(GroupNo(g)).leader == cluster.leader_of(g, others) for g in GROUPS)

    cluster.world.run_until("all leaders are known", all_known, 15_000)
    more = CreateTopic(name="more", topic_id=bytes([2]) * 16, partitions=2, configs=())
    assert cluster.submit(NEW, more).error == Code.NONE
    cluster.converge([0])
    image = node.image()
    assert image is not None
    for partition in image.topics["more"].partitions:
        assert NEW not in partition.voters
        assert node.local_log(partition.group) is None
        wanted = cluster.wait_leader(partition.group, among=others)
        cluster.world.run_until(
            "its leader is known", lambda p=partition, w=wanted: node.leadership(p.group).leader == w, 15_000
        )
    cluster.world.run_for(30_000)
    assert all(node.leadership(p.group).leader is not None for p in image.topics["more"].partitions), "no group is gone"
    assert cluster.submit(NEW, DeleteTopic(topic_id=bytes([2]) * 16)).error == Code.NONE
    cluster.world.run_for(30_000)
    assert all(node.leadership(p.group).leader is None for p in image.topics["more"].partitions), "they are forgotten"
    assert cluster.commit(NEW, 0, "g", 1) == Code.NOT_COORDINATOR


def test_it_comes_back_after_a_restart_and_after_one_of_all() -> None:
    cluster = formed()
    cluster.add(NEW)
    cluster.wait_ready()
    cluster.kill(NEW)
    cluster.submit(0, CreateTopic(name="more", topic_id=bytes([2]) * 16, partitions=1, configs=()))
    cluster.restart(NEW)
    cluster.wait_ready()
    image = cluster.nodes[NEW].image()
    assert image is not None
    assert "more" in image.topics
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in (NEW, 0, 1, 2):
        cluster.restart(broker)
    cluster.wait_ready()
    await_observers(cluster, NEW)
    assert cluster.leader_of(0) != NEW


def test_observers_alone_are_no_quorum_and_elect_nobody() -> None:
    cluster = formed()
    for broker in (7, 8, 9):
        cluster.add(broker)
    cluster.wait_ready()
    await_observers(cluster, 7, 8, 9)
    for broker in (0, 1):
        cluster.kill(broker)
    cluster.world.run_for(30_000)
    assert cluster.leader_of(0) is None
    cluster.restart(0)
    cluster.wait_leader(0)
    cluster.restart(1)
    cluster.wait_ready()


def test_the_controllers_leader_may_die_while_brokers_join() -> None:
    for seed in range(5):
        cluster = formed(seed)
        for broker in (7, 8):
            cluster.add(broker)
        cluster.world.run_for(200 * seed)
        leader = cluster.leader_of(0)
        if leader is not None:
            cluster.kill(leader)
            cluster.world.run_for(5_000)
            cluster.restart(leader)
        cluster.wait_ready()
        await_observers(cluster, 7, 8)


def test_below_its_level_a_cluster_takes_nobody_in_and_says_why() -> None:
    said: list[str] = []
    cluster = formed(level=2)
    cluster.notice = lambda what, details, error: said.append(f"{what}: {details}")
    node = cluster.add(NEW)
    cluster.world.run_for(20_000)
    assert len(said) == 1, "once"
    assert "cannot be registered" in said[0]
    assert "broker 7 is not a voter of this cluster" in said[0]
    assert node.not_ready() == (f"waiting for the controller of cluster {cluster.cluster_id} to register broker 7",)
    assert not node.host.groups


def test_a_broker_of_another_cluster_id_is_not_taken_in() -> None:
    cluster = formed()
    cluster.add(NEW)
    cluster.kill(NEW)
    cluster.empty_disk(NEW)
    cluster.cluster_id = "A" * 22
    node = cluster.start_one(NEW)
    cluster.world.run_for(10_000)
    (reason,) = node.not_ready()
    assert "the configuration says " + "A" * 22 in reason
    image = cluster.nodes[0].image()
    assert image is not None
    assert NEW not in image.brokers or not image.brokers[NEW].bound or not node.host.groups


def test_a_replica_that_names_no_cluster_does_not_start() -> None:
    cluster = formed()
    cluster.add(NEW)
    cluster.kill(NEW)
    cluster.empty_disk(NEW)
    cluster.cluster_id = None
    with pytest.raises((StartRefused, AssertionError)):
        cluster.start_one(NEW)


def test_an_id_is_never_given_to_another_folder() -> None:
    """But by a replacement, of an observer too."""
    cluster = formed()
    gone = cluster.add(NEW).identity.replica_uuid
    cluster.wait_ready()
    cluster.kill(NEW)
    cluster.empty_disk(NEW)
    node = cluster.start_one(NEW)
    cluster.world.run_for(20_000)
    assert "was emptied and stays out" in " ".join(node.not_ready())
    assert not node.host.groups
    assert cluster.submit(0, ReplaceReplica(broker=NEW, gone_uuid=gone)).error == Code.NONE
    cluster.wait_ready()
    await_observers(cluster, member_no(NEW, 1))


def test_a_folder_that_lost_its_record_stays_out() -> None:
    cluster = formed()
    cluster.add(NEW)
    cluster.wait_ready()
    cluster.kill(NEW)
    cluster.disks[NEW].restart()
    cluster.disks[NEW].unlink(CLUSTER_FILE)
    node = cluster.start_one(NEW)
    cluster.world.run_for(20_000)
    assert "has lost its own record" in " ".join(node.not_ready())
    assert not node.host.groups


def test_a_voter_may_be_replaced_while_there_are_observers() -> None:
    cluster = formed()
    cluster.add(NEW)
    cluster.wait_ready()
    lost = BrokerId(2)
    gone = cluster.nodes[lost].identity.replica_uuid
    cluster.kill(lost)
    cluster.empty_disk(lost)
    cluster.wait_leader(0)
    assert cluster.submit(NEW, ReplaceReplica(broker=lost, gone_uuid=gone)).error == Code.NONE
    cluster.start_one(lost)
    cluster.wait_ready()
    wanted = {0, 1, member_no(lost, 1)}

    def replaced() -> bool:
        config = controllers_config(cluster, NEW)
        return set(config.voters) == wanted and config.learners == (NEW,) and not config.outgoing

    cluster.world.run_until("the voter is replaced, the observer stays", replaced, 60_000)
    cluster.world.run_until(
        "no group is to change", lambda: not any(node.groups_to_change() for node in cluster.nodes.values()), 60_000
    )


def test_a_cluster_has_a_limit_of_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "BROKERS_MAX", 6)
    said: list[str] = []
    cluster = formed(replicas=1)
    cluster.notice = lambda what, details, error: said.append(f"{what}: {details}")
    for broker in range(10, 15):
        cluster.add(broker)
    cluster.wait_ready()
    assert not said
    node = cluster.add(99)
    cluster.world.run_for(5_000)
    assert any("the cluster has 6 brokers" in one for one in said), said
    assert node.not_ready()
    assert cluster.submit(14, CreateTopic(name="u", topic_id=bytes([3]) * 16, partitions=1, configs=())).error == 0


@pytest.mark.parametrize("seed", range(3))
def test_one_that_has_just_joined_names_the_leader_of_every_group(seed: int) -> None:
    """Not only with the next whole table, which comes every ten seconds."""
    cluster = formed(seed)
    node = cluster.add(7)
    cluster.world.run_until("it has joined", lambda: node.formed is not None, 30_000)
    cluster.world.run_for(1_000)
    assert {group: node.leadership(GroupNo(group)).leader for group in GROUPS} == {
        group: cluster.leader_of(group) for group in GROUPS
    }
