"""DescribeLogDirs, DescribeQuorum, ElectLeaders, ListTransactions, DescribeClientQuotas: the truth or the proper no."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.api import limits
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.ids import BrokerId, GroupNo, member_no
from muster_coordinator.raft.quorum import Config
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings

QUORUM = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}

# -- DescribeLogDirs


def log_dirs(surface: FakeSurface, topics: Any, version: int) -> Any:
    client = KafkaClient(surface, settings=api_settings(broker_configs=(("log.dirs", "/data"),)))
    (result,) = client.ask(Api.DESCRIBE_LOG_DIRS, version, topics=topics).results
    assert (code(result.error_code), result.log_dir) == (0, "/data")
    if version >= 4:
        assert (result.total_bytes, result.usable_bytes) == (-1, 5_000_000)
    return {t.name: [(p.partition_index, p.partition_size) for p in t.partitions] for t in result.topics}


@pytest.mark.parametrize("version", range(1, 5))
def test_the_data_folder_lists_what_lies_here_with_its_size(version: int) -> None:
    surface = FakeSurface()
    surface.log_of("orders", 0).append(b"0123456789")
    assert log_dirs(surface, None, version) == {OFFSETS_TOPIC: [(0, 0), (3, 0)], "orders": [(0, 10)]}
    asked = [{"topic": "orders", "partitions": [0, 1, 7, -1, 0]}, {"topic": "nope", "partitions": [0]}]
    assert log_dirs(surface, [*asked, {"topic": "orders", "partitions": [0]}], version) == {"orders": [(0, 10)]}
    assert log_dirs(surface, [], version) == {}


# -- DescribeQuorum


def quorum(surface: FakeSurface, version: int, topic: dict[str, Any] = QUORUM) -> Any:
    answer = KafkaClient(surface).ask(Api.DESCRIBE_QUORUM, version, topics=[topic])
    assert code(answer.error_code) == 0
    if version >= 2:
        assert [(n.node_id, [x.host for x in n.listeners]) for n in answer.nodes][1] == (1, ["plaintext-1"])
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(3))
def test_a_follower_tells_of_the_quorum_what_it_knows(version: int) -> None:
    got = quorum(FakeSurface(), version)
    assert (code(got.error_code), got.leader_id, got.leader_epoch, got.high_watermark) == (0, 1, 2, 42)
    assert [(v.replica_id, v.log_end_offset) for v in got.current_voters] == [(0, 43), (1, 43), (2, -1)]
    assert got.observers == ()
    if version >= 2:
        assert got.current_voters[1].replica_directory_id.bytes == bytes([1]) * 15 + b"u"


@pytest.mark.parametrize("version", range(3))
def test_the_leader_tells_how_far_every_voter_is(version: int) -> None:
    surface = FakeSurface()
    match = {BrokerId(0): 42, BrokerId(1): 42, BrokerId(2): 17}
    surface.statuses[0] = surface.statuses[0]._replace(role="leader", match=match)
    got = quorum(surface, version)
    assert [(v.replica_id, v.log_end_offset) for v in got.current_voters] == [(0, 43), (1, 43), (2, 18)]


def test_observers_are_told_apart_from_voters_and_a_new_folder_of_a_voter_is_none() -> None:
    surface = FakeSurface()
    match = {BrokerId(0): 42, BrokerId(1): 42, BrokerId(2): 17, BrokerId(7): 40}
    config = Config((0, 1, 2), (), (member_no(BrokerId(2), 1), 7, 8))
    surface.statuses[0] = surface.statuses[0]._replace(role="leader", match=match, config=config)
    got = quorum(surface, 1)
    assert [v.replica_id for v in got.current_voters] == [0, 1, 2]
    assert [(v.replica_id, v.log_end_offset) for v in got.observers] == [(7, 41), (8, -1)]


def test_other_quorums_do_not_exist_and_one_without_leader_says_so() -> None:
    surface = FakeSurface()
    other = {"topic_name": "orders", "partitions": [{"partition_index": 0}]}
    assert code(quorum(surface, 1, other).error_code) == 3
    assert code(quorum(surface, 1, {**QUORUM, "partitions": [{"partition_index": 1}]}).error_code) == 3
    surface.leaders[0] = surface.leaders[0]._replace(leader=None)
    assert code(quorum(surface, 1).error_code) == 5


def test_before_the_cluster_is_formed_the_quorum_is_not_there_yet() -> None:
    surface = FakeSurface()
    surface.formed = False
    answer = KafkaClient(surface).ask(Api.DESCRIBE_QUORUM, 1, topics=[QUORUM])
    assert (code(answer.error_code), answer.topics) == (5, ())


# -- ElectLeaders


def elect(
    surface: FakeSurface, partitions: Any, version: int = 2, election: int = 0, *, timeout_ms: int = 1_000
) -> dict[str, list[tuple[int, int]]]:
    client = KafkaClient(surface)
    client.send(Api.ELECT_LEADERS, version, election_type=election, topic_partitions=partitions, timeout_ms=timeout_ms)
    began_ms = surface.fake_loop.now_ms
    while not (answers := client.receive()):
        assert surface.fake_loop.now_ms - began_ms <= min(timeout_ms, limits.ELECTION_MS_MAX)
        surface.fake_loop.run(1)
    (answer,) = answers
    if version >= 1:
        assert code(answer.error_code) == 0
    return {
        r.topic: [(p.partition_id, code(p.error_code)) for p in r.partition_result]
        for r in answer.replica_election_results
    }


def hands_over(surface: FakeSurface, after_ms: int = 30) -> None:
    """Leaders do what they are asked for."""
    preferred = {part.group: part.preferred for topic in surface.topics.values() for part in topic.partitions}

    def elected(group: GroupNo) -> None:
        now_ms = surface.fake_loop.now_ms
        surface.fake_loop.call_at(now_ms + after_ms, lambda: surface.elect(group, preferred[group], 9))

    surface.on_election = elected


ASKED = [{"topic": "orders", "partitions": [0, 1, 9, -1]}, {"topic": "nope", "partitions": [0]}]


@pytest.mark.parametrize("version", range(3))
def test_an_election_is_not_needed_or_held(version: int) -> None:
    """The preferred leaders of the Raft groups 100 to 102 are 1, 2 and 0; the leaders are 0, 1 and 2."""
    surface = FakeSurface()
    surface.elect(100, 1, 4)
    hands_over(surface)
    assert elect(surface, ASKED, version) == {"orders": [(0, 84), (1, 0), (9, 3), (-1, 3)], "nope": [(0, 3)]}
    assert surface.elections_wanted == [101]


def test_a_leader_that_does_not_hand_over_is_asked_each_second_until_the_time_is_up() -> None:
    surface = FakeSurface()
    began_ms = surface.fake_loop.now_ms
    assert elect(surface, ASKED[:1], timeout_ms=3_500)["orders"] == [(0, 80), (1, 80), (9, 3), (-1, 3)]
    assert surface.fake_loop.now_ms - began_ms == 3_500
    assert surface.elections_wanted == [100, 101] * 4

    surface.elections_wanted.clear()
    elect(surface, ASKED[:1], timeout_ms=2**31 - 1)
    assert surface.fake_loop.now_ms - began_ms == 3_500 + limits.ELECTION_MS_MAX


def test_some_are_elected_and_some_are_not() -> None:
    surface = FakeSurface()
    hands_over(surface)
    elected = surface.on_election
    surface.on_election = lambda group: elected(group) if group == 100 else None
    assert elect(surface, ASKED[:1])["orders"] == [(0, 0), (1, 80), (9, 3), (-1, 3)]


@pytest.mark.parametrize("why", ["away", "drains", "no leader", "level", "no time"])
def test_where_nobody_could_take_over_nobody_is_asked(why: str) -> None:
    surface = FakeSurface()
    hands_over(surface)
    match why:
        case "away":
            surface.dead = {BrokerId(2)}
        case "drains":
            surface.brokers[BrokerId(2)] = replace(surface.brokers[BrokerId(2)], draining=True)
        case "no leader":
            surface.leaders[101] = surface.leaders[101]._replace(leader=None)
        case "level":
            surface.feature_level = 2
    asked = [{"topic": "orders", "partitions": [1]}]
    assert elect(surface, asked, timeout_ms=0 if why == "no time" else 1_000) == {"orders": [(1, 80)]}
    assert surface.elections_wanted == []


def test_of_all_partitions_those_are_told_that_lack_the_leader_they_should_have() -> None:
    surface = FakeSurface()
    for topic in surface.topics.values():
        for partition in topic.partitions:
            surface.elect(partition.group, partition.preferred, 5)
    assert elect(surface, None) == {}
    surface.elect(101, 0, 6)
    assert elect(surface, None) == {"orders": [(1, 80)]}
    hands_over(surface)
    assert elect(surface, None) == {"orders": [(1, 0)]}


def test_no_unclean_leader_is_ever_elected() -> None:
    surface = FakeSurface()
    surface.leaders[101] = surface.leaders[101]._replace(leader=None)
    asked = [{"topic": "orders", "partitions": [0, 1]}]
    assert elect(surface, asked, election=1) == {"orders": [(0, 84), (1, 83)]}


def test_an_unknown_kind_of_election_is_42() -> None:
    asked = [{"topic": "orders", "partitions": [0]}]
    answer = KafkaClient(FakeSurface()).ask(Api.ELECT_LEADERS, 2, election_type=9, topic_partitions=asked)
    assert code(answer.error_code) == 42
    assert code(answer.replica_election_results[0].partition_result[0].error_code) == 42


# -- ListTransactions, DescribeClientQuotas


@pytest.mark.parametrize("version", range(2))
def test_there_are_no_transactions_and_unknown_states_are_told_back(version: int) -> None:
    states = ["Ongoing", "Odd", "Odd"]
    answer = KafkaClient(FakeSurface()).ask(Api.LIST_TRANSACTIONS, version, state_filters=states)
    assert (code(answer.error_code), answer.unknown_state_filters, answer.transaction_states) == (0, ("Odd",), ())


def component(kind: str, match_type: int = 2, match: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": match_type, "match": match}


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("components", "expected"),
    [
        ((), 0),
        ((component("user"), component("client-id", 0, "me")), 0),
        ((component("ip", 1),), 0),
        ((component("user"), component("user")), 42),
        ((component(""),), 42),
        ((component("user", 3),), 42),
        ((component("ip"), component("user")), 42),
        ((component("planet"),), 35),
    ],
)
def test_there_are_no_quotas_and_odd_filters_are_refused(version: int, components: Any, expected: int) -> None:
    client = KafkaClient(FakeSurface())
    answer = client.ask(Api.DESCRIBE_CLIENT_QUOTAS, version, components=components, strict=True)
    assert (code(answer.error_code), answer.entries) == (expected, None if expected else ())
