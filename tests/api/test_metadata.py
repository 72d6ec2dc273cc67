"""Metadata (protocol notes 11.1, 11.2)."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.leader_wait import LOOK_AGAIN_MS
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import CLUSTER_ID, FakeSurface, broker, topic
from tests.api.kafka_client import KafkaClient, code

ORDERS_ID = UUID(bytes=b"orders----------")
ALL = range(14)


def ask(surface: FakeSurface, version: int, **values: Any) -> Any:
    return KafkaClient(surface).ask(Api.METADATA, version, **values)


def names(answer: Any) -> list[tuple[str | None, int]]:
    return [(topic.name, code(topic.error_code)) for topic in answer.topics]


@pytest.mark.parametrize("version", ALL)
def test_all_topics_internal_ones_too(version: int) -> None:
    answer = ask(FakeSurface(), version, topics=None if version else ())
    assert names(answer) == [("__consumer_offsets", 0), ("orders", 0)]
    if version >= 1:
        assert [t.is_internal for t in answer.topics] == [True, False]


@pytest.mark.parametrize("version", range(1, 14))
def test_no_topics_asked_brokers_told(version: int) -> None:
    answer = ask(FakeSurface(), version, topics=())
    assert answer.topics == ()
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(n, f"plaintext-{n}", 9092) for n in range(3)]


def test_cluster_id_and_controller() -> None:
    answer = ask(FakeSurface(), 2, topics=())
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)


def test_the_controller_named_is_always_a_listed_broker() -> None:
    surface = FakeSurface()
    surface.dead.add(1)
    assert ask(surface, 1, topics=()).controller_id == 0
    surface.brokers[0] = broker(0, listeners=("EXTERNAL",))
    assert ask(surface, 1, topics=()).controller_id == 2


def test_dead_brokers_and_those_without_the_listener_are_not_listed() -> None:
    surface = FakeSurface()
    surface.dead.add(2)
    surface.brokers[1] = broker(1, listeners=("EXTERNAL",))
    assert [b.node_id for b in ask(surface, 9, topics=()).brokers] == [0]


def test_a_broker_that_died_a_moment_ago_is_listed_and_leads_nothing() -> None:
    """As in Kafka until its session is over: clients drop what they know of a broker that disappears from the list."""
    surface = FakeSurface()
    surface.dead.add(1)
    surface.just_gone.add(1)
    surface.elect(101, 2, 8)
    answer = ask(surface, 9, topics=[{"name": "orders"}])
    assert [b.node_id for b in answer.brokers] == [0, 1, 2]
    assert [(p.leader_id, p.offline_replicas) for p in answer.topics[0].partitions] == [(0, (1,)), (2, (1,)), (2, (1,))]
    assert answer.controller_id == 0, "the controller's leader was broker 1"
    surface.leaders[101] = surface.leaders[101]._replace(leader=1)
    client = KafkaClient(surface)
    client.send(Api.METADATA, 9, topics=[{"name": "orders"}])
    surface.fake_loop.run(limits.METADATA_LEADERLESS_WAIT_MS)
    (answer,) = client.receive()
    assert answer.topics[0].partitions[1].leader_id == -1


def test_a_broker_that_is_to_leave_is_listed_until_it_is_empty() -> None:
    """Then it names the others, and whoever asks again forgets it (ADR 49)."""
    surface = FakeSurface()
    surface.brokers[BrokerId(2)] = replace(surface.brokers[BrokerId(2)], departing=True)
    assert [b.node_id for b in ask(surface, 9, topics=()).brokers] == [0, 1, 2], "it has replicas"
    surface.brokers[BrokerId(3)] = replace(broker(3), departing=True)
    surface.broker = BrokerId(3)
    answer = ask(surface, 9, topics=[{"name": "orders"}])
    assert [b.node_id for b in answer.brokers] == [0, 1, 2]
    assert [p.leader_id for p in answer.topics[0].partitions] == [0, 1, 2]
    assert answer.controller_id in (0, 1, 2)


def test_an_empty_broker_that_sees_nobody_else_names_itself() -> None:
    """librdkafka keeps no broker after an answer without any."""
    surface = FakeSurface()
    surface.brokers[BrokerId(3)] = replace(broker(3), departing=True)
    surface.broker = BrokerId(3)
    surface.dead |= {0, 1, 2}
    assert [b.node_id for b in ask(surface, 9, topics=()).brokers] == [3]


@pytest.mark.parametrize("version", ALL)
def test_a_leader_that_has_left_its_partition_is_none_with_5(version: int) -> None:
    """Who led last is not heard of yet: a leader that the same answer does not list would be a client's end."""
    surface = FakeSurface()
    surface.brokers[BrokerId(3)] = replace(broker(3), departing=True)
    surface.elect(101, 3, 8)
    client = KafkaClient(surface)
    client.send(Api.METADATA, version, topics=[{"name": "orders"}])
    surface.fake_loop.run(limits.METADATA_LEADERLESS_WAIT_MS)
    (answer,) = client.receive()
    partition = answer.topics[0].partitions[1]
    assert (code(partition.error_code), partition.leader_id) == (5, -1)


