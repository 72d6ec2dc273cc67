"""Naming one thing many times makes no answer larger: 60,000 names of one topic, group or partition took its
descriptions 60,000 times, some of them a thousand times as large as the name."""

from typing import Any

import pytest
from muster_coordinator.api.topic_entries import CreatedEntries
from muster_coordinator.groups.requests import (
    DescribeGroup,
    DescribeGroupAnswer,
    FetchedOffset,
    GroupAnswer,
    GroupRequest,
    OffsetFetch,
    OffsetFetchAnswer,
)
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code

TIMES = 1_500
"""More than are looked at in one turn."""


def resource(name: str = "orders", *, kind: int = 2, keys: Any = None) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def described(*resources: dict[str, Any]) -> list[tuple[int, str, list[str]]]:
    """(type, name, names of the configs) of each answered resource."""
    answer = KafkaClient(FakeSurface()).ask(Api.DESCRIBE_CONFIGS, 4, resources=list(resources))
    return [(r.resource_type, r.resource_name, [c.name for c in r.configs]) for r in answer.results]


def test_a_resource_is_described_once_however_often_it_is_named() -> None:
    (once,) = described(resource())
    assert len(once[2]) == 33
    assert described(*[resource()] * TIMES) == [once]
    broker = resource("0", kind=4)
    assert described(*[broker, resource()] * TIMES) == [*described(broker), once]


def test_a_resource_that_is_named_again_for_other_configs_has_all_of_them() -> None:
    size, age, both = ["max.message.bytes"], ["retention.ms"], ["max.message.bytes", "retention.ms"]
    assert described(resource(keys=size), resource(keys=age)) == described(resource(keys=both))
    assert described(resource(keys=size), resource(keys=None)) == described(resource())
    assert described(resource(keys=[]), resource(keys=size)) == described(resource(keys=[]))


def test_resources_of_one_name_and_of_different_types_are_two() -> None:
    assert [kind for kind, _, _ in described(resource("0", kind=4), resource("0", kind=8))] == [4, 8]


class Groups(FakeSurface):
    """Answers what it is asked for, and counts it."""

    def __init__(self) -> None:
        super().__init__()
        self.on_group = self.answered
        self.asked: list[GroupRequest] = []

    def answered(self, request: GroupRequest) -> GroupAnswer:
        self.asked.append(request)
        if isinstance(request, DescribeGroup):
            return DescribeGroupAnswer(error=0, group=request.group, state="Empty")
        assert isinstance(request, OffsetFetch)
        topics = (("orders", (0, 1)),) if request.topics is None else request.topics
        found = [(name, tuple(FetchedOffset(p, 7, -1, "m" * 4_096, 0) for p in numbers)) for name, numbers in topics]
        return OffsetFetchAnswer(0, tuple(found), False)


@pytest.mark.parametrize("version", [0, VERSIONS[Api.DESCRIBE_GROUPS].max])
def test_a_group_is_described_once_however_often_it_is_named(version: int) -> None:
    surface = Groups()
    answer = KafkaClient(surface).ask(Api.DESCRIBE_GROUPS, version, groups=["a", "b"] * TIMES)
    assert [group.group_id for group in answer.groups] == ["a", "b"]
    assert len(surface.asked) == 2


def fetched(surface: FakeSurface, *groups: tuple[str, Any]) -> list[tuple[str, list[tuple[str, list[int]]]]]:
    asked = [
        {
            "group_id": group,
            "topics": topics and [{"name": name, "partition_indexes": numbers} for name, numbers in topics],
        }
        for group, topics in groups
    ]
    answer = KafkaClient(surface).ask(Api.OFFSET_FETCH, 8, groups=asked)
    assert {code(group.error_code) for group in answer.groups} == {0}
    return [
        (g.group_id, [(t.name, [p.partition_index for p in t.partitions]) for t in g.topics]) for g in answer.groups
    ]


def test_the_offsets_of_a_group_are_told_once_however_often_it_is_named() -> None:
    surface = Groups()
    assert fetched(surface, *[("a", None), ("b", [("orders", [2])])] * TIMES) == [
        ("a", [("orders", [0, 1])]),
        ("b", [("orders", [2])]),
    ]
    assert len(surface.asked) == 2


def test_a_group_that_is_named_again_for_other_partitions_has_all_of_them() -> None:
    twice = (("g", [("orders", [0]), ("__consumer_offsets", [3])]), ("g", [("orders", [1, 0])]))
    assert fetched(Groups(), *twice) == [("g", [("orders", [0, 1]), ("__consumer_offsets", [3])])]
    assert fetched(Groups(), *twice, ("g", None)) == fetched(Groups(), ("g", None))


def test_a_partition_is_told_once_however_often_it_is_named() -> None:
    once = [("g", [("orders", [1, 0])])]
    assert fetched(Groups(), ("g", [("orders", [1, 0] * TIMES)])) == once
    assert fetched(Groups(), ("g", [("orders", [1]), ("orders", [0, 1])] * TIMES)) == once


@pytest.mark.parametrize("version", [1, 7])
def test_a_partition_is_told_once_before_several_groups_could_be_asked_for(version: int) -> None:
    topics = [{"name": "orders", "partition_indexes": [1, 0] * TIMES}]
    answer = KafkaClient(Groups()).ask(Api.OFFSET_FETCH, version, group_id="g", topics=topics)
    assert [[p.partition_index for p in topic.partitions] for topic in answer.topics] == [[1, 0]]


QUORUM = "__cluster_metadata"


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([(QUORUM, [0])], [0]),
        ([(QUORUM, [0, 0])], [3, 3]),
        ([(QUORUM, [0]), (QUORUM, [0])], [3, 3]),
        ([(QUORUM, [0]), ("orders", [0])], [3, 3]),
        ([(QUORUM, [1])], [3]),
    ],
)
def test_a_quorum_is_described_to_who_asks_for_it_alone(topics: list[Any], expected: list[int]) -> None:
    """As Kafka does: the voters of one partition are 20 times what names it."""
    asked = [{"topic_name": name, "partitions": [{"partition_index": n} for n in numbers]} for name, numbers in topics]
    answer = KafkaClient(FakeSurface()).ask(Api.DESCRIBE_QUORUM, 1, topics=asked)
    told = [one for topic in answer.topics for one in topic.partitions]
    assert [code(one.error_code) for one in told] == expected
    assert [len(one.current_voters) for one in told] == [3 if code(one.error_code) == 0 else 0 for one in told]


def test_the_configs_of_created_topics_are_made_once_where_they_are_equal() -> None:
    """33 entries for a name of 5 characters: those of 10,000 topics took 80 MB."""
    image = FakeSurface().image()
    assert image is not None
    entries = CreatedEntries({})
    five, six = (("retention.ms", "5"),), (("retention.ms", "6"),)
    assert entries.of(five, 3, image) is entries.of(five, 3, image)
    assert entries.of(six, 3, image) != entries.of(five, 3, image)
    topics = [
        {
            "name": f"t{ms}",
            "num_partitions": 1,
            "replication_factor": -1,
            "configs": [{"name": "retention.ms", "value": ms}],
        }
        for ms in ("5", "6")
    ]
    answer = KafkaClient(FakeSurface()).ask(Api.CREATE_TOPICS, 5, topics=topics, validate_only=True, timeout_ms=1_000)
    shown = [{c.name: c.value for c in topic.configs}["retention.ms"] for topic in answer.topics]
    assert shown == ["5", "6"]
