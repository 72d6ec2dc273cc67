"""Where topics go that clients create (ADR 44): replication factors, assignments, and what a late image is told."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.place_for_topics import PlaceForTopics
from muster_coordinator.controller.commands import AddPartitions, Command, CommandResult, CreateTopic
from muster_coordinator.controller.image import EMPTY_ID
from muster_coordinator.controller.placement import Placed
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, broker, topic
from tests.api.kafka_client import KafkaClient, code
from tests.api.test_every_version import REQUESTS, SERVED, error_codes
from tests.api.topic_requests import assigned, create, grow, outcome, wanted
from tests.made_settings import api_settings

RACKS = ("a", "b", "c", "a", "b")
WAITS = CommandResult(Code.INVALID_REPLICA_ASSIGNMENT, "broker 4 waits for a new data folder")


def five() -> FakeSurface:
    """Three brokers that formed the cluster and two that joined, in three racks; this one is 0."""
    surface = FakeSurface()
    surface.brokers |= {BrokerId(n): broker(n) for n in (3, 4)}
    surface.brokers = {n: replace(surface.brokers[n], rack=RACKS[n]) for n in surface.brokers}
    return surface


def placed(surface: FakeSurface) -> list[tuple[BrokerId, ...]]:
    """Of all partitions that were proposed."""
    return [row for c in surface.commands if isinstance(c, CreateTopic | AddPartitions) for row in c.placed]


def message(surface: FakeSurface, **more: Any) -> tuple[int, str]:
    (said,) = create(surface, wanted("new", **more)).topics
    return code(said.error_code), said.error_message or ""


@pytest.mark.parametrize("version", range(2, 8))
@pytest.mark.parametrize(("factor", "replicas"), [(-1, 3), (1, 1), (2, 3), (3, 3), (4, 5), (5, 5)])
def test_a_topic_has_at_least_as_many_replicas_as_it_was_created_with(factor: int, replicas: int, version: int) -> None:
    surface = five()
    answer = create(surface, wanted("new", replication_factor=factor, num_partitions=4), version=version)
    assert outcome(answer) == [("new", 0)]
    assert [len(set(row)) for row in placed(surface)] == [replicas] * 4
    assert all(len({RACKS[one] for one in row}) == min(3, replicas) for row in placed(surface))
    if version >= 5:
        assert answer.topics[0].replication_factor == replicas
    told = KafkaClient(surface).ask(Api.METADATA, 12, topics=[{"name": "new"}]).topics[0].partitions
    assert [tuple(one.replica_nodes) for one in told] == placed(surface)


@pytest.mark.parametrize(("factor", "expected"), [(0, 38), (-2, 38), (6, 38), (7, 38)])
def test_other_numbers_of_replicas_are_refused_in_words(factor: int, expected: int) -> None:
    said = f"a partition has 1, 3 or 5 replicas, not {factor}"
    assert message(five(), replication_factor=factor) == (expected, said)


def test_two_replicas_are_refused_where_three_are_not_possible() -> None:
    surface = five()
    for number in (2, 3, 4):
        del surface.brokers[BrokerId(number)]
    assert message(surface, replication_factor=2)[0] == 38
    assert placed(surface) == []


@pytest.mark.parametrize(("asked", "made"), [(1, 1), (3, 3), (5, 5)])
def test_the_servers_default_counts_where_a_client_leaves_it_open(asked: int, made: int) -> None:
    surface = five()
    settings = api_settings(replication_factor=asked)
    create(surface, wanted("new", replication_factor=-1, num_partitions=1), settings=settings)
    grow(surface, {"name": "new", "count": 2})
    assert [len(row) for row in placed(surface)] == [made, made]
    for few in ([], [BrokerId(1)]):
        alone = FakeSurface()
        alone.brokers = {number: alone.brokers[number] for number in (BrokerId(0), *few)}
        alone.voters = tuple(alone.brokers)
        create(alone, wanted("new", replication_factor=-1, num_partitions=1), settings=settings)
        assert [len(row) for row in placed(alone)] == [1], "as many as the brokers allow"


def test_too_few_brokers_are_told_only_by_an_image_that_is_current() -> None:
    surface = five()
    del surface.brokers[BrokerId(4)]
    surface.brokers[BrokerId(3)] = replace(surface.brokers[BrokerId(3)], replica_uuid=EMPTY_ID)
    words = "5 replicas need as many brokers; 3 can take one: broker 3 waits for a new data folder"
    assert message(surface, replication_factor=5) == (38, words)
    assert surface.topic_questions == 1
    surface.on_image_question = lambda: False
    assert message(surface, replication_factor=5)[0] == 41

    def comes() -> bool:
        surface.brokers |= {BrokerId(n): broker(n) for n in (3, 4)}
        return True

    surface.on_image_question = comes
    assert message(surface, replication_factor=5) == (0, "")


def test_brokers_that_cannot_be_reached_are_spared_while_others_are_there() -> None:
    surface = five()
    surface.dead |= {1}
    create(surface, wanted("new", num_partitions=6))
    assert all(1 not in row for row in placed(surface))
    surface.dead |= {2, 4}
    grow(surface, {"name": "new", "count": 8})
    assert all({0, 3} < set(row) and row[0] in (0, 3) for row in placed(surface)[6:])


def test_topics_of_one_request_know_of_each_other() -> None:
    surface = five()
    surface.behind = True
    topics = [wanted(f"t{n}", num_partitions=1, replication_factor=1) for n in range(10)]
    KafkaClient(surface).send(Api.CREATE_TOPICS, 7, topics=topics, timeout_ms=5_000)
    held = Counter(row[0] for row in placed(surface))
    image = surface.image()
    assert image is not None
    before = Counter(b for t in image.topics.values() for p in t.partitions for b in p.voters)
    total = [held[BrokerId(n)] + before[BrokerId(n)] for n in range(5)]
    assert held[BrokerId(3)] == held[BrokerId(4)] == 5, "the new brokers hold nothing yet"
    assert sum(total) == 10 + sum(before.values())


def test_topics_that_are_placed_by_one_image_know_of_each_other() -> None:
    surface, place = five(), PlaceForTopics()
    image = surface.image()
    assert image is not None
    rows = [place.placed(bytes([n]) * 16, 1, 1, image, surface.alive) for n in range(6)]
    held = Counter(row.partitions[0][0] for row in rows if isinstance(row, Placed))
    assert held == {3: 3, 4: 3}


# Assignments.


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (assigned((0, (0, 1))), "1, 3 or 5"),
        (assigned((0, ())), "1, 3 or 5"),
        (assigned((0, (3, 3, 0))), "named twice"),
        (assigned((0, (9,))), "broker 9 is not registered"),
        (assigned((0, (0, 3, 4)), (1, (3,))), "a partition has 1 replicas, and others have 3"),
        (assigned((1, (3,)), (2, (3,))), "from 0"),
        (assigned((0, (3,))), "none of the brokers [3] can be reached"),
        (assigned((0, (2,))), "broker 2 waits for a new data folder"),
    ],
)
def test_assignments_that_cannot_be_are_refused_in_words(asked: dict[str, Any], words: str) -> None:
    surface = five()
    surface.dead |= {3}
    surface.brokers[BrokerId(2)] = replace(surface.brokers[BrokerId(2)], replica_uuid=EMPTY_ID)
    got, said = message(surface, **asked)
    assert (got, words in said) == (39, True), said
    assert surface.commands == []


def test_an_assignment_is_kept_in_its_order_whoever_is_away() -> None:
    surface = five()
    surface.dead |= {3}
    asked = assigned((1, (3, 0, 4)), (0, (4, 1, 3)))
    answer = create(surface, {"name": "new", **asked})
    assert (outcome(answer), answer.topics[0].replication_factor) == ([("new", 0)], 3)
    assert placed(surface) == [(4, 1, 3), (3, 0, 4)]
    assert grow(surface, {"name": "new", "count": 3, "assignments": [{"broker_ids": (4,)}]}) == [("new", 39)]
    assert grow(surface, {"name": "new", "count": 3, "assignments": [{"broker_ids": (4, 3, 2)}]}) == [("new", 0)]
    assert placed(surface)[2:] == [(4, 3, 2)]


def test_added_partitions_have_as_many_replicas_as_the_first() -> None:
    surface = five()
    surface.add_topic(topic("one", 1, voters=(4,), first_group=900))
    assert grow(surface, {"name": "one", "count": 4}) == [("one", 0)]
    assert [len(row) for row in placed(surface)] == [1, 1, 1]


def test_more_replicas_are_asked_for_than_a_batch_is_acknowledged_by() -> None:
    """min.insync.replicas is judged by the topic's own factor."""
    surface = five()
    for factor, expected in ((5, 0), (3, 40), (1, 40)):
        three = {"name": "min.insync.replicas", "value": "3"}
        assert message(surface, replication_factor=factor, configs=[three])[0] == expected
        surface.topics.pop("new", None)


