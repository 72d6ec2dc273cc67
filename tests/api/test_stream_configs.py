"""The configs `redis.*` of a topic: judged when it is made, kept for good, shown; and not before all replicas know."""

from typing import Any

import pytest
from muster_coordinator.api.authorize import CLUSTER, Operation, Resource
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import AlterTopicConfigs, CreateTopic
from muster_coordinator.controller.image import MEMBERS_LEVEL, STREAM_CONFIGS_LEVEL
from muster_coordinator.controller.limits import STREAM_NAME_BYTES_MAX, VALUE_FIELD_BYTES_MAX
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, topic
from tests.api.kafka_client import KafkaClient, code
from tests.api.topic_requests import create, grow, outcome, wanted
from tests.made_settings import api_settings

SETTINGS = api_settings(redis=True)
STREAM, BITS, FIELD, STORE = "redis.stream", "redis.sequence.bits", "redis.value.field", "topic.store"
MAPPED = {STREAM: "korvet:{topic}:{partition}", BITS: "20", FIELD: "data"}


def surface_of(level: int = STREAM_CONFIGS_LEVEL) -> FakeSurface:
    surface = FakeSurface()
    surface.feature_level = level
    there = ((BITS, "20"), (STREAM, "theirs:{partition}"), (FIELD, "data"), (STORE, "redis"))
    surface.add_topic(topic("mapped", 2, first_group=300, configs=there))
    surface.add_topic(topic("single", 1, first_group=310, configs=((STREAM, "the one"), (STORE, "redis"))))
    return surface


def made(surface: FakeSurface, configs: dict[str, str], *, partitions: int = 2, **more: Any) -> tuple[int, str]:
    named = [{"name": name, "value": value} for name, value in configs.items()]
    asked = wanted("new", num_partitions=partitions, configs=named)
    (answer,) = create(surface, asked, settings=more.pop("settings", SETTINGS), **more).topics
    return code(answer.error_code), answer.error_message or ""


def in_redis(**configs: str) -> dict[str, str]:
    return {STORE: "redis", **{key.replace("_", "."): value for key, value in configs.items()}}


def test_a_topic_is_made_with_them_as_they_are() -> None:
    surface = surface_of()
    assert made(surface, {STORE: "redis", **MAPPED}) == (0, "")
    (command,) = surface.commands
    assert isinstance(command, CreateTopic)
    assert dict(command.configs) == {STORE: "redis", **MAPPED}


def test_the_clusters_store_is_enough() -> None:
    settings = api_settings(topics_mode=TopicsMode.REDIS, redis=True)
    assert made(surface_of(), MAPPED, settings=settings)[0] == 0


@pytest.mark.parametrize("name", MAPPED)
def test_each_is_for_topics_in_redis_alone(name: str) -> None:
    for elsewhere in ({}, {STORE: "embedded"}):
        code_, said = made(surface_of(), {name: MAPPED[name], **elsewhere})
        assert (code_, said) == (40, f"{name}: only topics in the store redis have it")


@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("level", [MEMBERS_LEVEL, STREAM_CONFIGS_LEVEL])
def test_none_is_taken_before_every_replica_knows_what_it_means(name: str, level: int) -> None:
    """A replica of release 0.2.0 would serve the stream of its own name, and ten bits."""
    surface = surface_of(level)
    answer, said = made(surface, {STORE: "redis", name: MAPPED[name]})
    assert answer == (0 if level == STREAM_CONFIGS_LEVEL else 44)
    assert (surface.commands == []) == ("feature level is 4" in said) == (level == MEMBERS_LEVEL)
    assert made(surface_of(level), {STORE: "redis"})[0] == 0, "as in release 0.2.0"


