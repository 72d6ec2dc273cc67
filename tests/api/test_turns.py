"""No request of one client holds the loop for all its parts: at most a thousand are looked at in one turn, and the
answer is the one that the parts get when they are asked for a few at a time."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from muster_coordinator.api.authorize import Operation, Resource
from muster_coordinator.api.limits import AUTO_CREATES_AT_ONCE_MAX, PARTS_IN_A_TURN_MAX
from muster_coordinator.api.place_for_topics import PlaceForTopics
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.topic_names import colliding_name
from muster_coordinator.controller.topics import too_many_groups
from muster_coordinator.limits import RAFT_GROUPS_MAX
from muster_coordinator.wire.versions import Api
from typing_extensions import override

from tests.api.batches import batch
from tests.api.fake_surface import FakeSurface, topic
from tests.api.kafka_client import KafkaClient
from tests.made_settings import api_settings

PARTS = 2 * PARTS_IN_A_TURN_MAX + 1
_FEW = 100
_LOOKS_IN_A_TURN_MAX = PARTS_IN_A_TURN_MAX + 20
"""The part that exists, and the first that is in doubt, are looked at more than once."""


class Asked(NamedTuple):
    """How one API is asked for parts by their number, of which number 1 exists."""

    version: int
    values: Callable[[list[int]], dict[str, Any]]
    results: Callable[[Any], list[Any]]


def _name(number: int) -> str:
    return "orders" if number == 1 else f"t{number}"


def _number(name: str) -> int:
    return 1 if name == "orders" else int(name.removeprefix("t"))


def _in_topic(field: str, **more: Any) -> Callable[[list[int]], dict[str, Any]]:
    """Partitions of one topic; there are three, of which this broker leads the first."""
    return lambda numbers: {"topics": [{field: "orders", "partitions": [{**more, _INDEX[field]: n} for n in numbers]}]}


_INDEX = {"name": "partition_index", "topic": "partition"}


def _partitions(answer: Any) -> list[Any]:
    return [one for topic in answer.topics for one in topic.partitions]


def _alter(numbers: list[int]) -> dict[str, Any]:
    return {"resources": [{"resource_type": 2, "resource_name": _name(n), "configs": []} for n in numbers]}


def _named(field: str, **more: Any) -> Callable[[list[int]], dict[str, Any]]:
    """Topics, each with what a request says of it."""
    return lambda numbers: {field: [{"name": _name(n), **more} for n in numbers]}


def _first_partitions(topics: str, field: str, partitions: str, **one: Any) -> Callable[[list[int]], dict[str, Any]]:
    """The first partition of each topic."""
    return lambda numbers: {topics: [{field: _name(n), partitions: [one]} for n in numbers]}


def _with(values: Callable[[list[int]], dict[str, Any]], **more: Any) -> Callable[[list[int]], dict[str, Any]]:
    return lambda numbers: {**values(numbers), **more}


ASKED: dict[int, Asked] = {
    Api.METADATA: Asked(9, _named("topics"), lambda answer: list(answer.topics)),
    Api.DESCRIBE_TOPIC_PARTITIONS: Asked(
        0,
        _with(_named("topics"), response_partition_limit=100),
        lambda answer: sorted(answer.topics, key=lambda topic: _number(topic.name)),
    ),
    Api.CREATE_TOPICS: Asked(
        5,
        _with(_named("topics", num_partitions=1, replication_factor=-1), validate_only=True, timeout_ms=1_000),
        lambda answer: list(answer.topics),
    ),
    Api.FETCH: Asked(
        11,
        _with(
            _first_partitions("topics", "topic", "partitions", partition=0, fetch_offset=0, partition_max_bytes=99),
            replica_id=-1,
            max_wait_ms=0,
            max_bytes=1_000,
        ),
        lambda answer: list(answer.responses),
    ),
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
        lambda numbers: {"topic_partitions": [{"topic": "orders", "partitions": numbers}], "timeout_ms": 0},
        lambda answer: [one for topic in answer.replica_election_results for one in topic.partition_result],
    ),
    Api.CREATE_PARTITIONS: Asked(
        3,
        lambda numbers: {"topics": [{"name": _name(n), "count": 5} for n in numbers], "timeout_ms": 1_000},
        lambda answer: list(answer.results),
    ),
}


class Still(FakeSurface):
    """Its image stays one object, as a replica's does while nothing is applied."""

    def __init__(self) -> None:
        super().__init__()
        self._image = super().image()

    @override
    def image(self) -> ClusterImage | None:
        return self._image


