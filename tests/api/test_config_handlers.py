"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs (protocol notes 15)."""

from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from muster_coordinator import node_settings
from muster_coordinator.controller.commands import AlterBrokerConfigs, AlterTopicConfigs, Command, CommandResult
from muster_coordinator.controller.image import MEMBERS_LEVEL, OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.settings import settings_of
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, broker, topic
from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SETTINGS = api_settings(
    broker_configs=(("log.dirs", "/data"), ("num.partitions", "1")), file_keys=frozenset({"log.dirs"})
)


def configured() -> FakeSurface:
    surface = FakeSurface()
    surface.add_topic(topic("tuned", 1, first_group=300, configs=(("retention.ms", "5000"),)))
    return surface


def describe(surface: FakeSurface, kind: int, name: str, keys: Any = None, version: int = 4, **more: Any) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    client = KafkaClient(surface, settings=SETTINGS)
    (result,) = client.ask(Api.DESCRIBE_CONFIGS, version, resources=[resource], **more).results
    return result


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("keys", [None, ()])
def test_a_topic_shows_kafkas_33_configs(version: int, keys: Any) -> None:
    result = describe(configured(), TOPIC, "tuned", keys, version)
    assert (code(result.error_code), result.error_message) == (0, "")
    assert len(result.configs) == 33
    shown = {c.name: (c.value, c.config_source) for c in result.configs}
    assert shown["retention.ms"] == ("5000", 1)
    assert shown["max.message.bytes"] == ("1048588", 5)
    assert shown["cleanup.policy"] == ("delete", 5)
    if version >= 3:
        kinds = {c.name: c.config_type for c in result.configs}
        assert (kinds["retention.ms"], kinds["cleanup.policy"], kinds["preallocate"]) == (5, 7, 1)


def test_unknown_keys_are_left_out() -> None:
    result = describe(configured(), TOPIC, "tuned", ("retention.ms", "no.such"))
    assert [c.name for c in result.configs] == ["retention.ms"]


def test_synonyms_and_documentation_only_when_asked() -> None:
    surface = configured()
    asked = describe(surface, TOPIC, "tuned", ("retention.ms",), include_synonyms=True, include_documentation=True)
    assert [(s.value, s.source) for s in asked.configs[0].synonyms] == [("5000", 1), ("604800000", 5)]
    assert asked.configs[0].documentation
    unasked = describe(surface, TOPIC, "tuned", ("retention.ms",))
    assert (unasked.configs[0].synonyms, unasked.configs[0].documentation) == ((), None)


