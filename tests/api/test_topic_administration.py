"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords (protocol notes 14, 15)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.services import ApiSettings, TopicsMode
from muster_coordinator.controller.commands import AddPartitions, Command, CommandResult, CreateTopic, DeleteTopic
from muster_coordinator.controller.image import MEMBERS_LEVEL, OFFSETS_TOPIC
from muster_coordinator.controller.transitions import raft_groups
from muster_coordinator.errors import Code
from muster_coordinator.limits import RAFT_GROUPS_MAX
from muster_coordinator.wire.throttling import Throttling
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, topic
from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings

ORDERS_ID = b"orders----------"


def wanted(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 2, "replication_factor": 3, **more}


def create(surface: FakeSurface, *topics: dict[str, Any], version: int = 7, **more: Any) -> Any:
    settings = more.pop("settings", None)
    client = KafkaClient(surface, settings=settings)
    return client.ask(Api.CREATE_TOPICS, version, topics=topics, **{"timeout_ms": 5_000, **more})


def outcome(answer: Any) -> list[tuple[str, int]]:
    return [(t.name, code(t.error_code)) for t in answer.topics]


def refusal(surface: FakeSurface, **more: Any) -> int:
    answer = create(surface, wanted("new", **more))
    if code(answer.topics[0].error_code):
        assert surface.commands == []
    return code(answer.topics[0].error_code)


# -- CreateTopics


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


def assigned(*replicas: tuple[int, tuple[int, ...]], **more: Any) -> dict[str, Any]:
    assignments = [{"partition_index": i, "broker_ids": brokers} for i, brokers in replicas]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": assignments, **more}


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


def unled(surface: FakeSurface) -> list[int]:
    """The Raft groups of partitions without leader."""
    groups = (p.group for t in surface.topics.values() for p in t.partitions)
    return [group for group in groups if group not in surface.leaders]


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


# -- DeleteTopics


def delete(
    surface: FakeSurface, version: int, *names: str, settings: ApiSettings | None = None
) -> list[tuple[Any, int]]:
    topics = [{"name": name} for name in names]
    client = KafkaClient(surface, settings=settings)
    answer = client.ask(Api.DELETE_TOPICS, version, topic_names=names, topics=topics, timeout_ms=1_000)
    return [(r.name, code(r.error_code)) for r in answer.responses]


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


# -- CreatePartitions


def grow(surface: FakeSurface, *topics: dict[str, Any], version: int = 3, **more: Any) -> list[tuple[str, int]]:
    answer = KafkaClient(surface).ask(
        Api.CREATE_PARTITIONS,
        version,
        topics=[{"assignments": None, **t} for t in topics],
        **{"timeout_ms": 1_000, **more},
    )
    return [(r.name, code(r.error_code)) for r in answer.results]


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


# -- DeleteRecords


def cut(surface: FakeSurface, *parts: tuple[str, int, int], version: int = 2) -> list[tuple[int, int]]:
    topics: dict[str, list[Any]] = {}
    for name, index, offset in parts:
        topics.setdefault(name, []).append({"partition_index": index, "offset": offset})
    answer = KafkaClient(surface).ask(
        Api.DELETE_RECORDS,
        version,
        timeout_ms=1_000,
        topics=[{"name": name, "partitions": entries} for name, entries in topics.items()],
    )
    return [(code(p.error_code), p.low_watermark) for t in answer.topics for p in t.partitions]


@pytest.mark.parametrize("version", range(3))
def test_the_log_start_moves_and_minus_one_is_the_high_watermark(version: int) -> None:
    surface = FakeSurface()
    surface.log_of("orders", 0).append(b"x")
    assert cut(surface, ("orders", 0, 4), version=version) == [(0, 4)]
    assert cut(surface, ("orders", 0, -1), version=version) == [(0, 10)]
    assert surface.log_of("orders", 0).deleted == [4, -1]


def test_records_that_cannot_be_deleted() -> None:
    surface = FakeSurface()
    surface.add_topic(topic("kept", 1, first_group=300, configs=(("cleanup.policy", "compact"),)))
    parts = (
        ("nope", 0, 1), ("orders", 9, 1), ("orders", 1, 1), ("orders", 0, -2), (OFFSETS_TOPIC, 0, 1), ("kept", 0, 1),
    )  # fmt: skip
    assert [c for c, _ in cut(surface, *parts)] == [3, 3, 6, 1, 17, 44]
    assert surface.log_of("orders", 0).deleted == []


def test_limits_used_here_are_the_documented_ones() -> None:
    assert limits.PARTITIONS_PER_REQUEST_MAX == 10_000


# -- controller_mutation_rate


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
