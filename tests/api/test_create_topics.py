"""CreateTopics (protocol notes 15)."""

from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.controller.commands import Command, CommandResult, CreateTopic
from muster_coordinator.controller.image import MEMBERS_LEVEL, OFFSETS_TOPIC
from muster_coordinator.controller.topics import raft_groups
from muster_coordinator.limits import RAFT_GROUPS_MAX
from muster_coordinator.topics.stores import STORE_CONFIG
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, topic
from tests.api.kafka_client import KafkaClient, code
from tests.api.topic_requests import ORDERS_ID, assigned, create, grow, outcome, unled, wanted
from tests.made_settings import api_settings


def refusal(surface: FakeSurface, **more: Any) -> int:
    answer = create(surface, wanted("new", **more))
    if code(answer.topics[0].error_code):
        assert surface.commands == []
    return code(answer.topics[0].error_code)


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_proposed_with_a_fresh_id(version: int) -> None:
    surface = FakeSurface()
    configs = [{"name": "retention.ms", "value": "5000"}, {"name": "max.message.bytes", "value": "9"}]
    answer = create(surface, wanted("new", configs=configs), version=version)
    assert outcome(answer) == [("new", 0)]
    (command,) = surface.commands
    assert isinstance(command, CreateTopic)
    assert (command.name, command.partitions) == ("new", 2)
    assert command.configs == (("max.message.bytes", "9"), ("retention.ms", "5000"))
    assert command.topic_id != bytes(16)
    assert surface.command_deadlines == [surface.fake_loop.now_ms + 5_000]
    if version >= 5:
        (said,) = answer.topics
        assert (said.num_partitions, said.replication_factor, len(said.configs)) == (2, 3, 33)
        assert {c.name: (c.value, c.config_source) for c in said.configs}["retention.ms"] == ("5000", 1)
        assert {c.name: (c.value, c.config_source) for c in said.configs}["segment.ms"] == ("604800000", 5)
    if version >= 7:
        assert answer.topics[0].topic_id.bytes == command.topic_id


@pytest.mark.parametrize("version", range(2, 8))
def test_minus_one_means_the_defaults_in_every_version(version: int) -> None:
    surface = FakeSurface()
    settings = api_settings(num_partitions=6)
    asked = wanted("new", num_partitions=-1, replication_factor=-1)
    assert outcome(create(surface, asked, version=version, settings=settings)) == [("new", 0)]
    assert [c.partitions for c in surface.commands if isinstance(c, CreateTopic)] == [6]


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "x" * 250, "sp ace"])
def test_bad_names_are_17(name: str) -> None:
    assert outcome(create(FakeSurface(), wanted(name))) == [(name, 17)]


def test_names_that_collide_with_an_existing_topic_are_17() -> None:
    surface = FakeSurface()
    surface.add_topic(topic("a.b", 1, first_group=300))
    assert outcome(create(surface, wanted("a_b"))) == [("a_b", 17)]


def test_existing_is_36_even_when_only_validated() -> None:
    assert outcome(create(FakeSurface(), wanted("orders"), validate_only=True)) == [("orders", 36)]
    assert outcome(create(FakeSurface(), wanted(OFFSETS_TOPIC))) == [(OFFSETS_TOPIC, 36)]


def test_reserved_name() -> None:
    assert outcome(create(FakeSurface(), wanted("__cluster_metadata"))) == [("__cluster_metadata", 42)]


def test_the_same_name_twice_is_42_once() -> None:
    surface = FakeSurface()
    assert outcome(create(surface, wanted("new"), wanted("new"))) == [("new", 42)]
    assert surface.commands == []


def test_good_topics_of_a_half_bad_request_are_created() -> None:
    surface = FakeSurface()
    assert outcome(create(surface, wanted("good"), wanted("b/d"), wanted("orders"))) == [
        ("good", 0), ("b/d", 17), ("orders", 36),
    ]  # fmt: skip
    assert len(surface.commands) == 1


