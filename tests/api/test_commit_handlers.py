"""OffsetCommit, OffsetFetch, OffsetDelete at the API layer (protocol notes 4.1; decisions 26, 27)."""

from typing import Any
from uuid import UUID

import pytest
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.controller.image import EMPTY_ID
from muster_coordinator.groups.requests import (
    FetchedOffset,
    GroupAnswer,
    GroupRequest,
    OffsetCommit,
    OffsetCommitAnswer,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
)
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, topic
from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings

ORDERS_ID = b"orders----------"
NONE_MODE = api_settings(topics_mode=TopicsMode.NONE)


def committed(request: GroupRequest) -> GroupAnswer:
    assert isinstance(request, OffsetCommit)
    return OffsetCommitAnswer(tuple((t.topic, tuple((p.partition, 0) for p in t.partitions)) for t in request.topics))


def commit_topics(*wanted: tuple[str, tuple[int, ...]], topic_id: UUID | None = None) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "topic_id": topic_id,
            "partitions": [
                {"partition_index": p, "committed_offset": 10 + p, "committed_metadata": "n"} for p in parts
            ],
        }
        for name, parts in wanted
    ]


def errors(answer: Any) -> list[tuple[Any, list[tuple[int, int]]]]:
    return [
        (getattr(t, "name", None) or t.topic_id, [(p.partition_index, code(p.error_code)) for p in t.partitions])
        for t in answer.topics
    ]


def only_request(surface: FakeSurface) -> Any:
    assert len(surface.group_requests) == 1
    return surface.group_requests[0][1]


@pytest.mark.parametrize("version", range(2, 10))
def test_a_commit_carries_the_topics_id(version: int) -> None:
    surface = FakeSurface()
    surface.on_group = committed
    answer = KafkaClient(surface).ask(
        Api.OFFSET_COMMIT, version, group_id="test", member_id="m", topics=commit_topics(("orders", (0, 1)))
    )
    assert errors(answer) == [("orders", [(0, 0), (1, 0)])]
    request = only_request(surface)
    assert [(t.topic, t.topic_id) for t in request.topics] == [("orders", ORDERS_ID)]
    assert [(p.partition, p.offset, p.metadata) for p in request.topics[0].partitions] == [(0, 10, "n"), (1, 11, "n")]


@pytest.mark.parametrize("version", [2, 9])
def test_unknown_topics_and_partitions_get_3_and_the_others_commit(version: int) -> None:
    surface = FakeSurface()
    surface.on_group = committed
    topics = commit_topics(("nope", (0,)), ("orders", (7, 0, -1)))
    answer = KafkaClient(surface).ask(Api.OFFSET_COMMIT, version, group_id="g", topics=topics)
    assert errors(answer) == [("nope", [(0, 3)]), ("orders", [(7, 3), (0, 0), (-1, 3)])]
    assert [p.partition for p in only_request(surface).topics[0].partitions] == [0]


def test_a_topic_that_was_created_elsewhere_just_now_is_waited_for() -> None:
    surface = FakeSurface()
    surface.on_group = committed

    def late() -> bool:
        surface.add_topic(topic("fresh", 1))
        return True

    surface.on_image_question = late
    topics = commit_topics(("fresh", (0, 1)), ("orders", (0,)))
    answer = KafkaClient(surface).ask(Api.OFFSET_COMMIT, 9, group_id="g", topics=topics)
    assert errors(answer) == [("fresh", [(0, 0), (1, 3)]), ("orders", [(0, 0)])]
    assert surface.image_questions == 1


@pytest.mark.parametrize("version", [9, 10])
def test_a_topic_is_not_called_unknown_by_a_replica_that_may_be_late(version: int) -> None:
    """15 is tried again; 3 ends a Java consumer."""
    surface = FakeSurface()
    surface.on_group = committed
    surface.on_image_question = lambda: False
    if version == 10:
        known, unknown = UUID(bytes=ORDERS_ID), UUID(int=3)
        topics = commit_topics(("", (0, 9)), topic_id=known) + commit_topics(("", (0,)), topic_id=unknown)
        answer = KafkaClient(surface).ask(Api.OFFSET_COMMIT, 10, group_id="g", topics=topics)
        assert errors(answer) == [(known, [(0, 0), (9, 15)]), (unknown, [(0, 15)])]
    else:
        topics = commit_topics(("nope", (0,)), ("orders", (7, 0)))
        answer = KafkaClient(surface).ask(Api.OFFSET_COMMIT, 9, group_id="g", topics=topics)
        assert errors(answer) == [("nope", [(0, 15)]), ("orders", [(7, 15), (0, 0)])]