def test_a_topic_shows_what_the_servers_file_makes_of_it() -> None:
    """Kafka's source and synonyms (`ConfigHelper`): the topic's own, the broker's under its own key, the default."""
    texts = {
        "node.id": "0", "log.dirs": "/data", "log.retention.minutes": "5", "log.roll.hours": "2",
        "log.segment.bytes": "1048576", "message.max.bytes": "2000000", "offsets.topic.segment.bytes": "65536",
        "log.cleanup.policy": "compact", "log.retention.ms": "",
    }  # fmt: skip
    settings = node_settings.api_settings(settings_of(texts))
    surface = configured()
    surface.add_topic(topic("plain", 1, first_group=301))

    def shown(name: str, key: str) -> tuple[Any, ...]:
        asked = [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": (key,)}]
        client = KafkaClient(surface, settings=settings)
        (result,) = client.ask(Api.DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True).results
        (one,) = result.configs
        assert (one.value, one.config_source) == (one.synonyms[0].value, one.synonyms[0].source)
        return tuple((s.name, s.value, s.source) for s in one.synonyms)

    default = ("retention.ms", "604800000", 5)
    assert shown("tuned", "retention.ms") == (
        ("retention.ms", "5000", 1),
        ("log.retention.minutes", "300000", 4),
        default,
    )
    assert shown("plain", "retention.ms") == (("log.retention.minutes", "300000", 4), default)
    assert shown("plain", "segment.ms") == (("log.roll.hours", "7200000", 4), ("segment.ms", "604800000", 5))
    assert shown("plain", "segment.bytes")[0] == ("log.segment.bytes", "1048576", 4)
    assert shown("plain", "max.message.bytes")[0] == ("message.max.bytes", "2000000", 4)
    assert shown("plain", "delete.retention.ms") == (("delete.retention.ms", "86400000", 5),)
    assert shown("plain", "cleanup.policy")[0] == ("log.cleanup.policy", "compact", 4)
    surface.feature_level = 2
    assert shown("plain", "cleanup.policy") == (("cleanup.policy", "delete", 5),), "not before all replicas know it"
    assert shown(OFFSETS_TOPIC, "cleanup.policy")[0][1:] == ("delete", 5)
    surface.feature_level = MEMBERS_LEVEL
    assert shown(OFFSETS_TOPIC, "segment.bytes")[0] == ("offsets.topic.segment.bytes", "65536", 4)
    assert shown(OFFSETS_TOPIC, "cleanup.policy")[0][1] == "compact"
    assert shown(OFFSETS_TOPIC, "segment.ms") == (("segment.ms", "604800000", 5),)


@pytest.mark.parametrize(
    ("replicas", "in_file", "expected"),
    [(1, None, ("1", 5)), (3, None, ("2", 5)), (3, "1", ("2", 5)), (5, "2", ("3", 5)), (3, "3", ("3", 4))],
)
def test_a_majority_is_the_least_that_has_a_batch(
    replicas: int, in_file: str | None, expected: tuple[str, int]
) -> None:
    """Whatever less is asked for; and every batch is durable before it is acknowledged, as with flush.messages=1."""
    texts = {"node.id": "0", "log.dirs": "/data"} | ({} if in_file is None else {"min.insync.replicas": in_file})
    client = KafkaClient(surface := FakeSurface(), settings=node_settings.api_settings(settings_of(texts)))
    surface.brokers |= {BrokerId(n): broker(n) for n in (3, 4)}
    wanted = {"name": "new", "num_partitions": 1, "replication_factor": replicas}
    (made,) = client.ask(Api.CREATE_TOPICS, 7, topics=[wanted], validate_only=True, timeout_ms=1_000).topics
    assert code(made.error_code) == 0
    found = {c.name: (c.value, c.config_source) for c in made.configs}
    assert found["min.insync.replicas"] == expected
    assert (found["flush.messages"], found["file.delete.delay.ms"]) == (("1", 5), ("0", 5))
    (told,) = client.ask(
        Api.DESCRIBE_CONFIGS, 4, resources=[{"resource_type": TOPIC, "resource_name": OFFSETS_TOPIC}]
    ).results
    assert {c.name: c.value for c in told.configs}["min.insync.replicas"] == ("3" if in_file == "3" else "2")


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [(TOPIC, "nope", 3), (TOPIC, "a/b", 17), (BROKER, "1", 42), (BROKER, "x", 42), (0, "", 42), (99, "", 42)],
)
def test_resources_that_are_not_there(kind: int, name: str, expected: int) -> None:
    result = describe(configured(), kind, name)
    assert (code(result.error_code), result.configs) == (expected, ())


def test_this_broker_shows_its_settings_read_only() -> None:
    result = describe(configured(), BROKER, "0")
    assert [(c.name, c.value, c.read_only, c.config_source) for c in result.configs] == [
        ("log.dirs", "/data", True, 4),
        ("num.partitions", "1", True, 5),
    ], "what the file has, and what is a default"
    assert [c.name for c in describe(configured(), BROKER, "0", ("log.dirs",)).configs] == ["log.dirs"]
    unset = api_settings(broker_configs=(("log.roll.ms", ""),))
    asked = [{"resource_type": BROKER, "resource_name": "0", "configuration_keys": None}]
    answer = KafkaClient(FakeSurface(), settings=unset).ask(Api.DESCRIBE_CONFIGS, 4, resources=asked)
    assert [(c.name, c.value) for c in answer.results[0].configs] == [("log.roll.ms", None)]
    assert describe(configured(), BROKER, "").configs == ()
    assert describe(configured(), GROUP, "g").configs == ()