@pytest.mark.parametrize(
    "config",
    [
        {"name": "retention.ms", "value": None},
        {"name": "no.such.config", "value": "1"},
        {"name": "retention.ms", "value": "soon"},
        {"name": "cleanup.policy", "value": "compact,forget"},
        {"name": "compression.type", "value": "gzip"},
        {"name": "segment.bytes", "value": "1000"},
        {"name": "min.insync.replicas", "value": "3"},
    ],
)
def test_configs_that_cannot_be_are_40_and_say_why(config: dict[str, Any]) -> None:
    surface = FakeSurface()
    answer = create(surface, wanted("new", configs=[config]))
    assert outcome(answer) == [("new", 40)]
    assert config["name"] in answer.topics[0].error_message
    assert surface.commands == []


@pytest.mark.parametrize(("level", "expected"), [(MEMBERS_LEVEL - 1, 40), (MEMBERS_LEVEL, 0)])
def test_a_topic_is_compacted_from_the_level_on_at_which_every_replica_cleans(level: int, expected: int) -> None:
    surface = FakeSurface()
    surface.feature_level = level
    policy = {"name": "cleanup.policy", "value": "compact"}
    assert outcome(create(surface, wanted("new", configs=[policy]))) == [("new", expected)]


def test_a_replication_factor_counts_voters_that_have_not_registered_here_yet() -> None:
    """A replica that is ready may learn of the others' registrations a moment later."""
    surface = FakeSurface()
    surface.feature_level = MEMBERS_LEVEL - 1
    del surface.brokers[0], surface.brokers[2]
    answer = create(surface, wanted("new", replication_factor=3), validate_only=True)
    assert code(answer.topics[0].error_code) == 0
    assert refusal(surface, replication_factor=4) == 38


@pytest.mark.parametrize(("factor", "expected"), [(0, 38), (-2, 38), (4, 38), (1, 0), (3, 0), (-1, 0)])
def test_replication_factors(factor: int, expected: int) -> None:
    assert refusal(FakeSurface(), replication_factor=factor) == expected


def test_dead_brokers_count_as_registered() -> None:
    surface = FakeSurface()
    surface.dead |= {1, 2}
    assert refusal(surface, replication_factor=3, num_partitions=1) == 0


def room(surface: FakeSurface) -> int:
    """Partitions that a replica still takes."""
    image = surface.image()
    assert image is not None
    return RAFT_GROUPS_MAX - raft_groups(image)


@pytest.mark.parametrize(("partitions", "expected"), [(0, 37), (-2, 37), (10_000, 44), (10_001, 44)])
def test_numbers_of_partitions(partitions: int, expected: int) -> None:
    surface = FakeSurface()
    assert refusal(surface, num_partitions=partitions) == expected
    assert refusal(surface, num_partitions=room(surface) + 1) == 44
    assert refusal(surface, num_partitions=room(surface)) == 0


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (assigned((0, (0, 1)), num_partitions=1), 42),
        (assigned((0, (0, 1)), replication_factor=2), 42),
        (assigned((1, (0, 1))), 39),
        (assigned((0, (0,)), (0, (1,))), 39),
        (assigned((0, (9,))), 39),
        (assigned((0, (1, 1))), 39),
        (assigned((0, ())), 39),
        (assigned((0, (0, 1, 2)), (1, (0, 1))), 39),
        (assigned((0, (0, 1, 2)), (1, (0, 1, 2, 2))), 39),
        (assigned((0, (0, 1, 2)), (2, (0, 1, 2))), 39),
        (assigned((0, (0, 1, 2)), (0, (0, 1, 2))), 39),
        (assigned((-1, (0, 1, 2)), (0, (0, 1, 2))), 39),
        (assigned((0, (0, 1, -2))), 39),
    ],
)
def test_manual_assignments_that_cannot_be_had_are_refused(asked: dict[str, Any], expected: int) -> None:
    assert refusal(FakeSurface(), **asked) == expected


def test_manual_assignments_that_name_every_broker_are_taken_in_any_order() -> None:
    surface = FakeSurface()
    asked = assigned((2, (2, 0, 1)), (0, (0, 1, 2)), (1, (1, 0, 2)))
    answer = create(surface, {"name": "new", **asked})
    assert outcome(answer) == [("new", 0)]
    assert (answer.topics[0].num_partitions, answer.topics[0].replication_factor) == (3, 3)
    assert [c.placed for c in surface.commands if isinstance(c, CreateTopic)] == [((0, 1, 2), (1, 0, 2), (2, 0, 1))]


