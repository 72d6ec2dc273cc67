"""Handlers beside an upstream Kafka: what is offered, whose ids are told, and what is refused."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from muster_coordinator.api.authorize import Resource, ResourceType
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.api.upstream_addresses import UpstreamAddresses, UpstreamIds
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import UPSTREAM_LISTENER, Endpoint
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, OffsetCommit, OffsetCommitAnswer
from muster_coordinator.limits import REFUSED_AFTER_MS
from muster_coordinator.upstream.node_ids import parse_node_ids
from muster_coordinator.upstream.remembered import Remembered
from muster_coordinator.upstream.topic_counts import Counts, lacking
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings

BASE = 1_000_000


class Topics:
    """`doubt`: of whatever is wanted; questions are kept until the test answers."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {"theirs": 8}
        self.asked: list[tuple[Mapping[str, int], Callable[[Counts], None]]] = []

    def doubtful(self, wanted: Mapping[str, int]) -> Mapping[str, int]:
        return lacking(wanted, self.known)

    def ask(self, wanted: Mapping[str, int], told: Callable[[Counts], None]) -> None:
        self.asked.append((wanted, told))


class Upstream:
    def __init__(self) -> None:
        self.topics = Topics()

    rows: tuple[Mapping[str, int], ...] | None = ({"api_key": 3, "min_version": 1, "max_version": 12},)

    def advertised(self) -> tuple[Mapping[str, int], ...] | None:
        return self.rows

    def remembered(self) -> Remembered | None:
        return None


class World:
    def __init__(self, surface: FakeSurface) -> None:
        self.upstream = Upstream()
        settings = api_settings(topics_mode=TopicsMode.KAFKA, coordinator_base=BASE)
        self.dispatcher = Dispatcher(surface, settings, upstream=self.upstream)
        self.client = KafkaClient(surface, dispatcher=self.dispatcher)


@pytest.fixture
def world() -> World:
    return World(FakeSurface())


def test_only_what_the_upstream_speaks_is_offered(world: World) -> None:
    answer = world.client.ask(Api.API_VERSIONS, 3, client_software_name="a", client_software_version="1")
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(3, 1, 12)]


def test_before_it_was_reached_a_client_is_told_nothing_that_it_would_keep(world: World) -> None:
    world.upstream.rows = None
    world.client.send(Api.API_VERSIONS, 0)
    assert world.client.receive() == []
    assert not world.client.closed, "it comes again at once"
    world.client.surface.fake_loop.run(REFUSED_AFTER_MS)
    assert world.client.receive() == []
    assert world.client.closed
    assert "no broker of the upstream" in world.client.connection.failure


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_a_coordinator_has_an_id_that_is_no_brokers(world: World, version: int) -> None:
    answer = world.client.ask(Api.FIND_COORDINATOR, version, key="g", coordinator_keys=["g"], key_type=0)
    found = answer.coordinators[0] if version >= 4 else answer
    leader = world.client.surface.broker
    assert code(found.error_code) == 0
    assert found.node_id in {BASE + node for node in world.client.surface.image().brokers}  # type: ignore[union-attr]
    assert (found.host, found.port) != ("", -1), leader


def test_a_group_is_committed_for_a_topic_that_only_the_upstream_has(world: World) -> None:
    topic = {"name": "theirs", "partitions": [{"partition_index": 7, "committed_offset": 5, "committed_metadata": ""}]}
    world.client.send(
        Api.OFFSET_COMMIT, 8, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[topic]
    )
    assert isinstance(world.client.surface, FakeSurface)
    ((_, request, _),) = world.client.surface.group_requests
    assert isinstance(request, OffsetCommit)
    assert [(t.topic, [p.partition for p in t.partitions]) for t in request.topics] == [("theirs", [7])]


def commits(world: World, **topics: list[int]) -> None:
    assert isinstance(world.client.surface, FakeSurface)
    world.client.surface.on_group = taken
    told = [
        {
            "name": name,
            "partitions": [{"partition_index": p, "committed_offset": 5, "committed_metadata": ""} for p in partitions],
        }
        for name, partitions in topics.items()
    ]
    who = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
    world.client.send(Api.OFFSET_COMMIT, 8, **who, topics=told)


def reached(world: World) -> dict[str, list[int]]:
    """What came to the group's shard, which answers it."""
    assert isinstance(world.client.surface, FakeSurface)
    ((_, request, _),) = world.client.surface.group_requests
    assert isinstance(request, OffsetCommit)
    return {topic.topic: [one.partition for one in topic.partitions] for topic in request.topics}


def taken(request: GroupRequest) -> GroupAnswer:
    assert isinstance(request, OffsetCommit)
    return OffsetCommitAnswer([(t.topic, [(one.partition, 0) for one in t.partitions]) for t in request.topics])


def codes(world: World) -> dict[str, list[int]]:
    (answer,) = world.client.receive()
    return {topic.name: [int(one.error_code.value) for one in topic.partitions] for topic in answer.topics}