def test_the_default_number_of_replicas_is_told_as_it_is_in_force() -> None:
    """Tools create topics with it: what a smaller cluster would refuse does not help them."""
    settings = api_settings(broker_configs=(("default.replication.factor", "5"),), replication_factor=5)

    def told(surface: FakeSurface) -> str:
        asked = [{"resource_type": BROKER, "resource_name": "0", "configuration_keys": None}]
        answer = KafkaClient(surface, settings=settings).ask(Api.DESCRIBE_CONFIGS, 4, resources=asked)
        return str(answer.results[0].configs[0].value)

    surface = FakeSurface()
    assert told(surface) == "3"
    surface.brokers |= {BrokerId(n): broker(n) for n in (3, 4)}
    assert told(surface) == "5"
    surface.feature_level = 2
    assert told(surface) == "3", "all that formed the cluster"
    surface.formed = False
    assert told(surface) == "5"


# -- IncrementalAlterConfigs


def change(name: str, operation: int, value: str | None) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}


def alter(surface: FakeSurface, *changes: dict[str, Any], kind: int = TOPIC, name: str = "tuned", **more: Any) -> int:
    resource = {"resource_type": kind, "resource_name": name, "configs": changes}
    (answer,) = KafkaClient(surface).ask(Api.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], **more).responses
    return code(answer.error_code)


def new_configs(surface: FakeSurface) -> dict[str, str]:
    (command,) = surface.commands
    assert isinstance(command, AlterTopicConfigs)
    assert command.expected == (("retention.ms", "5000"),)
    return dict(command.configs)


@pytest.mark.parametrize("version", [0, 1])
def test_set_and_delete(version: int) -> None:
    surface = configured()
    changes = (change("segment.ms", 0, "900"), change("retention.ms", 1, None))
    resource = {"resource_type": TOPIC, "resource_name": "tuned", "configs": changes}
    answer = KafkaClient(surface).ask(Api.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource])
    assert code(answer.responses[0].error_code) == 0
    assert new_configs(surface) == {"segment.ms": "900"}


def test_append_and_subtract_on_lists() -> None:
    surface = configured()
    name = "leader.replication.throttled.replicas"
    assert alter(surface, change(name, 2, "0:1,1:2")) == 0
    assert new_configs(surface)[name] == "0:1,1:2"
    surface = configured()
    assert alter(surface, change("cleanup.policy", 2, "delete")) == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((change("no.such", 0, "1"),), 40),
        ((change("no.such", 1, None),), 0),
        ((change("retention.ms", 0, "x"),), 40),
        ((change("cleanup.policy", 0, "forget"),), 40),
        ((change("cleanup.policy", 3, "delete"),), 40),
        ((change("retention.ms", 2, "5"),), 40),
        ((change("retention.ms", 0, None),), 42),
        ((change("retention.ms", 4, "5"),), 42),
        ((change("retention.ms", -1, "5"),), 42),
        ((change("retention.ms", 0, "1"), change("retention.ms", 0, "2")), 42),
    ],
)
def test_changes_that_cannot_be(changes: tuple[dict[str, Any], ...], expected: int) -> None:
    surface = configured()
    assert alter(surface, *changes) == expected
    assert surface.commands == []


def test_other_resources_are_not_changed_here() -> None:
    surface = configured()
    some = change("retention.ms", 0, "1")
    assert alter(surface, some, name="nope") == 3
    assert alter(surface, some, name=OFFSETS_TOPIC) == 44
    assert alter(surface, some, kind=BROKER, name="0") == 44
    assert alter(surface, some, kind=LOGGER, name="0") == 42
    assert surface.commands == []


LEADER, FOLLOWER = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
BETWEEN_FOLDERS = "replica.alter.log.dirs.io.max.bytes.per.second"


def of_broker(surface: FakeSurface, *changes: dict[str, Any], name: str = "1", **more: Any) -> int:
    return alter(surface, *changes, kind=BROKER, name=name, **more)