def test_partitions_of_assignments_and_defaults_count_towards_the_limit_of_a_request() -> None:
    surface = FakeSurface()
    each = limits.PARTITIONS_PER_REQUEST_MAX // 10
    by_hand = [{"name": f"a{n}", **assigned(*((n, (0, 1, 2)) for n in range(each)))} for n in range(10)]
    assert outcome(create(surface, *by_hand, validate_only=True)) == [(f"a{n}", 0) for n in range(10)]
    one_more = wanted("b", num_partitions=-1)
    assert outcome(create(surface, *by_hand, one_more)) == [*((f"a{n}", 44) for n in range(10)), ("b", 44)]
    assert surface.commands == []


@pytest.mark.parametrize("validate_only", [True, False])
def test_more_partitions_than_a_replica_takes_are_refused_in_words_also_when_only_asked_about(
    validate_only: bool,
) -> None:
    surface = FakeSurface()
    most = room(surface)
    surface.add_topic(topic("grows", most - 10, first_group=1_000))
    for count, expected in ((most + 1, 44), (most, 0)):
        assert grow(surface, {"name": "grows", "count": count}, validate_only=True) == [("grows", expected)]
    wide = (wanted("not", num_partitions=11), wanted("far", num_partitions=9_000), wanted("fits", num_partitions=10))
    answer = create(surface, *wide, validate_only=validate_only)
    assert outcome(answer) == [("not", 44), ("far", 44), ("fits", 0)]
    message = "11 more partitions would exceed the limit of 2000 Raft groups; 1990 are in use"
    assert answer.topics[0].error_message == message
    assert len(surface.commands) == (not validate_only)


def test_validate_only_creates_nothing() -> None:
    surface = FakeSurface()
    answer = create(surface, wanted("new"), validate_only=True)
    assert outcome(answer) == [("new", 0)]
    assert surface.commands == []


@pytest.mark.parametrize("error", [36, 7, 41, 44])
def test_what_the_controller_decides_is_the_answer(error: int) -> None:
    surface = FakeSurface()
    surface.on_command = lambda _: CommandResult(error, "because")
    (said,) = create(surface, wanted("new")).topics
    assert (code(said.error_code), said.error_message) == (error, "because")
    assert (said.num_partitions, said.replication_factor, said.configs, said.topic_id) == (-1, -1, (), None)


def test_a_promise_waits_for_the_controller() -> None:
    surface = FakeSurface()
    held: list[Callable[[], None]] = []
    surface.on_command = lambda _: held.append(lambda: None)  # type: ignore[func-returns-value]
    client = KafkaClient(surface)
    client.send(Api.CREATE_TOPICS, 7, topics=[wanted("new")], timeout_ms=5_000)
    assert client.receive() == []


def test_new_topics_are_answered_when_all_their_partitions_have_leaders() -> None:
    surface = FakeSurface()
    surface.elected = False
    client = KafkaClient(surface)
    client.send(Api.CREATE_TOPICS, 7, topics=[wanted("a"), wanted("b", num_partitions=60)], timeout_ms=5_000)
    for group in unled(surface):
        surface.fake_loop.run(10)
        assert client.receive() == []
        surface.elect(group, 0, 1)
    (answer,) = client.receive()
    assert outcome(answer) == [("a", 0), ("b", 0)]


def test_at_the_end_of_the_time_it_is_7_for_those_without_leaders_and_nothing_waits_on() -> None:
    surface = FakeSurface()
    surface.elected = False
    client = KafkaClient(surface)
    topics = [wanted("led"), wanted("late"), wanted("orders")]
    client.send(Api.CREATE_TOPICS, 7, topics=topics, timeout_ms=700)
    for partition in surface.topics["led"].partitions:
        surface.elect(partition.group, 1, 1)
    surface.fake_loop.run(699)
    assert client.receive() == []
    surface.fake_loop.run(1)
    (answer,) = client.receive()
    assert outcome(answer) == [("led", 0), ("late", 7), ("orders", 36)]
    assert "created" in answer.topics[1].error_message
    assert surface.fake_loop.pending == 0


