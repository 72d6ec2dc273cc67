"""DeleteTopics (protocol notes 15)."""

from uuid import UUID

import pytest
from muster_coordinator.controller.commands import CommandResult, DeleteTopic
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code
from tests.api.topic_requests import ORDERS_ID, delete, grow
from tests.made_settings import api_settings


@pytest.mark.parametrize("version", range(1, 7))
def test_a_name_that_is_empty_is_a_name(version: int) -> None:
    """Versions below 6 have no null in its place: the answer could not be written."""
    assert delete(FakeSurface(), version, "") == [("", 3)]
    assert delete(FakeSurface(), version, "", "") == [("", 42)]


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name(version: int) -> None:
    surface = FakeSurface()
    assert delete(surface, version, "orders", "nope") == [("orders", 0), ("nope", 3)]
    assert surface.commands == [DeleteTopic(topic_id=ORDERS_ID)]


def test_topics_are_deleted_by_id_since_v6() -> None:
    surface = FakeSurface()
    topics = [
        {"name": None, "topic_id": UUID(bytes=ORDERS_ID)}, {"name": None, "topic_id": UUID(int=4)},
        {"name": "orders", "topic_id": UUID(bytes=ORDERS_ID)}, {"name": None},
    ]  # fmt: skip
    answer = KafkaClient(surface).ask(Api.DELETE_TOPICS, 6, topics=topics, timeout_ms=1_000)
    assert [code(r.error_code) for r in answer.responses] == [0, 100, 42, 42]
    assert answer.responses[0].name == "orders"
    assert len(surface.commands) == 1


@pytest.mark.parametrize("named", [True, False], ids=["name", "id"])
def test_a_topic_that_goes_before_the_command_is_unknown_by_what_it_was_asked_for(named: bool) -> None:
    """The command names the topic by its id, whoever asked by its name hears of the name."""
    surface = FakeSurface()
    surface.on_command = lambda command: CommandResult(Code.UNKNOWN_TOPIC_ID, "no topic has this id")
    asked = {"name": "orders"} if named else {"name": None, "topic_id": UUID(bytes=ORDERS_ID)}
    answer = KafkaClient(surface).ask(Api.DELETE_TOPICS, 6, topics=[asked], timeout_ms=1_000)
    assert [code(r.error_code) for r in answer.responses] == [3 if named else 100]
    if named:
        assert grow(surface, {"name": "orders", "count": 9}) == [("orders", 3)]


def test_a_repeated_name_is_42_and_nothing_is_deleted() -> None:
    surface = FakeSurface()
    assert delete(surface, 5, "orders", "orders") == [("orders", 42)]
    assert surface.commands == []


@pytest.mark.parametrize(("version", "expected"), [(1, 42), (2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_disabled(version: int, expected: int) -> None:
    settings = api_settings(delete_topic_enable=False)
    assert delete(FakeSurface(), version, "orders", settings=settings) == [("orders", expected)]


def test_the_offsets_topic_stays() -> None:
    surface = FakeSurface()
    assert delete(surface, 6, OFFSETS_TOPIC) == [(OFFSETS_TOPIC, 44)]
    assert delete(surface, 6, "__cluster_metadata") == [("__cluster_metadata", 3)]
    assert surface.commands == []