def test_throttles_of_moves_are_set_and_removed_as_kafkas_tool_does() -> None:
    """The tool sets both before a move, of each broker and from whichever it asks, and after it removes a third one,
    too, which does not exist here."""
    surface = configured()
    assert of_broker(surface, change(LEADER, 0, "20000000"), change(FOLLOWER, 0, "30000000")) == 0
    set_both = AlterBrokerConfigs(
        broker=BrokerId(1), expected=(), configs=((FOLLOWER, "30000000"), (LEADER, "20000000"))
    )
    assert surface.commands == [set_both]
    assert of_broker(surface, change(LEADER, 1, None)) == 0
    assert surface.broker_configs[1] == ((FOLLOWER, "30000000"),), "the other stays"
    assert of_broker(surface, *(change(name, 1, None) for name in (LEADER, FOLLOWER, BETWEEN_FOLDERS))) == 0
    assert surface.commands[-1].configs == ()
    assert len(surface.commands) == 3
    assert of_broker(surface, change(LEADER, 1, None)) == 0, "none is set: nothing is to do"
    assert len(surface.commands) == 3
    assert alter(surface, change("leader.replication.throttled.replicas", 0, "0:1,0:2")) == 0, "of a topic"
    assert alter(surface, change("follower.replication.throttled.replicas", 0, "*")) == 0


def test_the_lists_of_throttled_replicas_of_the_offsets_topic_are_taken_and_mean_nothing() -> None:
    """Kafka's tools set and remove them around a move of its partitions, and the topic has no settings of its own."""
    surface = configured()
    lists = [f"{which}.replication.throttled.replicas" for which in ("leader", "follower")]
    for operation, value in ((0, "0:1"), (1, None)):
        assert alter(surface, *(change(name, operation, value) for name in lists), name=OFFSETS_TOPIC) == 0
    assert alter(surface, change(lists[0], 1, None), change("retention.ms", 1, None), name=OFFSETS_TOPIC) == 44
    assert surface.commands == []


def test_without_a_name_a_throttle_is_every_brokers() -> None:
    surface = configured()
    assert of_broker(surface, change(LEADER, 0, "20000000"), name="") == 0
    assert surface.commands[0].broker == -1


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (LEADER, "262143", 40), (LEADER, "0", 40), (LEADER, "-1", 40), (LEADER, "", 40), (LEADER, "fast", 40),
        (FOLLOWER, "1e6", 40), (FOLLOWER, str(2**63), 40), (FOLLOWER, None, 42), (BETWEEN_FOLDERS, "20000000", 44),
        ("log.dirs", "/elsewhere", 44), ("no.such", "1", 44),
    ],
)  # fmt: skip
def test_throttles_that_cannot_be(name: str, value: str | None, expected: int) -> None:
    surface = configured()
    assert of_broker(surface, change(LEADER, 0, "20000000") if name != LEADER else change(FOLLOWER, 1, None)) == 0
    before = len(surface.commands)
    assert of_broker(surface, change(name, 0, value)) == expected
    assert len(surface.commands) == before


def test_the_ends_of_a_throttles_range_may_be() -> None:
    for value in ("262144", str(2**63 - 1)):
        assert of_broker(configured(), change(LEADER, 0, value)) == 0


def test_nothing_of_a_change_is_done_if_a_part_of_it_cannot_be() -> None:
    surface = configured()
    rate = change(LEADER, 0, "20000000")
    assert of_broker(surface, rate, change("log.dirs", 1, None)) == 44
    assert of_broker(surface, rate, change(LEADER, 1, None)) == 42, "named twice"
    assert of_broker(surface, change(LEADER, 2, "20000000")) == 40, "it is no list"
    assert of_broker(surface, rate, name="tuned") == 42
    assert of_broker(surface, rate, name=str(2**31)) == 42
    assert of_broker(surface, rate, validate_only=True) == 0
    assert surface.commands == []


def test_a_throttle_changed_meanwhile_elsewhere_is_computed_anew() -> None:
    """The command is refused by the log; its image had another rate."""
    surface = configured()

    def refuse(command: Command) -> CommandResult:
        surface.on_command = lambda _: CommandResult(0)
        surface.broker_configs[BrokerId(1)] = ((FOLLOWER, "30000000"),)
        return CommandResult(Code.INVALID_REQUEST, "the configs of broker 1 were changed meanwhile")

    surface.on_command = refuse
    assert of_broker(surface, change(LEADER, 0, "20000000")) == 0
    assert surface.broker_configs[1] == ((FOLLOWER, "30000000"), (LEADER, "20000000"))