# What the log refuses.


def refusing(surface: FakeSurface, times: int) -> None:
    """The log refuses so often what was placed, and then takes it."""
    left = times

    def decide(_: Command) -> CommandResult:
        nonlocal left
        left -= 1
        return WAITS if left >= 0 else CommandResult(0)

    surface.on_command = decide


def test_what_was_placed_on_a_broker_that_left_is_placed_again_by_a_current_image() -> None:
    surface = five()
    refusing(surface, limits.PLACEMENTS_MAX - 1)

    def leaves() -> bool:
        surface.brokers.pop(BrokerId(4), None)
        return True

    surface.on_image_question = leaves
    assert outcome(create(surface, wanted("new", num_partitions=1, replication_factor=1))) == [("new", 0)]
    assert surface.topic_questions == len(surface.commands) - 1 == limits.PLACEMENTS_MAX - 1
    ids = [c.topic_id for c in surface.commands if isinstance(c, CreateTopic)]
    assert len(set(ids)) == len(ids)
    refusing(surface, 1)
    assert grow(surface, {"name": "new", "count": 2}) == [("new", 0)]
    assert all(4 not in row for row in placed(surface)[1:])


def test_it_is_not_placed_again_for_ever_nor_by_an_image_that_may_be_late() -> None:
    surface = five()
    refusing(surface, 99)
    assert message(surface) == (39, WAITS.message)
    assert grow(surface, {"name": "orders", "count": 4}) == [("orders", 39)]
    assert len(surface.commands) == 2 * limits.PLACEMENTS_MAX
    surface.on_image_question = lambda: False
    assert message(surface)[0] == 41
    assert grow(surface, {"name": "orders", "count": 4}) == [("orders", 41)]
    assert len(surface.commands) == 2 * limits.PLACEMENTS_MAX + 2