def test_a_commit_for_what_the_upstream_does_not_have_is_refused_for_that_alone(world: World) -> None:
    commits(world, theirs=[0, 9, -1], typo=[0], hidden=[0], new=[1])
    ((wanted, told),) = world.upstream.topics.asked
    assert wanted == {"theirs": 9, "typo": 0, "hidden": 0, "new": 1}
    assert world.client.receive() == [], "nobody is refused before they are asked"
    told({"theirs": 8, "typo": 0, "new": 2})
    assert reached(world) == {"theirs": [0], "hidden": [0], "new": [1]}
    assert codes(world) == {"theirs": [0, 3, 3], "typo": [3], "hidden": [0], "new": [0]}


def test_nothing_is_refused_while_nobody_can_tell(world: World) -> None:
    commits(world, typo=[0])
    ((_, told),) = world.upstream.topics.asked
    told({})
    assert reached(world) == {"typo": [0]}
    assert codes(world) == {"typo": [0]}


def test_what_the_upstream_has_is_not_asked_for(world: World) -> None:
    commits(world, theirs=[0, 7])
    assert world.upstream.topics.asked == []
    assert reached(world) == {"theirs": [0, 7]}


def test_nobody_is_told_of_a_topic_that_is_none_of_his(world: World) -> None:
    def no_topics(_context: RequestContext, _operation: object, resource: Resource) -> bool:
        return resource.type is not ResourceType.TOPIC

    surface = world.client.surface
    settings = api_settings(topics_mode=TopicsMode.KAFKA, coordinator_base=BASE)
    world.dispatcher = Dispatcher(surface, settings, no_topics, upstream=world.upstream)
    world.client = KafkaClient(surface, dispatcher=world.dispatcher)
    commits(world, theirs=[0], typo=[0])
    assert world.upstream.topics.asked == []
    assert codes(world) == {"theirs": [29], "typo": [29]}


def test_a_client_that_goes_while_they_are_asked(world: World) -> None:
    commits(world, typo=[0])
    ((_, told),) = world.upstream.topics.asked
    world.client.connection.close()
    told({"typo": 0})


@pytest.mark.parametrize("version", [0, 3])
def test_a_groups_offsets_in_a_transaction_are_refused(world: World, version: int) -> None:
    topic = {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]}
    who = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "group_id": "g"}
    answer = world.client.ask(Api.TXN_OFFSET_COMMIT, version, **who, topics=[topic])
    assert code(answer.topics[0].partitions[0].error_code) == 43
    assert code(world.client.ask(Api.ADD_OFFSETS_TO_TXN, version, **who).error_code) == 43


def test_addresses_that_stand_for_brokers_list_no_groups(world: World) -> None:
    at_broker = KafkaClient(world.client.surface, dispatcher=world.dispatcher)
    at_broker.connection._handle = world.dispatcher.handle_at_broker
    for version in range(6):
        assert at_broker.ask(Api.LIST_GROUPS, version).groups == ()
    found = at_broker.ask(Api.FIND_COORDINATOR, 4, coordinator_keys=["g"], key_type=0)
    assert code(found.coordinators[0].error_code) == 0


def addresses_of(surface: FakeSurface, listener: str = "PLAINTEXT") -> UpstreamAddresses:
    return UpstreamAddresses(surface, UpstreamIds(parse_node_ids("1-3,1001"), BASE), listener)


def test_each_broker_is_at_its_port_of_a_replica_that_lives() -> None:
    surface = FakeSurface()
    image = surface.image()
    assert image is not None
    for broker, registered in list(image.brokers.items()):
        more = Endpoint(listener=UPSTREAM_LISTENER + "PLAINTEXT", host=f"muster-{broker}", port=20_000 + 100 * broker)
        surface.brokers[broker] = replace(registered, endpoints=(*registered.endpoints, more))
    brokers = sorted(image.brokers)
    ours = addresses_of(surface)
    assert [ours.address(node) for node in (1, 2, 3, 1001)] == [
        (f"muster-{brokers[place % len(brokers)]}", 20_000 + 100 * brokers[place % len(brokers)] + place)
        for place in range(4)
    ]
    assert ours.address(4) is None
    assert addresses_of(surface, "OTHER").address(1) is None
    dead = brokers[0]
    surface.dead.add(dead)
    assert ours.address(1) == (f"muster-{brokers[1]}", 20_000 + 100 * brokers[1])
    assert ours.address(2) == (f"muster-{brokers[1]}", 20_000 + 100 * brokers[1] + 1)


def test_replicas_are_brokers_with_ids_of_their_own() -> None:
    surface = FakeSurface()
    told = addresses_of(surface).replicas()
    image = surface.image()
    assert image is not None
    assert [broker.node for broker in told] == [BASE + node for node in sorted(image.brokers)]
    assert not ({broker.host for broker in told} & {""})