def test_what_the_log_says_of_an_unknown_broker_and_of_the_level_is_answered() -> None:
    surface = configured()
    for error in (Code.BROKER_ID_NOT_REGISTERED, Code.UNSUPPORTED_VERSION):
        surface.on_command = lambda _, error=error: CommandResult(error, "why")
        assert of_broker(surface, change(LEADER, 0, "20000000"), name="77") == error


def test_a_broker_shows_its_throttles_before_the_settings_of_its_file() -> None:
    surface = configured()
    surface.broker_configs = {
        BrokerId(0): ((LEADER, "20000000"),),
        BrokerId(1): ((LEADER, "90000000"),),
        BrokerId(-1): ((FOLLOWER, "30000000"), (LEADER, "40000000")),
    }
    result = describe(surface, BROKER, "0", include_synonyms=True, include_documentation=True)
    shown = [(c.name, c.value, c.read_only, c.config_source, c.config_type) for c in result.configs]
    assert shown == [
        (FOLLOWER, "30000000", False, 3, 5),
        (LEADER, "20000000", False, 2, 5),
        ("log.dirs", "/data", True, 4, 2),
        ("num.partitions", "1", True, 5, 2),
    ]
    assert [(s.name, s.value, s.source) for s in result.configs[1].synonyms] == [
        (LEADER, "20000000", 2), (LEADER, "40000000", 3),
    ]  # fmt: skip
    assert result.configs[0].documentation
    assert [c.name for c in describe(surface, BROKER, "0", (LEADER,)).configs] == [LEADER]
    assert [(c.name, c.config_source) for c in describe(surface, BROKER, "").configs] == [(FOLLOWER, 3), (LEADER, 3)]


def test_validate_only_and_no_change_propose_nothing() -> None:
    surface = configured()
    assert alter(surface, change("retention.ms", 0, "1"), validate_only=True) == 0
    assert alter(surface, change("retention.ms", 0, "5000")) == 0
    assert surface.commands == []


def test_a_lost_race_is_computed_anew_from_what_is_there_now() -> None:
    surface = configured()

    def decide(command: Command) -> CommandResult:
        assert isinstance(command, AlterTopicConfigs)
        if len(surface.commands) == 1:
            surface.topics["tuned"] = replace(surface.topics["tuned"], configs=(("segment.ms", "7"),))
            return CommandResult(Code.INVALID_REQUEST, "changed meanwhile")
        return CommandResult(0)

    surface.on_command = decide
    assert alter(surface, change("retention.bytes", 0, "9")) == 0
    second = surface.commands[1]
    assert isinstance(second, AlterTopicConfigs)
    assert second.expected == (("segment.ms", "7"),)
    assert dict(second.configs) == {"segment.ms": "7", "retention.bytes": "9"}


def test_a_change_behind_one_that_another_replica_answered_is_computed_from_it() -> None:
    """A client that asks two replicas in turn: the second has not applied the first one's change yet."""
    surface = configured()
    results = [CommandResult(Code.INVALID_REQUEST, "changed meanwhile"), CommandResult(0)]
    surface.on_command = lambda _: results.pop(0)

    def caught_up() -> bool:
        surface.topics["tuned"] = replace(surface.topics["tuned"], configs=(("segment.ms", "7"),))
        return True

    surface.on_image_question = caught_up
    assert alter(surface, change("retention.bytes", 0, "9")) == 0
    second = surface.commands[1]
    assert isinstance(second, AlterTopicConfigs)
    assert dict(second.configs) == {"segment.ms": "7", "retention.bytes": "9"}


def test_nothing_to_do_is_said_only_by_a_replica_that_is_not_behind() -> None:
    surface = configured()

    def caught_up() -> bool:
        surface.topics["tuned"] = replace(surface.topics["tuned"], configs=(("segment.ms", "7"),))
        return True

    surface.on_image_question = caught_up
    assert replace_all(surface, {"retention.ms": "5000"}) == (0, None)
    (command,) = surface.commands
    assert isinstance(command, AlterTopicConfigs)
    assert (command.expected, command.configs) == ((("segment.ms", "7"),), (("retention.ms", "5000"),))
    unsure = configured()
    unsure.on_image_question = lambda: False
    assert replace_all(unsure, {"retention.ms": "5000"})[0] == 41
    assert unsure.commands == []


