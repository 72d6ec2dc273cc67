"""`controller_mutation_rate`: how many partitions a client may create and delete (ADR 68)."""

from typing import Any

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.wire.throttling import Throttling
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code


class Limited:
    """A client that may create and delete two partitions a second, eleven windows' worth at once."""

    def __init__(self) -> None:
        self.surface = FakeSurface()
        self.throttling = Throttling(self.surface.loop)
        self.client = KafkaClient(self.surface, throttling=self.throttling)
        self.throttling.set({(("user", ""),): (("controller_mutation_rate", 2.0),)})

    def create(self, version: int, *topics: dict[str, Any], **more: Any) -> tuple[list[int], int]:
        """(codes, throttle time in ms)"""
        answer = self.client.ask(Api.CREATE_TOPICS, version, topics=topics, **{"timeout_ms": 5_000, **more})
        return [code(one.error_code) for one in answer.topics], throttled_ms(answer)

    def delete(self, version: int, *names: str) -> tuple[list[int], int]:
        named: dict[str, Any] = {"topic_names": names}
        if version >= 6:
            named = {"topics": [{"name": name, "topic_id": None} for name in names]}
        answer = self.client.ask(Api.DELETE_TOPICS, version, timeout_ms=5_000, **named)
        return [code(one.error_code) for one in answer.responses], throttled_ms(answer)

    def grow(self, version: int, count: int) -> tuple[list[int], int]:
        asked = {"name": "orders", "count": count, "assignments": None}
        answer = self.client.ask(Api.CREATE_PARTITIONS, version, topics=[asked], timeout_ms=5_000, validate_only=False)
        return [code(one.error_code) for one in answer.results], throttled_ms(answer)

    def later(self, ms: int) -> None:
        self.surface.fake_loop.run(ms)
        self.client.connection.unmute()


def throttled_ms(answer: Any) -> int:
    return round(answer.throttle_time.total_seconds() * 1_000)


def many(name: str, partitions: int) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 3}


@pytest.mark.parametrize("version", [6, 7])
def test_topic_by_topic_is_refused_with_89_until_there_are_tokens_again(version: int) -> None:
    """The first has what there is and more; a name that cannot be takes nothing."""
    limited = Limited()
    assert limited.create(version, many("a/b", 9), many("one", 30), many("two", 1)) == ([17, 0, 89], 4_000)
    assert [command.name for command in limited.surface.commands if isinstance(command, CreateTopic)] == ["one"]
    limited.later(3_000)
    assert limited.create(version, many("two", 1)) == ([89], 1_000)
    limited.later(1_000)
    assert limited.create(version, many("two", 1)) == ([0], 0)


def test_clients_that_do_not_know_89_get_what_they_ask_for_and_are_throttled() -> None:
    limited = Limited()
    assert limited.create(5, many("one", 30), many("two", 2)) == ([0, 0], 5_000)
    limited.later(0)
    assert limited.grow(2, 12)[0] == [0]
    limited.later(0)
    assert limited.delete(4, "orders")[0] == [0]


def test_growth_is_what_is_added_and_a_deletion_what_is_gone() -> None:
    """Since CreatePartitions v3 and DeleteTopics v5 the code is told."""
    limited = Limited()
    have = len(limited.surface.topics["orders"].partitions)
    assert limited.grow(3, have + 22) == ([0], 0)
    assert limited.delete(5, "orders") == ([0], 0), "there were none left, and none too few"
    deleted = len(limited.surface.commands)
    for asked in (lambda: limited.delete(6, "orders"), lambda: limited.grow(3, have + 23)):
        codes, throttle_ms = asked()
        assert codes == [89]
        assert throttle_ms == (have + 22) * 500, "the deleted topic was so large by then"
        limited.later(0)
    assert len(limited.surface.commands) == deleted


def test_who_only_asks_takes_tokens_too_as_in_kafka() -> None:
    limited = Limited()
    assert limited.create(7, many("one", 24), validate_only=True) == ([0], 0)
    assert limited.create(7, many("one", 1)) == ([89], 1_000)
    assert limited.surface.commands == []
