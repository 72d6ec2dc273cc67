"""ApiVersions, DescribeCluster, DescribeTopicPartitions, InitProducerId."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.api.fake_surface import CLUSTER_ID, FakeSurface, topic
from tests.api.kafka_client import KafkaClient, code

# -- ApiVersions


@pytest.mark.parametrize("version", range(5))
def test_apiversions_lists_the_table_and_the_feature_level(version: int) -> None:
    surface = FakeSurface()
    surface.brokers[BrokerId(0)] = replace(surface.brokers[BrokerId(0)], feature_max=4)
    client = KafkaClient(surface)
    answer = client.ask(Api.API_VERSIONS, version, client_software_name="a.b-c", client_software_version="1")
    assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [
        (int(api), v.advertised_min, v.max) for api, v in sorted(VERSIONS.items())
    ]
    if version >= 3:
        (supported, of_transactions), (finalized, newer) = answer.supported_features, answer.finalized_features
        assert (of_transactions.name, of_transactions.min_version, of_transactions.max_version) == (
            "transaction.version",
            1,
            2,
        )
        assert (newer.name, newer.max_version_level) == ("transaction.version", 2)
        assert (supported.name, supported.min_version, supported.max_version) == ("muster.feature.level", 1, 4)
        assert (finalized.name, finalized.min_version_level, finalized.max_version_level) == (supported.name, 3, 3)
        assert answer.finalized_features_epoch == 9


@pytest.mark.parametrize("version", [3, 4])
def test_apiversions_tells_no_feature_level_that_it_does_not_know(version: int) -> None:
    surface = FakeSurface()
    del surface.brokers[0]
    for formed in (True, False):
        surface.formed = formed
        asked = {"client_software_name": "a", "client_software_version": "1"}
        answer = KafkaClient(surface).ask(Api.API_VERSIONS, version, **asked)
        assert (answer.supported_features, answer.finalized_features) == ((), ())
        assert (answer.finalized_features_epoch, len(answer.api_keys)) == (-1, len(VERSIONS))


@pytest.mark.parametrize("name", ["", "-a", "a-", ".a", "a b", "a\n", "ä", "a_b"])
@pytest.mark.parametrize("version", [3, 4])
def test_a_bad_software_name_is_42_with_nothing_listed(version: int, name: str) -> None:
    client = KafkaClient(FakeSurface())
    for named in ((name, "1"), ("a", name)):
        asked = dict(zip(("client_software_name", "client_software_version"), named, strict=True))
        answer = client.ask(Api.API_VERSIONS, version, **asked)
        assert (code(answer.error_code), answer.api_keys) == (42, ())


# -- DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(version: int) -> None:
    answer = KafkaClient(FakeSurface(), listener="EXTERNAL").ask(Api.DESCRIBE_CLUSTER, version)
    assert (code(answer.error_code), answer.cluster_id, answer.controller_id) == (0, CLUSTER_ID, 1)
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [(n, f"external-{n}", 9093) for n in range(3)]


@pytest.mark.parametrize(("endpoint", "expected"), [(1, 0), (2, 114), (0, 115), (9, 115)])
def test_only_brokers_are_described(endpoint: int, expected: int) -> None:
    answer = KafkaClient(FakeSurface()).ask(Api.DESCRIBE_CLUSTER, 1, endpoint_type=endpoint)
    assert code(answer.error_code) == expected


def test_fenced_brokers_only_when_asked() -> None:
    surface = FakeSurface()
    surface.dead.add(2)
    client = KafkaClient(surface)
    plain = client.ask(Api.DESCRIBE_CLUSTER, 2)
    fenced = client.ask(Api.DESCRIBE_CLUSTER, 2, include_fenced_brokers=True)
    assert [(b.broker_id, b.is_fenced) for b in plain.brokers] == [(0, False), (1, False)]
    assert [(b.broker_id, b.is_fenced) for b in fenced.brokers] == [(0, False), (1, False), (2, True)]


# -- DescribeTopicPartitions


def described(answer: Any) -> list[tuple[str, int, list[int]]]:
    return [(t.name, code(t.error_code), [p.partition_index for p in t.partitions]) for t in answer.topics]


def ask(surface: FakeSurface, *names: str, limit: int = 2_000, cursor: Any = None) -> Any:
    return KafkaClient(surface).ask(
        Api.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )


def test_topics_come_by_name_and_empty_means_all() -> None:
    surface = FakeSurface()
    surface.add_topic(topic("a", 1, first_group=300))
    assert described(ask(surface, "orders", "a")) == [("a", 0, [0]), ("orders", 0, [0, 1, 2])]
    assert [name for name, _, _ in described(ask(surface))] == ["__consumer_offsets", "a", "orders"]


def test_unknown_and_bad_names() -> None:
    assert described(ask(FakeSurface(), "nope", "b/d")) == [("b/d", 17, []), ("nope", 3, [])]


def test_pages_lead_through_everything_once() -> None:
    surface = FakeSurface()
    surface.add_topic(topic("a", 4, first_group=300))
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(20):
        answer = ask(surface, limit=3, cursor=cursor)
        page = [(name, p) for name, _, parts in described(answer) for p in parts]
        assert len(page) <= 3
        seen += page
        if answer.next_cursor is None:
            break
        cursor = {"topic_name": answer.next_cursor.topic_name, "partition_index": answer.next_cursor.partition_index}
    expected = [(n, p) for n, count in (("__consumer_offsets", 4), ("a", 4), ("orders", 3)) for p in range(count)]
    assert seen == expected


def test_a_cursor_for_a_topic_that_was_not_asked_for_is_42() -> None:
    answer = ask(FakeSurface(), "orders", cursor={"topic_name": "elsewhere", "partition_index": 0})
    assert described(answer)[0][:2] == ("elsewhere", 42)


def test_a_limit_below_one_counts_as_one() -> None:
    answer = ask(FakeSurface(), "orders", limit=-5)
    assert described(answer) == [("orders", 0, [0])]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("orders", 1)


def test_leaders_and_replicas_are_those_of_metadata() -> None:
    surface = FakeSurface()
    surface.dead.add(1)
    partitions = ask(surface, "orders").topics[0].partitions
    assert [(p.leader_id, code(p.error_code), p.leader_epoch) for p in partitions] == [(0, 0, 3), (-1, 5, 3), (2, 0, 3)]
    assert [(p.isr_nodes, p.offline_replicas) for p in partitions] == [((0, 2), (1,))] * 3
    assert all(p.eligible_leader_replicas == () for p in partitions), "null breaks the Java admin client"


# -- InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_a_fresh_id_with_epoch_0(version: int) -> None:
    answer = KafkaClient(FakeSurface()).ask(Api.INIT_PRODUCER_ID, version, transactional_id=None)
    assert (code(answer.error_code), answer.producer_id, answer.producer_epoch) == (0, 4_000, 0)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"transactional_id": "tx", "producer_id": 5, "producer_epoch": -1}, 42),
        ({"transactional_id": None, "producer_id": 5, "producer_epoch": -1}, 42),
        ({"transactional_id": None, "producer_id": -1, "producer_epoch": 3}, 42),
        ({"transactional_id": None, "producer_id": 5, "producer_epoch": 3}, 0),
    ],
)
def test_producer_ids_that_are_refused(asked: dict[str, Any], expected: int) -> None:
    answer = KafkaClient(FakeSurface()).ask(Api.INIT_PRODUCER_ID, 4, **asked)
    assert code(answer.error_code) == expected
    assert answer.producer_id == (4_000 if expected == 0 else -1)


def test_before_the_first_block_of_ids_it_is_14() -> None:
    surface = FakeSurface()
    surface.producer = -1
    assert code(KafkaClient(surface).ask(Api.INIT_PRODUCER_ID, 4, transactional_id=None).error_code) == 14
