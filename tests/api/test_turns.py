"""No request of one client holds the loop for all its parts: at most a thousand are looked at in one turn, and the
answer is the one that the parts get when they are asked for a few at a time."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from muster_coordinator.api.authorize import Operation, Resource
from muster_coordinator.api.limits import PARTS_IN_A_TURN_MAX
from muster_coordinator.context import RequestContext
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient

PARTS = 2 * PARTS_IN_A_TURN_MAX + 1
_FEW = 100
_LOOKS_IN_A_TURN_MAX = PARTS_IN_A_TURN_MAX + 5
"""The part that exists, and the first that is in doubt, are looked at more than once."""


class Asked(NamedTuple):
    """How one API is asked for parts by their number, of which number 1 exists."""

    version: int
    values: Callable[[list[int]], dict[str, Any]]
    results: Callable[[Any], list[Any]]


def _name(number: int) -> str:
    return "orders" if number == 1 else f"t{number}"


def _in_topic(field: str, **more: Any) -> Callable[[list[int]], dict[str, Any]]:
    """Partitions of one topic; there are three, of which this broker leads the first."""
    return lambda numbers: {"topics": [{field: "orders", "partitions": [{**more, _INDEX[field]: n} for n in numbers]}]}


_INDEX = {"name": "partition_index", "topic": "partition"}


def _partitions(answer: Any) -> list[Any]:
    return [one for topic in answer.topics for one in topic.partitions]


def _alter(numbers: list[int]) -> dict[str, Any]:
    return {"resources": [{"resource_type": 2, "resource_name": _name(n), "configs": []} for n in numbers]}


ASKED: dict[int, Asked] = {
    Api.DELETE_TOPICS: Asked(
        6,
        lambda numbers: {
            "topics": [{"name": _name(n), "topic_id": UUID(int=0)} for n in numbers],
            "timeout_ms": 1_000,
        },
        lambda answer: list(answer.responses),
    ),
    Api.LIST_OFFSETS: Asked(9, _in_topic("name", timestamp=-1), _partitions),
    Api.OFFSET_FOR_LEADER_EPOCH: Asked(4, _in_topic("topic", leader_epoch=1), _partitions),
    Api.DELETE_RECORDS: Asked(2, _in_topic("name", offset=0), _partitions),
    Api.DESCRIBE_CONFIGS: Asked(
        4,
        lambda numbers: {"resources": [{"resource_type": 2, "resource_name": _name(n)} for n in numbers]},
        lambda answer: list(answer.results),
    ),
    Api.ALTER_CONFIGS: Asked(2, _alter, lambda answer: list(answer.responses)),
    Api.INCREMENTAL_ALTER_CONFIGS: Asked(1, _alter, lambda answer: list(answer.responses)),
    Api.ELECT_LEADERS: Asked(
        2,
        lambda numbers: {"topic_partitions": [{"topic": "orders", "partitions": numbers}], "timeout_ms": 1_000},
        lambda answer: [one for topic in answer.replica_election_results for one in topic.partition_result],
    ),
    Api.CREATE_PARTITIONS: Asked(
        3,
        lambda numbers: {"topics": [{"name": _name(n), "count": 5} for n in numbers], "timeout_ms": 1_000},
        lambda answer: list(answer.results),
    ),
}


class Turns:
    """Counts the parts that are looked at in each turn of the loop."""

    def __init__(self) -> None:
        self.surface = FakeSurface()
        self.client = KafkaClient(self.surface, authorize=self._authorize)
        self.counts: list[int] = []
        self._authorised = 0

    def _authorize(self, _context: RequestContext, _operation: Operation, _resource: Resource) -> bool:
        self._authorised += 1
        return True

    def turn(self, call: Callable[[], None]) -> None:
        self._authorised = 0
        self.surface.lookups.clear()
        call()
        self.counts.append(max(self._authorised, self.surface.lookups.count("topic")))

    def run(self) -> None:
        while self.surface.fake_loop.due(self.surface.fake_loop.now_ms):
            self.turn(self.surface.fake_loop.step)

    def ask(self, api: int, numbers: list[int]) -> list[Any]:
        self.turn(lambda: self.client.send(api, ASKED[api].version, **ASKED[api].values(numbers)))
        self.run()
        (answer,) = self.client.receive()
        return ASKED[api].results(answer)


def _small(api: int) -> list[Any]:
    """The answers of requests for a few parts each."""
    turns = Turns()
    return [one for first in range(0, PARTS, _FEW) for one in turns.ask(api, [*range(PARTS)][first : first + _FEW])]


@pytest.mark.parametrize("api", ASKED)
def test_many_parts_leave_the_loop_its_turns_and_get_the_answers_of_few(api: int) -> None:
    turns = Turns()
    answer = turns.ask(api, list(range(PARTS)))
    assert max(turns.counts) <= _LOOKS_IN_A_TURN_MAX
    assert sum(turns.counts) >= PARTS
    assert len(answer) == PARTS
    assert answer == _small(api)


@pytest.mark.parametrize("api", ASKED)
def test_many_parts_that_waited_for_a_late_image_leave_the_loop_its_turns(api: int) -> None:
    """Each is looked at again when the controller's leader has answered."""
    turns, told = Turns(), []
    turns.surface.hold_topic_question = told.append
    request = ASKED[api]
    turns.turn(lambda: turns.client.send(api, request.version, **request.values(list(range(PARTS)))))
    turns.run()
    assert turns.client.receive() == []
    for tell in told:  # an unchanged config is one more question
        turns.turn(partial(tell, True))
    turns.run()
    (answer,) = turns.client.receive()
    assert max(turns.counts) <= _LOOKS_IN_A_TURN_MAX
    assert request.results(answer) == _small(api)