def test_what_a_client_has_chosen_is_not_chosen_again() -> None:
    surface = five()
    refusing(surface, 1)
    (said,) = create(surface, {"name": "new", **assigned((0, (4,)))}).topics
    assert (code(said.error_code), said.error_message) == (39, WAITS.message)
    refusing(surface, 1)
    by_hand = [{"broker_ids": (4, 0, 1)}]
    assert grow(surface, {"name": "orders", "count": 4, "assignments": by_hand}) == [("orders", 39)]
    assert len(surface.commands) == 2


def test_below_its_level_nothing_is_placed() -> None:
    surface = five()
    surface.feature_level = 2
    answer = create(surface, wanted("new", replication_factor=2), wanted("one", replication_factor=1))
    assert outcome(answer) == [("new", 0), ("one", 0)]
    assert [one.replication_factor for one in answer.topics] == [3, 3]
    assert outcome(create(surface, wanted("far", replication_factor=4))) == [("far", 38)]
    assert outcome(create(surface, {"name": "hand", **assigned((0, (2, 0, 1)))})) == [("hand", 0)]
    assert outcome(create(surface, {"name": "few", **assigned((0, (2,)))})) == [("few", 39)]
    assert grow(surface, {"name": "new", "count": 4}) == [("new", 0)]
    assert placed(surface) == []


# By itself.


def test_a_topic_that_is_made_by_itself_is_placed_or_asked_for_again() -> None:
    surface = five()
    settings = api_settings(auto_create_topics=True, num_partitions=2, replication_factor=5)
    client = KafkaClient(surface, settings=settings)
    four = surface.brokers[BrokerId(4)]
    surface.brokers[BrokerId(4)] = replace(four, replica_uuid=EMPTY_ID)
    ask = {"topics": [{"name": "a"}, {"name": "b"}], "allow_auto_topic_creation": True}
    assert [code(t.error_code) for t in client.ask(Api.METADATA, 9, **ask).topics] == [5, 5]
    assert surface.commands == [], "one of five brokers has no folder now"
    surface.brokers[BrokerId(4)] = four
    client.ask(Api.METADATA, 9, **ask)
    assert [len(set(row)) for row in placed(surface)] == [5] * 4


