"""A whole cluster in memory: it forms, elects, commits, survives its leaders, and answers only what is true."""

from collections import Counter

import pytest
from muster_coordinator.controller.commands import CreateTopic, DeleteTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo

from tests.replica.cluster import SimCluster, commit_request, fetch_request, fetched
from tests.sim.loop import Latency, World


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_a_cluster_forms_and_commits(replicas: int) -> None:
    cluster = SimCluster(World(1), replicas=replicas)
    cluster.start()
    for partition in range(3):
        leader = cluster.wait_leader(1 + partition)
        assert cluster.commit(leader, partition, "g", 42) == Code.NONE
        assert cluster.fetch(leader, partition, "g") == (Code.NONE, 42)
    cluster.converge()
    ids = {node.image().cluster_id for node in cluster.nodes.values()}
    assert len(ids) == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_replica_that_is_ready_names_itself(seed: int) -> None:
    """Its registration may be acknowledged by the leader before it is applied here, on a slow disk for long: Metadata
    then named no broker, which librdkafka's AdminClient did not get over in a minute."""
    cluster = SimCluster(World(seed), partitions=1)
    for broker in cluster.brokers:
        cluster.start_one(broker)
        cluster.loops[broker].default_latency = Latency(5_000, 60_000) if broker == seed % 3 else Latency()
    waiting = set(cluster.brokers)

    def one_more_is_ready() -> bool:
        for broker in [b for b in waiting if not cluster.nodes[b].not_ready()]:
            image = cluster.nodes[broker].image()
            assert image is not None
            assert broker in image.brokers
            waiting.remove(broker)
        return not waiting

    cluster.world.run_until("all are ready", one_more_is_ready)


@pytest.mark.parametrize("seed", range(20))
def test_a_restarted_replica_that_is_ready_names_this_start_of_itself(seed: int) -> None:
    """The same of every later start: what its own log had of an earlier one, with the endpoints of then, is not it."""
    cluster = SimCluster(World(seed), partitions=1)
    cluster.start()
    broker = seed % 3
    cluster.kill(broker)
    cluster.world.run_for(2_000)
    cluster.net.loss = 0.3
    node = cluster.restart(broker)
    cluster.loops[broker].default_latency = Latency(5_000, 60_000)
    cluster.world.run_until("it is ready", lambda: not node.not_ready())
    image = node.image()
    assert image is not None
    assert image.brokers[BrokerId(broker)].incarnation == 2


@pytest.mark.parametrize("seed", range(5))
def test_a_fresh_cluster_spreads_its_leaders_evenly_in_their_first_term(seed: int) -> None:
    cluster = SimCluster(World(seed), partitions=50)
    cluster.start()
    cluster.world.run_for(3_000)
    leaders = Counter(cluster.leader_of(1 + partition) for partition in range(50))
    assert sorted(leaders.values()) == [16, 17, 17]
    assert {node.host.groups[GroupNo(g)].core.term for node in cluster.nodes.values() for g in range(51)} == {1}


def test_a_killed_leaders_offsets_are_served_by_the_next_one() -> None:
    cluster = SimCluster(World(2))
    cluster.start()
    leader = cluster.wait_leader(1)
    for offset in range(20):
        assert cluster.commit(leader, 0, "g", offset) == Code.NONE
    cluster.kill(leader)
    began_us = cluster.world.now_us
    other = cluster.wait_leader(1)
    assert other != leader
    assert (cluster.world.now_us - began_us) / 1000 < 600, (
        "the link's loss is noticed, no election time-out is waited for"
    )
    assert cluster.fetch(other, 0, "g") == (Code.NONE, 19)
    assert cluster.commit(other, 0, "g", 20) == Code.NONE
    cluster.restart(leader)
    cluster.wait_ready()
    cluster.converge()


@pytest.mark.parametrize("seed", range(8))
def test_power_loss_of_all_replicas_at_once_loses_no_acknowledged_commit(seed: int) -> None:
    cluster = SimCluster(World(seed))
    cluster.start()
    acknowledged = -1
    for offset in range(30):
        leader = cluster.wait_leader(1)
        answers = cluster.ask_later(leader, 0, commit_request("g", offset))
        cluster.world.run_for(cluster.world.rand.random() * 3)
        if answers and answers[0].topics[0][1][0][1] == Code.NONE:
            acknowledged = offset
        if offset % 10 == 9:
            for broker in list(cluster.nodes):
                cluster.kill(broker)
            for broker in cluster.brokers:
                cluster.restart(broker)
            cluster.wait_ready()
    error, found = cluster.fetch(cluster.wait_leader(1), 0, "g")
    assert error == Code.NONE
    assert found >= acknowledged
    cluster.converge()


def test_followers_refuse_and_the_leader_is_known_everywhere() -> None:
    cluster = SimCluster(World(3))
    cluster.start()
    leader = cluster.wait_leader(1)
    cluster.world.run_for(200)
    for broker, node in cluster.nodes.items():
        assert node.leadership(GroupNo(1)).leader == leader
        if broker != leader:
            assert cluster.commit(broker, 0, "g", 1) == Code.NOT_COORDINATOR
            assert fetched(cluster.ask(broker, 0, fetch_request("g")))[0] == Code.NOT_COORDINATOR