def test_a_refusal_that_is_no_race_is_passed_on_at_once() -> None:
    surface = configured()
    surface.on_command = lambda _: CommandResult(Code.INVALID_REQUEST, "not so")
    assert alter(surface, change("retention.bytes", 0, "9")) == 42
    assert len(surface.commands) == 1


def test_a_topic_that_goes_before_the_change_is_unknown_by_its_name() -> None:
    surface = configured()
    surface.on_command = lambda command: CommandResult(Code.UNKNOWN_TOPIC_ID, "no topic has this id")
    assert alter(surface, change("segment.ms", 0, "7000")) == 3
    assert replace_all(surface, {"segment.ms": "7000"})[0] == 3


def test_a_race_that_is_always_lost_ends() -> None:
    surface = configured()

    def always(_command: Command) -> CommandResult:
        surface.topics["tuned"] = replace(
            surface.topics["tuned"], configs=(("segment.ms", str(len(surface.commands))),)
        )
        return CommandResult(Code.INVALID_REQUEST, "changed meanwhile")

    surface.on_command = always
    assert alter(surface, change("retention.bytes", 0, "9")) == 42
    assert len(surface.commands) <= 5


def test_a_resource_named_twice_is_42() -> None:
    surface = configured()
    resource = {"resource_type": TOPIC, "resource_name": "tuned", "configs": [change("retention.ms", 0, "1")]}
    answer = KafkaClient(surface).ask(Api.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource, resource])
    assert [code(r.error_code) for r in answer.responses] == [42, 42]
    assert surface.commands == []


# -- AlterConfigs


def replace_all(surface: FakeSurface, configs: dict[str, str | None], version: int = 2, **more: Any) -> tuple[int, Any]:
    named = [{"name": name, "value": value} for name, value in configs.items()]
    resource = {"resource_type": TOPIC, "resource_name": "tuned", "configs": named, **more.pop("resource", {})}
    (answer,) = KafkaClient(surface).ask(Api.ALTER_CONFIGS, version, resources=[resource], **more).responses
    return code(answer.error_code), answer.error_message


@pytest.mark.parametrize("version", range(3))
def test_the_older_api_replaces_what_it_does_not_name(version: int) -> None:
    surface = configured()
    assert replace_all(surface, {"segment.ms": "900", "retention.bytes": "7"}, version) == (0, None)
    assert new_configs(surface) == {"segment.ms": "900", "retention.bytes": "7"}
    surface = configured()
    assert replace_all(surface, {}, version) == (0, None)
    assert new_configs(surface) == {}


def test_a_topic_becomes_compacted_and_back_from_the_level_on_at_which_every_replica_cleans() -> None:
    surface = configured()
    assert alter(surface, change("cleanup.policy", 0, "compact")) == 0
    assert new_configs(surface)["cleanup.policy"] == "compact"
    assert alter(surface, change("cleanup.policy", 2, "compact")) == 0
    surface = configured()
    surface.feature_level = MEMBERS_LEVEL - 1
    assert alter(surface, change("cleanup.policy", 0, "compact,delete")) == 40
    assert surface.commands == []