@pytest.mark.parametrize(
    ("configs", "partitions", "expected"),
    [
        ({STREAM: "korvet:{topic}"}, 2, 40),
        ({STREAM: "korvet:{topic}"}, 1, 0),
        ({STREAM: ""}, 1, 40),
        ({STREAM: "{other}"}, 1, 40),
        ({STREAM: "a\nb"}, 1, 40),
        ({STREAM: "x" * STREAM_NAME_BYTES_MAX}, 1, 0),
        ({STREAM: "x" * (STREAM_NAME_BYTES_MAX + 1)}, 1, 40),
        ({STREAM: "muster:{{{topic}:{partition}}}"}, 2, 40),
        ({STREAM: "muster:{{mine}}:state"}, 1, 40),
        ({STREAM: "muster:mine"}, 1, 0),
        ({BITS: "0"}, 1, 40),
        ({BITS: "1"}, 1, 0),
        ({BITS: "20"}, 1, 0),
        ({BITS: "21"}, 1, 40),
        ({BITS: "ten"}, 1, 40),
        ({FIELD: ""}, 1, 40),
        ({FIELD: "x" * VALUE_FIELD_BYTES_MAX}, 1, 0),
        ({FIELD: "é" * (VALUE_FIELD_BYTES_MAX // 2) + "e"}, 1, 40),
        ({FIELD: "a\0"}, 1, 40),
        ({FIELD: "v"}, 1, 0),
    ],
)
def test_what_a_topic_cannot_have_is_40_and_nothing_is_proposed(
    configs: dict[str, str], partitions: int, expected: int
) -> None:
    surface = surface_of()
    assert made(surface, {STORE: "redis", **configs}, partitions=partitions)[0] == expected
    assert (surface.commands == []) == (expected != 0)


@pytest.mark.parametrize(("configs", "expected"), [(MAPPED, 31), ({BITS: "20", FIELD: "data"}, 0), ({}, 0)])
def test_who_names_streams_gives_access_to_them_and_needs_the_right_to_alter_the_cluster(
    configs: dict[str, str], expected: int
) -> None:
    """Else whoever may create a topic could read all that is in Redis."""

    def all_but(_: RequestContext, operation: Operation, resource: Resource) -> bool:
        return (operation, resource) != (Operation.ALTER, CLUSTER)

    surface = surface_of()
    named = [{"name": name, "value": value} for name, value in {STORE: "redis", **configs}.items()]
    client = KafkaClient(surface, settings=SETTINGS, authorize=all_but)
    asked = wanted("new", num_partitions=1, configs=named)
    assert outcome(client.ask(Api.CREATE_TOPICS, 7, topics=[asked], timeout_ms=5_000)) == [("new", expected)]
    assert (surface.commands == []) == (expected != 0)


def test_the_prefix_that_is_configured_is_ours() -> None:
    settings = api_settings(redis=True, redis_prefix="shop")
    assert made(surface_of(), in_redis(redis_stream="shop:{{a}}"), partitions=1, settings=settings)[0] == 40
    assert made(surface_of(), in_redis(redis_stream="muster:{{a}}"), partitions=1, settings=settings)[0] == 0


@pytest.mark.parametrize(
    ("pattern", "other"), [("theirs:{partition}", "mapped"), ("theirs:9", "mapped"), ("the one", "single")]
)
def test_who_only_asks_is_told_too_that_another_topic_has_the_stream(pattern: str, other: str) -> None:
    """Who wants the topic is told by the controller's log (`controller/test_stream_names.py`)."""
    surface = surface_of()
    partitions = 2 if "{" in pattern else 1
    answer, said = made(surface, in_redis(redis_stream=pattern), partitions=partitions, validate_only=True)
    assert (answer, other in said) == (40, True)
    assert made(surface, in_redis(redis_stream="free"), partitions=1, validate_only=True)[0] == 0


def test_partitions_are_added_where_the_pattern_tells_them_apart() -> None:
    surface = surface_of()
    assert grow(surface, {"name": "mapped", "count": 5}) == [("mapped", 0)]
    assert grow(surface, {"name": "single", "count": 2}) == [("single", 37)]


# -- changes


def altered(surface: FakeSurface, name: str, *changes: tuple[str, int, str | None]) -> tuple[int, str]:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": 2, "resource_name": name, "configs": configs}
    client = KafkaClient(surface, settings=SETTINGS)
    (answer,) = client.ask(Api.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses
    return code(answer.error_code), answer.error_message or ""


SET, DELETE, APPEND = 0, 1, 2


@pytest.mark.parametrize(
    ("key", "value"), [(STREAM, "other:{partition}"), (BITS, "10"), (FIELD, "value"), (BITS, "21")]
)
def test_none_is_changed_and_none_is_added(key: str, value: str) -> None:
    surface = surface_of()
    assert altered(surface, "mapped", (key, SET, value))[0] == 40
    assert altered(surface, "orders", (key, SET, value))[0] == 40, "a topic in segments"
    surface.add_topic(topic("ours", 1, first_group=320, configs=((STORE, "redis"),)))
    assert altered(surface, "ours", (key, SET, value))[0] == 40, "not even one that says what is so"
    assert altered(surface, "mapped", (key, APPEND, value))[0] == 40
    assert surface.commands == []


def test_what_is_asked_to_be_as_it_is_or_its_default_stays() -> None:
    surface = surface_of()
    before = surface.topics["mapped"].configs
    same = [(key, SET, value) for key, value in before]
    assert altered(surface, "mapped", *same) == (0, "")
    assert altered(surface, "mapped", (STREAM, DELETE, None), (BITS, DELETE, None), (FIELD, DELETE, None)) == (0, "")
    assert surface.commands == []
    resource = {"resource_type": 2, "resource_name": "mapped", "configs": [{"name": "retention.ms", "value": "5000"}]}
    client = KafkaClient(surface, settings=SETTINGS)
    (answer,) = client.ask(Api.ALTER_CONFIGS, 2, resources=[resource]).responses
    assert code(answer.error_code) == 0
    (command,) = surface.commands
    assert isinstance(command, AlterTopicConfigs)
    assert dict(command.configs) == {**dict(before), "retention.ms": "5000"}


# -- what tools are shown


def shown(surface: FakeSurface, name: str, settings: Any = SETTINGS) -> dict[str, tuple[str, int]]:
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
    (result,) = KafkaClient(surface, settings=settings).ask(Api.DESCRIBE_CONFIGS, 4, resources=[resource]).results
    assert code(result.error_code) == 0
    return {one.name: (one.value, one.config_source) for one in result.configs}


def test_a_topic_shows_those_that_it_has_and_others_show_none() -> None:
    surface = surface_of()
    told = shown(surface, "mapped")
    assert (told[STREAM], told[BITS], told[FIELD]) == (("theirs:{partition}", 1), ("20", 1), ("data", 1))
    single = shown(surface, "single")
    assert (single[STREAM], BITS in single, FIELD in single) == (("the one", 1), False, False)
    assert not {STREAM, BITS, FIELD, STORE} & shown(surface, "orders").keys()


def test_retention_of_somebody_elses_stream_is_what_the_topic_itself_says() -> None:
    """Not Kafka's seven days, and not the server's file: nobody has asked for it."""
    from_file = {**SETTINGS.topic_values}
    from_file["retention.ms"] = from_file["retention.ms"]._replace(value="1000", in_file=True)
    settings = api_settings(redis=True, topic_values=from_file)
    surface = surface_of()
    for each in ("mapped", "single"):
        told = shown(surface, each, settings)
        assert (told["retention.ms"], told["retention.bytes"]) == (("-1", 5), ("-1", 5))
    assert shown(surface, "orders", settings)["retention.ms"] == ("1000", 4)
    own = ((STREAM, "mine"), ("retention.ms", "9"), (STORE, "redis"))
    surface.add_topic(topic("own", 1, first_group=330, configs=own))
    assert shown(surface, "own", settings)["retention.ms"] == ("9", 1)
    named = [{"name": key, "value": value} for key, value in in_redis(redis_stream="x").items()]
    asked = wanted("new", num_partitions=1, configs=named)
    answer = create(surface, asked, settings=settings)
    assert outcome(answer) == [("new", 0)]
    told = {one.name: (one.value, one.config_source) for one in answer.topics[0].configs}
    assert (told["retention.ms"], told["retention.bytes"], told[STREAM]) == (("-1", 5), ("-1", 5), ("x", 1))