@pytest.mark.parametrize("version", range(1, 14))
def test_unknown_and_invalid_names(version: int) -> None:
    """Topics are never created here: auto-creation is off whatever the client says."""
    asked = [{"name": name} for name in ("nope", "", "a/b", "..", "x" * 250)]
    answer = ask(FakeSurface(), version, topics=asked, allow_auto_topic_creation=True)
    assert [c for _, c in names(answer)] == [3, 17, 17, 17, 17]


def test_the_same_name_twice_is_one_entry() -> None:
    assert names(ask(FakeSurface(), 9, topics=[{"name": "orders"}] * 2)) == [("orders", 0)]


@pytest.mark.parametrize("version", [12, 13])
def test_by_id_and_then_names_are_ignored(version: int) -> None:
    asked = [{"name": None, "topic_id": ORDERS_ID}, {"name": None, "topic_id": UUID(int=5)}, {"name": "nope"}]
    answer = ask(FakeSurface(), version, topics=asked)
    assert names(answer) == [("orders", 0), (None, 100)]
    assert answer.topics[0].topic_id == ORDERS_ID


def test_neither_name_nor_id_is_42() -> None:
    assert names(ask(FakeSurface(), 12, topics=[{"name": None}, {"name": "orders"}])) == [(None, 42), ("orders", 0)]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_v12_are_42_without_brokers(version: int) -> None:
    answer = ask(FakeSurface(), version, topics=[{"name": None, "topic_id": ORDERS_ID}])
    assert [c for _, c in names(answer)] == [42]
    assert answer.brokers == ()


@pytest.mark.parametrize("version", range(10, 14))
def test_every_topic_has_a_non_zero_id(version: int) -> None:
    """Trap T1: Produce 13 without ids in Metadata kills the Java producer."""
    answer = ask(FakeSurface(), version, topics=None)
    assert all(topic.topic_id for topic in answer.topics)


def test_leaders_epochs_and_replicas() -> None:
    surface = FakeSurface()
    surface.dead.add(1)
    surface.elect(101, 2, 8)
    orders = ask(surface, 7, topics=[{"name": "orders"}]).topics[0].partitions
    assert [(p.partition_index, p.leader_id, p.leader_epoch) for p in orders] == [(0, 0, 3), (1, 2, 8), (2, 2, 3)]
    assert [p.replica_nodes for p in orders] == [(0, 1, 2)] * 3
    assert [(p.isr_nodes, p.offline_replicas) for p in orders] == [((0, 2), (1,))] * 3


@pytest.mark.parametrize("version", ALL)
def test_a_leader_that_is_not_listed_is_none_with_5(version: int) -> None:
    surface = FakeSurface()
    surface.dead.add(1)
    client = KafkaClient(surface)
    client.send(Api.METADATA, version, topics=[{"name": "orders"}])
    surface.fake_loop.run(limits.METADATA_LEADERLESS_WAIT_MS)
    (answer,) = client.receive()
    partition = answer.topics[0].partitions[1]
    assert (code(partition.error_code), partition.leader_id) == (5, -1)
    if version >= 7:
        assert partition.leader_epoch == 3


@pytest.mark.parametrize(("version", "expected"), [(5, 5), (6, 72), (13, 72)])
def test_a_living_leader_without_the_listener(version: int, expected: int) -> None:
    surface = FakeSurface()
    surface.brokers[1] = broker(1, listeners=("EXTERNAL",))
    client = KafkaClient(surface)
    client.send(Api.METADATA, version, topics=[{"name": "orders"}])
    surface.fake_loop.run(limits.METADATA_LEADERLESS_WAIT_MS)
    assert code(client.receive()[0].topics[0].partitions[1].error_code) == expected


def test_version_0_leaves_dead_replicas_out_and_says_9() -> None:
    surface = FakeSurface()
    surface.dead.add(1)
    surface.elect(101, 2, 8)
    partition = ask(surface, 0, topics=[{"name": "orders"}]).topics[0].partitions[0]
    assert (code(partition.error_code), partition.replica_nodes, partition.leader_id) == (9, (0, 2), 0)


def leaderless(surface: FakeSurface) -> None:
    surface.leaders[101] = surface.leaders[101]._replace(leader=None)


def test_an_answer_without_leader_waits_so_that_a_busy_loop_asks_ten_times_a_second() -> None:
    surface = FakeSurface()
    leaderless(surface)
    client = KafkaClient(surface)
    answers = 0
    start = surface.fake_loop.now_ms
    while surface.fake_loop.now_ms < start + 1_000:
        client.send(Api.METADATA, 5, topics=[{"name": "orders"}])
        while not (got := client.receive()):
            surface.fake_loop.run(1)
        answers += len(got)
    assert answers <= 10


