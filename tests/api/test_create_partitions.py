"""CreatePartitions (protocol notes 15)."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.controller.commands import AddPartitions
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code
from tests.api.topic_requests import ORDERS_ID, grow, unled


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows(version: int) -> None:
    surface = FakeSurface()
    assert grow(surface, {"name": "orders", "count": 5}, version=version) == [("orders", 0)]
    (command,) = surface.commands
    assert isinstance(command, AddPartitions)
    assert replace(command, placed=()) == AddPartitions(topic_id=ORDERS_ID, total=5)
    assert [len(set(brokers)) for brokers in command.placed] == [3, 3]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"name": "nope", "count": 5}, 3),
        ({"name": "orders", "count": 3}, 37),
        ({"name": "orders", "count": 1}, 37),
        ({"name": "orders", "count": 10_004}, 44),
        ({"name": "orders", "count": 4, "assignments": [{"broker_ids": (0,)}]}, 39),
        ({"name": "orders", "count": 4, "assignments": [{"broker_ids": (0, 1, 2)}] * 2}, 39),
        ({"name": "orders", "count": 4, "assignments": [{"broker_ids": (0, 1, 1)}]}, 39),
        ({"name": "orders", "count": 4, "assignments": []}, 39),
        ({"name": OFFSETS_TOPIC, "count": 99}, 44),
    ],
)
def test_growth_that_cannot_be(asked: dict[str, Any], expected: int) -> None:
    surface = FakeSurface()
    assert grow(surface, asked) == [(asked["name"], expected)]
    assert surface.commands == []


def test_a_topic_grows_by_assignments_that_name_every_broker() -> None:
    surface = FakeSurface()
    by_hand = [{"broker_ids": (2, 1, 0)}, {"broker_ids": (0, 1, 2)}]
    assert grow(surface, {"name": "orders", "count": 5, "assignments": by_hand}) == [("orders", 0)]
    assert surface.commands == [AddPartitions(topic_id=ORDERS_ID, total=5, placed=((2, 1, 0), (0, 1, 2)))]


def test_growth_is_answered_when_the_new_partitions_have_leaders_or_with_7() -> None:
    surface = FakeSurface()
    surface.elected = False
    client = KafkaClient(surface)
    more = {"topics": [{"name": "orders", "count": 5, "assignments": None}], "timeout_ms": 1_000}
    client.send(Api.CREATE_PARTITIONS, 3, **more)
    assert client.receive() == []
    for group in unled(surface):
        surface.elect(group, 2, 1)
    assert [code(r.error_code) for r in client.receive()[0].results] == [0]
    more["topics"] = [{"name": "orders", "count": 6, "assignments": None}]
    client.send(Api.CREATE_PARTITIONS, 3, **more)
    surface.fake_loop.run(1_000)
    (answer,) = client.receive()
    assert [code(r.error_code) for r in answer.results] == [7]
    assert "created" in answer.results[0].error_message


def test_growth_repeated_is_42_validated_only_is_nothing_and_without_time_is_7() -> None:
    surface = FakeSurface()
    more = {"name": "orders", "count": 5}
    assert grow(surface, more, more) == [("orders", 42)]
    assert grow(surface, more, validate_only=True) == [("orders", 0)]
    assert grow(surface, more, timeout_ms=0) == [("orders", 7)]
    assert surface.commands == []