def test_a_replica_that_learns_of_the_topic_later_answers_later() -> None:
    surface = FakeSurface()
    taken: list[Command] = []
    surface.on_command = lambda command: CommandResult(0, str(taken.append(command)))  # type: ignore[func-returns-value]
    surface.behind = True
    client = KafkaClient(surface)
    client.send(Api.CREATE_TOPICS, 7, topics=[wanted("new")], timeout_ms=5_000)
    surface.fake_loop.run(100)
    assert client.receive() == []
    surface.apply(taken[0])
    surface.fake_loop.run(20)
    assert outcome(client.receive()[0]) == [("new", 0)]


def test_a_topic_that_is_deleted_at_once_was_created_all_the_same() -> None:
    surface = FakeSurface()
    surface.elected = False
    client = KafkaClient(surface)
    client.send(Api.CREATE_TOPICS, 7, topics=[wanted("brief")], timeout_ms=5_000)
    gone = surface.topics.pop("brief")
    surface.deleted_ids = frozenset([gone.topic_id])
    for partition in gone.partitions:
        surface.elect(partition.group, 0, 1)
    surface.fake_loop.run(20)
    assert outcome(client.receive()[0]) == [("brief", 0)]


def test_a_leader_that_cannot_be_reached_is_none() -> None:
    surface = FakeSurface()
    surface.dead |= {1}
    client = KafkaClient(surface)
    by_hand = {"name": "new", **assigned((0, (0, 1, 2)), (1, (0, 1, 2)))}
    client.send(Api.CREATE_TOPICS, 7, topics=[by_hand], timeout_ms=5_000)
    surface.fake_loop.run(100)
    assert client.receive() == []
    surface.dead.clear()
    surface.fake_loop.run(20)
    assert outcome(client.receive()[0]) == [("new", 0)]


def test_as_many_partitions_as_a_replica_takes_cost_one_pass_over_them() -> None:
    surface = FakeSurface()
    surface.elected = False
    client, partitions = KafkaClient(surface), room(surface)
    client.send(Api.CREATE_TOPICS, 7, topics=[wanted("wide", num_partitions=partitions)], timeout_ms=60_000)
    surface.lookups.clear()
    for group in unled(surface):
        surface.elect(group, 0, 1)
    assert outcome(client.receive()[0]) == [("wide", 0)]
    assert surface.lookups.count("leadership") < 5 * partitions


def test_where_topics_are_not_ours_none_is_created() -> None:
    settings = api_settings(topics_mode=TopicsMode.NONE)
    assert outcome(create(FakeSurface(), wanted("new"), settings=settings)) == [("new", 44)]


@pytest.mark.parametrize("level", [MEMBERS_LEVEL - 1, MEMBERS_LEVEL])
def test_a_topic_is_in_redis_once_every_replica_knows_what_that_is(level: int) -> None:
    surface = FakeSurface()
    surface.feature_level = level
    settings = api_settings(topics_mode=TopicsMode.REDIS, redis=True)
    knows = level >= MEMBERS_LEVEL
    assert outcome(create(surface, wanted("new"), settings=settings)) == [("new", 0 if knows else 44)]
    told = [command.configs for command in surface.commands if isinstance(command, CreateTopic)]
    assert told == ([((STORE_CONFIG, "redis"),)] if knows else [])


@pytest.mark.parametrize(("named", "expected"), [("embedded", 0), ("redis", 40), ("tape", 40), ("", 40)])
def test_a_topic_is_made_in_a_store_that_the_cluster_has(named: str, expected: int) -> None:
    topic = wanted("new", configs=[{"name": STORE_CONFIG, "value": named}])
    assert outcome(create(FakeSurface(), topic)) == [("new", expected)]


def test_ids_are_never_used_twice() -> None:
    surface = FakeSurface()
    ids = iter([bytes(16), ORDERS_ID, b"deleted---------", b"fresh-----------"])

    class Scripted:
        def randbytes(self, n: int) -> bytes:
            return next(ids) if n == 16 else bytes(n)  # of another length: not an id

    surface.rand = Scripted()  # type: ignore[assignment]
    surface.deleted_ids = frozenset([b"deleted---------"])
    create(surface, wanted("new"))
    assert [c.topic_id for c in surface.commands if isinstance(c, CreateTopic)] == [b"fresh-----------"]


def test_limits_used_here_are_the_documented_ones() -> None:
    assert limits.PARTITIONS_PER_REQUEST_MAX == 10_000