class Turns:
    """Counts the parts that are looked at in each turn of the loop."""

    def __init__(self) -> None:
        self.surface = Still()
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


def test_a_produce_is_admitted_in_one_turn_and_refused_in_several() -> None:
    """What is offered to a log is offered before any request behind it; nothing depends on when a refusal is made."""
    surface = FakeSurface()
    client = KafkaClient(surface)
    surface.add_topic(topic("later", 1, first_group=700))
    first, last = surface.log_of("orders", 0), surface.log_of("later", 0)
    data = [{"name": _name(n), "partition_data": [{"index": 0, "records": batch()}]} for n in range(PARTS)]
    data.append({"name": "later", "partition_data": [{"index": 0, "records": batch()}]})
    client.send(Api.PRODUCE, 9, acks=-1, timeout_ms=1_000, topic_data=data)
    assert (len(first.produced), len(last.produced)) == (1, 1)
    assert client.receive() == []
    turns = 0
    while surface.fake_loop.due(surface.fake_loop.now_ms):
        surface.fake_loop.step()
        turns += 1
    (answer,) = client.receive()
    codes = {one.name: int(one.partition_responses[0].error_code.value) for one in answer.responses}
    assert codes == {_name(n): 3 for n in range(PARTS)} | {"orders": 0, "later": 0}
    assert turns >= 3


def test_filters_of_transactions_are_judged_in_turns() -> None:
    surface = FakeSurface()
    client = KafkaClient(surface)
    client.send(Api.LIST_TRANSACTIONS, 1, state_filters=["Empty", *(f"s{n}" for n in range(PARTS))] * 2)
    assert client.receive() == []
    surface.fake_loop.run()
    (answer,) = client.receive()
    assert list(answer.unknown_state_filters) == [f"s{n}" for n in range(PARTS)]


def test_topics_to_create_for_who_names_them_are_looked_for_in_turns() -> None:
    surface = Still()
    client = KafkaClient(surface, settings=replace(api_settings(), auto_create_topics=True))
    names = [{"name": f"t{n}"} for n in range(PARTS)]
    client.send(Api.METADATA, 9, topics=names, allow_auto_topic_creation=True)
    assert surface.lookups.count("topic") <= PARTS_IN_A_TURN_MAX + AUTO_CREATES_AT_ONCE_MAX * len(surface.topics)
    surface.fake_loop.run()
    (answer,) = client.receive()
    assert len(surface.commands) == AUTO_CREATES_AT_ONCE_MAX
    assert {int(one.error_code.value) for one in answer.topics[AUTO_CREATES_AT_ONCE_MAX:]} == {5}


def test_brokers_and_leaders_of_an_answer_agree_when_one_dies_between_its_turns() -> None:
    """Clients fail on a leader that is not in the list of brokers."""
    surface = FakeSurface()
    client = KafkaClient(surface)
    names = [*(f"t{n}" for n in range(PARTS)), "orders"]
    client.send(Api.METADATA, 9, topics=[{"name": name} for name in names])
    surface.fake_loop.step()  # `orders` comes last; what follows is the second making, after the question
    while surface.fake_loop.due(surface.fake_loop.now_ms):
        surface.dead.symmetric_difference_update({1})
        surface.fake_loop.step()
    surface.fake_loop.run(1_000)
    (answer,) = client.receive()
    listed = {broker.node_id for broker in answer.brokers}
    leaders = {p.leader_id for one in answer.topics for p in one.partitions} - {-1}
    assert leaders <= listed
    assert answer.controller_id in listed


def test_what_topics_leave_for_many_new_ones_is_counted_once_an_image() -> None:
    """Each is refused as when it is compared with every topic."""
    surface = FakeSurface()
    for n in range(50):
        surface.add_topic(topic(f"a.{n}", 1, first_group=700 + n))
    image = surface.image()
    assert image is not None
    surface.lookups.clear()
    place = PlaceForTopics()
    names = [f"a_{n}" for n in range(60)] + ["__consumer.offsets", "__consumer_offsets", "orders", "a.1"]
    assert [place.colliding(n, image) for n in names] == [colliding_name(n, image.topics) for n in names]
    assert [place.too_many(1, image) for _ in range(500)] == [None] * 500
    assert surface.lookups.count("topic") <= 2 * len(surface.topics)
    over = RAFT_GROUPS_MAX
    assert place.too_many(over, image) == too_many_groups(image, over)
    assert place.too_many(over, image) is not None
    surface.topics.clear()
    emptied = surface.image()
    assert emptied is not None
    assert (place.colliding("a_1", emptied), place.too_many(1, emptied)) == (None, None), "another image"