# Racks.


def test_the_racks_of_brokers_are_told() -> None:
    surface = five()
    surface.brokers[BrokerId(1)] = replace(surface.brokers[BrokerId(1)], rack="")
    surface.dead |= {4}
    client = KafkaClient(surface)
    for version in range(1, 14):
        told = client.ask(Api.METADATA, version, topics=[]).brokers
        assert {one.node_id: one.rack for one in told} == {0: "a", 1: None, 2: "c", 3: "a"}
    for version in range(3):
        more = {"include_fenced_brokers": True} if version >= 2 else {}
        told = client.ask(Api.DESCRIBE_CLUSTER, version, **more).brokers
        assert {one.broker_id: one.rack for one in told if one.broker_id < 4} == {0: "a", 1: None, 2: "c", 3: "a"}
        assert [one.rack for one in told if one.broker_id == 4] == (["b"] if version >= 2 else [])


# Through a broker that has no replica.

OF_A_LOG = (Api.PRODUCE, Api.FETCH, Api.LIST_OFFSETS, Api.OFFSET_FOR_LEADER_EPOCH, Api.DELETE_RECORDS)
TELLS_THE_LEADER = {Api.PRODUCE: 10, Api.FETCH: 16}
"""From these versions on (KIP-951)."""


def elsewhere() -> FakeSurface:
    """The topic "orders" is on brokers 3, 4 and 2, and 3 leads it; this is broker 0."""
    surface = five()
    for partition in surface.topics.pop("orders").partitions:
        surface.logs.pop(partition.group, None)
    surface.add_topic(topic("orders", 3, voters=(3, 4, 2), first_group=800))
    for partition in surface.topics["orders"].partitions:
        surface.elect(partition.group, 3, 7)
    assert not {p.group for p in surface.topics["orders"].partitions} & surface.logs.keys()
    return surface


@pytest.mark.parametrize(("api", "version"), [(api, version) for api, version in SERVED if api in OF_A_LOG])
def test_who_has_no_replica_says_so_and_who_leads_in_every_version(api: int, version: int) -> None:
    answer = KafkaClient(elsewhere()).ask(api, version, **REQUESTS[api])
    assert set(error_codes(answer)) - {0} == {Code.NOT_LEADER_OR_FOLLOWER}, answer
    if version >= TELLS_THE_LEADER.get(Api(api), 99):
        topics = answer.responses
        (partition,) = topics[0].partition_responses if api == Api.PRODUCE else topics[0].partitions
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (3, 7)
        (node,) = answer.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (3, "plaintext-3", 9092, "a")


@pytest.mark.parametrize("version", range(14))
def test_who_has_no_replica_tells_who_leads_and_where_the_replicas_are(version: int) -> None:
    (told,) = KafkaClient(elsewhere()).ask(Api.METADATA, version, topics=[{"name": "orders"}]).topics
    for partition in told.partitions:
        assert (code(partition.error_code), partition.leader_id) == (0, 3)
        assert (partition.replica_nodes, partition.isr_nodes) == ((3, 4, 2), (3, 4, 2))


def test_pages_of_topics_and_folders_tell_the_same() -> None:
    client = KafkaClient(elsewhere())
    (told,) = client.ask(Api.DESCRIBE_TOPIC_PARTITIONS, 0, **REQUESTS[Api.DESCRIBE_TOPIC_PARTITIONS]).topics
    assert {(one.leader_id, one.leader_epoch, one.replica_nodes) for one in told.partitions} == {(3, 7, (3, 4, 2))}
    for version in range(1, 5):
        (folder,) = client.ask(Api.DESCRIBE_LOG_DIRS, version, **REQUESTS[Api.DESCRIBE_LOG_DIRS]).results
        assert [len(one.partitions) for one in folder.topics] == [0], "nothing of it is here"