def test_the_wait_ends_with_the_election() -> None:
    surface = FakeSurface()
    leaderless(surface)
    client = KafkaClient(surface)
    client.send(Api.METADATA, 9, topics=[{"name": "orders"}])
    surface.fake_loop.run(20)
    assert client.receive() == []
    surface.elect(101, 2, 9)
    (answer,) = client.receive()
    assert answer.topics[0].partitions[1].leader_id == 2


@pytest.mark.parametrize("formed", [True, False])
def test_an_answer_waits_for_a_broker_to_name(formed: bool) -> None:
    """librdkafka asks three times for an answer that names brokers, and then waits for its next refresh."""
    surface = FakeSurface()
    surface.formed = formed
    surface.dead.update(range(3))
    client = KafkaClient(surface)
    client.send(Api.METADATA, 9, topics=[])
    surface.fake_loop.run(limits.METADATA_NO_BROKER_WAIT_MS - LOOK_AGAIN_MS)
    assert client.receive() == []
    surface.formed = True
    surface.dead.clear()
    surface.fake_loop.run(LOOK_AGAIN_MS)
    (answer,) = client.receive()
    assert (len(answer.brokers), answer.controller_id) == (3, 1)


def test_a_replica_that_learns_of_no_broker_says_so_in_the_end() -> None:
    surface = FakeSurface()
    surface.dead.update(range(3))
    client = KafkaClient(surface)
    client.send(Api.METADATA, 9, topics=[])
    surface.fake_loop.run(limits.METADATA_NO_BROKER_WAIT_MS)
    (answer,) = client.receive()
    assert (list(answer.brokers), answer.controller_id) == ([], -1)


def test_one_election_of_two_does_not_end_the_wait() -> None:
    surface = FakeSurface()
    for group in (100, 101):
        surface.leaders[group] = surface.leaders[group]._replace(leader=None)
    client = KafkaClient(surface)
    client.send(Api.METADATA, 9, topics=[{"name": "orders"}])
    surface.elect(100, 2, 9)
    surface.fake_loop.run(limits.METADATA_LEADERLESS_WAIT_MS - 1)
    assert client.receive() == []
    surface.fake_loop.run(1)
    (answer,) = client.receive()
    assert [p.leader_id for p in answer.topics[0].partitions] == [2, -1, 2]


def newborn(surface: FakeSurface, partitions: int) -> list[int]:
    """The Raft groups of a topic `new` whose partitions have never had a leader."""
    surface.add_topic(topic("new", partitions, first_group=300))
    return [surface.leaders.pop(p.group) and p.group for p in surface.topics["new"].partitions]


@pytest.mark.parametrize("asked", [[{"name": "new"}], None])
def test_a_new_topic_is_told_when_all_its_partitions_have_leaders(asked: Any) -> None:
    surface = FakeSurface()
    groups = newborn(surface, 60)
    client = KafkaClient(surface)
    client.send(Api.METADATA, 12, topics=asked)
    for group in groups:
        surface.fake_loop.run(10)
        assert client.receive() == []
        surface.elect(group, group % 3, 1)
    (answer,) = client.receive()
    (new,) = [t for t in answer.topics if t.name == "new"]
    assert [(code(p.error_code), p.leader_id) for p in new.partitions] == [(0, g % 3) for g in groups]


def test_a_new_topic_without_leaders_is_told_as_that_in_the_end() -> None:
    surface = FakeSurface()
    newborn(surface, 2)
    client = KafkaClient(surface)
    client.send(Api.METADATA, 12, topics=[{"name": "new"}])
    surface.fake_loop.run(limits.METADATA_NEW_PARTITION_WAIT_MS - 1)
    assert client.receive() == []
    surface.fake_loop.run(1)
    (answer,) = client.receive()
    told = [(code(p.error_code), p.leader_id, p.leader_epoch) for p in answer.topics[0].partitions]
    assert names(answer) == [("new", 0)]
    assert told == [(5, -1, -1)] * 2
    assert surface.fake_loop.pending == 0


def test_topics_with_leaders_are_answered_at_once_while_others_have_none() -> None:
    surface = FakeSurface()
    leaderless(surface)
    assert names(ask(surface, 9, topics=[{"name": "__consumer_offsets"}])) == [("__consumer_offsets", 0)]


def test_operations_are_told_when_asked() -> None:
    def reads_only(_context: Any, operation: Operation, _resource: Any) -> bool:
        return operation in (Operation.READ, Operation.DESCRIBE)

    client = KafkaClient(FakeSurface(), authorize=reads_only)
    asked = {"topics": [{"name": "orders"}], "include_topic_authorized_operations": True}
    answer = client.ask(Api.METADATA, 9, include_cluster_authorized_operations=True, **asked)
    assert answer.topics[0].topic_authorized_operations == (1 << 3) | (1 << 8)
    assert answer.cluster_authorized_operations == 1 << 8
    unasked = client.ask(Api.METADATA, 9, topics=[{"name": "orders"}])
    assert unasked.topics[0].topic_authorized_operations == -(2**31)