def test_known_and_forbidden_topics_ask_nobody() -> None:
    surface = FakeSurface()
    surface.on_group = committed
    surface.on_image_question = lambda: pytest.fail("asked")
    KafkaClient(surface).ask(Api.OFFSET_COMMIT, 9, group_id="g", topics=commit_topics(("orders", (0,))))
    denied = KafkaClient(surface, authorize=lambda _context, _operation, resource: resource.name != "orders")
    answer = denied.ask(Api.OFFSET_COMMIT, 9, group_id="g", topics=commit_topics(("orders", (0,))))
    assert errors(answer) == [("orders", [(0, 29)])]


def test_with_nothing_left_the_coordinator_is_not_asked() -> None:
    surface = FakeSurface()
    answer = KafkaClient(surface).ask(Api.OFFSET_COMMIT, 8, group_id="g", topics=commit_topics(("nope", (0, 1))))
    assert errors(answer) == [("nope", [(0, 3), (1, 3)])]
    assert surface.group_requests == []
    assert KafkaClient(surface).ask(Api.OFFSET_COMMIT, 8, group_id="g", topics=[]).topics == ()


def test_v10_names_topics_by_id_both_ways() -> None:
    surface = FakeSurface()
    surface.on_group = committed
    known, unknown = UUID(bytes=ORDERS_ID), UUID(int=3)
    topics = commit_topics(("", (0, 9)), topic_id=known) + commit_topics(("", (0,)), topic_id=unknown)
    answer = KafkaClient(surface).ask(Api.OFFSET_COMMIT, 10, group_id="g", topics=topics)
    assert errors(answer) == [(known, [(0, 0), (9, 3)]), (unknown, [(0, 100)])]
    assert only_request(surface).topics[0].topic == "orders"


def test_where_topics_are_not_ours_any_name_commits_without_an_id() -> None:
    surface = FakeSurface()
    surface.on_group = committed
    client = KafkaClient(surface, settings=NONE_MODE)
    answer = client.ask(Api.OFFSET_COMMIT, 8, group_id="g", topics=commit_topics(("anything", (500,))))
    assert errors(answer) == [("anything", [(500, 0)])]
    assert only_request(surface).topics[0].topic_id == EMPTY_ID


def test_a_shards_refusal_is_on_every_partition_that_reached_it() -> None:
    answer = KafkaClient(FakeSurface()).ask(
        Api.OFFSET_COMMIT, 8, group_id="g", topics=commit_topics(("orders", (0, 1, 9)))
    )
    assert errors(answer) == [("orders", [(0, 16), (1, 16), (9, 3)])]


# -- OffsetFetch