@pytest.mark.parametrize(("level", "expected"), [(MEMBERS_LEVEL - 1, 0), (MEMBERS_LEVEL, 40)])
def test_lags_that_cross_the_servers_are_refused_where_the_server_compacts(level: int, expected: int) -> None:
    """Kafka's `LogConfig.validate` judges a topic's configs together with what is in force without them."""
    texts = {"log.cleanup.policy": "compact", "log.cleaner.max.compaction.lag.ms": "1000"}
    settings = node_settings.api_settings(settings_of({"node.id": "0", "log.dirs": "/data", **texts}))
    surface = configured()
    surface.feature_level = level
    client = KafkaClient(surface, settings=settings)
    lag = change("min.compaction.lag.ms", 0, "1001")
    resource = {"resource_type": TOPIC, "resource_name": "tuned", "configs": [lag]}
    (answer,) = client.ask(Api.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses
    assert code(answer.error_code) == expected, answer.error_message
    made = {"name": "new", "num_partitions": 1, "replication_factor": 1, "configs": [lag]}
    del lag["config_operation"]
    answer = client.ask(Api.CREATE_TOPICS, 7, topics=[{**made, "assignments": []}], timeout_ms=1_000)
    assert code(answer.topics[0].error_code) == expected, answer.topics[0].error_message
    made["configs"] = [lag, {"name": "max.compaction.lag.ms", "value": "2000"}]
    answer = client.ask(Api.CREATE_TOPICS, 7, topics=[{**made, "name": "newer", "assignments": []}], timeout_ms=1_000)
    assert code(answer.topics[0].error_code) == 0, "its own largest lag wins"


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"no.such": "1"}, 40),
        ({"retention.ms": "soon"}, 40),
        ({"cleanup.policy": "forget"}, 40),
        ({"min.insync.replicas": "3"}, 40),
        ({"retention.ms": None}, 42),
    ],
)
def test_a_set_that_cannot_be_changes_nothing(configs: dict[str, str | None], expected: int) -> None:
    surface = configured()
    assert replace_all(surface, configs)[0] == expected
    assert surface.commands == []


def test_a_config_or_a_resource_named_twice_is_42_in_the_older_api_too() -> None:
    surface = configured()
    twice = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
    assert replace_all(surface, {}, resource={"configs": twice})[0] == 42
    resource = {"resource_type": TOPIC, "resource_name": "tuned", "configs": []}
    answer = KafkaClient(surface).ask(Api.ALTER_CONFIGS, 0, resources=[resource, resource])
    assert [code(r.error_code) for r in answer.responses] == [42, 42]
    assert surface.commands == []


def test_the_older_api_validates_only_and_proposes_no_change_that_is_none() -> None:
    surface = configured()
    assert replace_all(surface, {"retention.ms": "1"}, validate_only=True) == (0, None)
    assert replace_all(surface, {"retention.ms": "5000"}) == (0, None)
    assert replace_all(surface, {}, resource={"resource_type": BROKER, "resource_name": "0"})[0] == 44
    assert replace_all(surface, {}, resource={"resource_name": OFFSETS_TOPIC})[0] == 44
    assert surface.commands == []


def test_a_replacement_that_lost_a_race_replaces_what_is_there_now() -> None:
    surface = configured()

    def decide(command: Command) -> CommandResult:
        if len(surface.commands) == 1:
            surface.topics["tuned"] = replace(surface.topics["tuned"], configs=(("segment.ms", "7"),))
            return CommandResult(Code.INVALID_REQUEST, "changed meanwhile")
        return CommandResult(0)

    surface.on_command = decide
    assert replace_all(surface, {"retention.bytes": "9"})[0] == 0
    second = surface.commands[1]
    assert isinstance(second, AlterTopicConfigs)
    assert (second.expected, second.configs) == ((("segment.ms", "7"),), (("retention.bytes", "9"),))


def test_resources_named_twice_are_found_in_linear_time() -> None:
    """One frame holds tens of thousands of resources; comparing each with each would stop the loop for minutes."""
    surface = configured()
    resources = [{"resource_type": TOPIC, "resource_name": f"t{n}", "configs": []} for n in range(20_000)]
    client = KafkaClient(surface)
    started = process_time()
    client.send(Api.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
    surface.fake_loop.run()  # a thousand a turn
    (answer,) = client.receive()
    assert {code(r.error_code) for r in answer.responses} == {3}
    assert process_time() - started < 5


@pytest.mark.parametrize("version", [0, 1])
def test_a_refused_name_of_any_length_is_answered(version: int) -> None:
    """The message names it, and a string of Kafka's older versions has at most 32,767 bytes."""
    surface = configured()
    for name in ("x" * 32_767, "\u20ac" * 10_922):
        resource = {"resource_type": TOPIC, "resource_name": "tuned", "configs": [change(name, 0, "1")]}
        answer = KafkaClient(surface).ask(Api.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource])
        assert code(answer.responses[0].error_code) == 40
    assert surface.commands == []