def test_a_cut_off_old_leader_does_not_answer_reads_or_promise_commits() -> None:
    cluster = SimCluster(World(4))
    cluster.start()
    old = cluster.wait_leader(1)
    others = [b for b in cluster.nodes if b != old]
    assert cluster.commit(old, 0, "g", 1) == Code.NONE
    cluster.net.isolate(old)
    reads = cluster.ask_later(old, 0, fetch_request("g"))
    commits = cluster.ask_later(old, 0, commit_request("g", 99))
    new = cluster.wait_leader(1, among=others)
    assert cluster.commit(new, 0, "g", 2) == Code.NONE
    late = cluster.ask_later(old, 0, fetch_request("g"))
    cluster.world.run_for(5_000)
    for answers in (reads, late):
        assert answers, "it is answered all the same"
        assert fetched(answers[0])[0] in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)
    assert commits[0].topics[0][1][0][1] in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)
    cluster.net.heal()
    cluster.converge()
    assert cluster.fetch(cluster.wait_leader(1), 0, "g") == (Code.NONE, 2)


def test_a_proposal_whose_place_another_leaders_entry_took_is_lost_and_not_applied() -> None:
    """Rule 29: who waits for an index waits for the entry of its own term there, and for no other."""
    cluster = SimCluster(World(5))
    cluster.start()
    old = cluster.wait_leader(1)
    others = [b for b in cluster.nodes if b != old]
    assert cluster.commit(old, 0, "g", 1) == Code.NONE
    machine = cluster.nodes[old].group_manager.shards[0]
    applied, lost = machine.proposal_applied, machine.proposal_lost
    fates: list[str] = []

    def told_applied(token: object, result: object) -> None:
        fates.append("applied")
        applied(token, result)

    def told_lost(token: object) -> None:
        fates.append("lost")
        lost(token)

    machine.proposal_applied, machine.proposal_lost = told_applied, told_lost  # type: ignore[method-assign]
    cluster.net.isolate(old)
    cluster.ask_later(old, 0, commit_request("g", 99))
    new = cluster.wait_leader(1, among=others)
    assert cluster.commit(new, 0, "g", 2) == Code.NONE
    cluster.net.heal()
    cluster.converge()
    cluster.world.run_for(1_000)
    assert fates == ["lost"]


def test_a_read_that_waits_is_confirmed_by_a_round_that_began_after_it() -> None:
    """The heartbeat of the tick that left before the read must not confirm it."""
    cluster = SimCluster(World(5))
    cluster.start()
    leader = cluster.wait_leader(1)
    heartbeats = cluster.nodes[leader].host.heartbeats
    heartbeats.send_round()
    before = heartbeats.round
    answers = cluster.ask_later(leader, 0, fetch_request("g"))
    cluster.world.run_until("the read is answered", lambda: answers, 1_000)
    peers = heartbeats._outgoing.values()
    assert max(outgoing.confirmed_round for outgoing in peers) > before


def test_topics_come_and_go_on_every_replica() -> None:
    cluster = SimCluster(World(6))
    cluster.start()
    topic_id = bytes(range(16))
    for broker in cluster.brokers:  # through the leader, wherever it is
        name = f"topic{broker}"
        created = cluster.submit(
            broker, CreateTopic(name=name, topic_id=bytes([broker]) + topic_id[1:], partitions=4, configs=())
        )
        assert created.error == Code.NONE
        assert created.value == 4
    groups = [p.group for t in cluster.nodes[0].image().topics.values() if not t.internal for p in t.partitions]
    for group in groups:
        cluster.wait_leader(group)
    cluster.converge()
    assert cluster.submit(1, DeleteTopic(topic_id=bytes([0]) + topic_id[1:])).error == Code.NONE
    cluster.world.run_for(1_000)
    for broker, node in cluster.nodes.items():
        assert len(node.host.groups) == 1 + 3 + 8
        assert not [n for n in cluster.disks[broker].listdir("segments") if int(n) in range(4, 8)]
    again = cluster.submit(2, CreateTopic(name="topic0", topic_id=bytes([9]) + topic_id[1:], partitions=1, configs=()))
    assert again.error == Code.NONE


def test_a_deleted_topics_offsets_go_but_the_recreated_ones_stay() -> None:
    cluster = SimCluster(World(7))
    cluster.start()
    leader = cluster.wait_leader(1)
    assert cluster.commit(leader, 0, "g", 5) == Code.NONE  # no topic id: never tombstoned
    first = bytes([1]) * 16
    assert cluster.submit(0, CreateTopic(name="t2", topic_id=first, partitions=1, configs=())).error == Code.NONE
    request = commit_request("g", 7, "t2")
    with_id = type(request)(
        group="g",
        generation=-1,
        member="",
        instance=None,
        topics=(request.topics[0].__class__("t2", first, request.topics[0].partitions),),
    )
    assert cluster.ask(leader, 0, with_id).topics[0][1][0][1] == Code.NONE
    assert cluster.submit(0, DeleteTopic(topic_id=first)).error == Code.NONE
    cluster.world.run_until(
        "the tombstone", lambda: fetched(cluster.ask(leader, 0, fetch_request("g", "t2")))[1] == -1, 5_000
    )
    assert cluster.fetch(leader, 0, "g") == (Code.NONE, 5)
    cluster.converge()