def offsets(request: GroupRequest) -> GroupAnswer:
    assert isinstance(request, OffsetFetch)
    topics = (("orders", (0, 1)), ("vanished", (0,))) if request.topics is None else request.topics
    return OffsetFetchAnswer(
        0, tuple((name, tuple(FetchedOffset(p, 40 + p, 3, "note", 0) for p in parts)) for name, parts in topics)
    )


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_before_v8(version: int) -> None:
    surface = FakeSurface()
    surface.on_group = offsets
    answer = KafkaClient(surface).ask(
        Api.OFFSET_FETCH, version, group_id="g", topics=[{"name": "orders", "partition_indexes": [0, 2]}]
    )
    (topic,) = answer.topics
    assert topic.name == "orders"
    assert [(p.partition_index, p.committed_offset, p.metadata) for p in topic.partitions] == [
        (0, 40, "note"),
        (2, 42, "note"),
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_a_group_error_is_where_the_version_has_a_place_for_it(version: int) -> None:
    """v1 has none, so every partition says it (KAFKA-19246)."""
    answer = KafkaClient(FakeSurface()).ask(
        Api.OFFSET_FETCH, version, group_id="g", topics=[{"name": "orders", "partition_indexes": [0, 1]}]
    )
    if version == 1:
        partitions = answer.topics[0].partitions
        assert [(p.committed_offset, code(p.error_code)) for p in partitions] == [(-1, 16), (-1, 16)]
    else:
        assert (code(answer.error_code), answer.topics) == (16, ())


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_since_v8_in_order(version: int) -> None:
    surface = FakeSurface()

    def answer_by_group(request: GroupRequest) -> GroupAnswer:
        assert isinstance(request, OffsetFetch)
        return OffsetFetchAnswer(16, ()) if request.group == "elsewhere" else offsets(request)

    surface.on_group = answer_by_group
    groups = [
        {"group_id": "elsewhere", "topics": None},
        {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [1]}]},
    ]
    answer = KafkaClient(surface).ask(Api.OFFSET_FETCH, version, groups=groups, require_stable=True)
    assert [(g.group_id, code(g.error_code)) for g in answer.groups] == [("elsewhere", 16), ("g", 0)]
    assert answer.groups[1].topics[0].partitions[0].committed_offset == 41
    assert all(isinstance(r, OffsetFetch) and r.require_stable for _, r, _ in surface.group_requests)


@pytest.mark.parametrize("version", range(2, 8))
def test_null_topics_ask_for_all(version: int) -> None:
    surface = FakeSurface()
    surface.on_group = offsets
    answer = KafkaClient(surface).ask(Api.OFFSET_FETCH, version, group_id="g", topics=None)
    assert only_request(surface).topics is None
    assert [t.name for t in answer.topics] == ["orders", "vanished"]


def test_v10_by_id_unknown_ones_100_and_all_topics_only_those_that_exist() -> None:
    surface = FakeSurface()
    surface.on_group = offsets
    client = KafkaClient(surface)
    known, unknown = UUID(bytes=ORDERS_ID), UUID(int=3)
    asked = [{"topic_id": unknown, "partition_indexes": [5]}, {"topic_id": known, "partition_indexes": [1]}]
    groups = [{"group_id": "g", "topics": asked}, {"group_id": "h", "topics": None}]
    answer = client.ask(Api.OFFSET_FETCH, 10, groups=groups)
    found = {
        t.topic_id: [(p.committed_offset, code(p.error_code)) for p in t.partitions] for t in answer.groups[0].topics
    }
    assert found == {known: [(41, 0)], unknown: [(-1, 100)]}
    assert [t.topic_id for t in answer.groups[1].topics] == [known]


def test_a_topic_that_does_not_exist_may_be_fetched() -> None:
    surface = FakeSurface()
    surface.on_group = offsets
    asked = [{"name": "nope", "partition_indexes": [0]}]
    answer = KafkaClient(surface).ask(Api.OFFSET_FETCH, 5, group_id="g", topics=asked)
    assert [t.name for t in answer.topics] == ["nope"]


# -- OffsetDelete


def test_offset_delete_checks_topics_and_asks_for_the_rest() -> None:
    surface = FakeSurface()

    def answer(request: GroupRequest) -> GroupAnswer:
        assert isinstance(request, OffsetDelete)
        assert request.topics == (("orders", (0, 1)),)
        return OffsetDeleteAnswer(0, (("orders", ((0, 0), (1, 86))),))

    surface.on_group = answer
    said = KafkaClient(surface).ask(
        Api.OFFSET_DELETE,
        0,
        group_id="g",
        topics=[
            {"name": "nope", "partitions": [{"partition_index": 0}]},
            {"name": "orders", "partitions": [{"partition_index": p} for p in (0, 9, 1)]},
        ],
    )
    assert code(said.error_code) == 0
    assert errors(said) == [("nope", [(0, 3)]), ("orders", [(0, 0), (9, 3), (1, 86)])]


def test_offset_delete_says_the_groups_error_even_with_no_topic_left() -> None:
    surface = FakeSurface()
    surface.on_group = lambda _: OffsetDeleteAnswer(69, ())
    said = KafkaClient(surface).ask(
        Api.OFFSET_DELETE, 0, group_id="g", topics=[{"name": "nope", "partitions": [{"partition_index": 0}]}]
    )
    assert (code(said.error_code), said.topics) == (69, ())
