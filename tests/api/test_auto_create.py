"""auto.create.topics.enable: Metadata makes what is asked for by name, by Kafka's rules, and never by default."""

from typing import Any

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Authorize, Operation, Resource, allow_all
from muster_coordinator.api.services import ApiSettings, TopicsMode
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import CommandResult, CreateTopic
from muster_coordinator.limits import RAFT_GROUPS_MAX
from muster_coordinator.wire.throttling import Throttling
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, topic
from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings

ON = api_settings(auto_create_topics=True, num_partitions=4)


def client_of(surface: FakeSurface, settings: ApiSettings = ON, authorize: Authorize = allow_all) -> KafkaClient:
    return KafkaClient(surface, settings=settings, authorize=authorize)


def ask(client: KafkaClient, *names: str, version: int = 9, allow: bool = True) -> list[tuple[str, int]]:
    topics = [{"name": name} for name in names]
    answer = client.ask(Api.METADATA, version, topics=topics, allow_auto_topic_creation=allow)
    return [(t.name, code(t.error_code)) for t in answer.topics]


def made(surface: FakeSurface) -> list[tuple[str, int]]:
    return [(c.name, c.partitions) for c in surface.commands if isinstance(c, CreateTopic)]


@pytest.mark.parametrize("version", range(14))
def test_a_topic_asked_for_by_name_is_made_and_told_by_the_next_answer(version: int) -> None:
    surface = FakeSurface()
    client = client_of(surface)
    surface.behind = True
    assert ask(client, "new", "orders", version=version) == [("new", 5), ("orders", 0)]
    (command,) = surface.commands
    assert isinstance(command, CreateTopic)
    assert (command.name, command.partitions, command.configs) == ("new", 4, ())
    surface.apply(command)
    assert ask(client, "new", version=version) == [("new", 0)]
    assert len(surface.topics["new"].partitions) == 4


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_nobody_could_forbid_it(version: int) -> None:
    surface = FakeSurface()
    ask(client_of(surface), "new", version=version)
    assert made(surface) == [("new", 4)]


@pytest.mark.parametrize("version", range(4, 14))
def test_a_request_that_forbids_it_gets_nothing_made(version: int) -> None:
    surface = FakeSurface()
    assert ask(client_of(surface), "new", version=version, allow=False) == [("new", 3)]
    assert surface.commands == []


def test_by_default_a_typo_makes_no_topic() -> None:
    surface = FakeSurface()
    assert ask(client_of(surface, api_settings()), "new") == [("new", 3)]
    none = api_settings(auto_create_topics=True, topics_mode=TopicsMode.NONE)
    assert ask(client_of(surface, none), "new") == [("new", 3)]
    assert surface.commands == []


def test_where_topics_are_in_redis_so_is_one_that_comes_up_by_itself() -> None:
    surface = FakeSurface()
    surface.behind = True
    redis = api_settings(auto_create_topics=True, topics_mode=TopicsMode.REDIS, redis=True)
    assert ask(client_of(surface, redis), "new") == [("new", 5)]
    assert [command.configs for command in surface.commands if isinstance(command, CreateTopic)] == [
        (("topic.store", "redis"),)
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("__transaction_state", 3), ("__cluster_metadata", 3), ("__share_group_state", 3), ("a/b", 17), ("", 17)],
)
def test_internal_and_illegal_names_are_never_made(name: str, expected: int) -> None:
    surface = FakeSurface()
    assert ask(client_of(surface), name) == [(name, expected)]
    assert surface.commands == []


def test_neither_all_topics_nor_topics_by_id_make_any() -> None:
    surface = FakeSurface()
    client = client_of(surface)
    client.ask(Api.METADATA, 9, topics=None, allow_auto_topic_creation=True)
    by_id = [{"name": None, "topic_id": b"unknown---------"}]
    answer = client.ask(Api.METADATA, 12, topics=by_id, allow_auto_topic_creation=True)
    assert [code(t.error_code) for t in answer.topics] == [100]
    assert surface.commands == []


@pytest.mark.parametrize("right", [Operation.DESCRIBE, Operation.CREATE])
def test_it_takes_the_right_to_describe_and_to_create(right: Operation) -> None:
    def authorize(_context: RequestContext, operation: Operation, _resource: Resource) -> bool:
        return operation is not right

    surface = FakeSurface()
    assert ask(client_of(surface, authorize=authorize), "new") == [("new", 29)]
    assert surface.commands == []


def test_what_the_controller_would_refuse_is_refused_before_it_fills_the_log() -> None:
    surface = FakeSurface()
    surface.add_topic(topic("a.b", 1, first_group=300))
    assert ask(client_of(surface), "a_b") == [("a_b", 17)]
    surface.add_topic(topic("wide", RAFT_GROUPS_MAX - 10, first_group=1_000))
    assert ask(client_of(surface), "new") == [("new", 44)]
    assert surface.commands == []


def held(surface: FakeSurface) -> None:
    """The controller has not decided yet."""
    surface.on_command = lambda _: None


def test_who_asks_again_meanwhile_waits_a_little_and_makes_nothing_more() -> None:
    surface = FakeSurface()
    held(surface)
    client = client_of(surface)
    assert ask(client, "new") == [("new", 5)]
    answers, start = 0, surface.fake_loop.now_ms
    while surface.fake_loop.now_ms < start + 1_000:
        client.send(Api.METADATA, 9, topics=[{"name": "new"}], allow_auto_topic_creation=True)
        while not (got := client.receive()):
            surface.fake_loop.run(1)
        assert code(got[0].topics[0].error_code) == 5
        answers += 1
    assert answers <= 10
    assert made(surface) == [("new", 4)]


def test_only_so_many_are_in_the_making_at_a_time() -> None:
    surface = FakeSurface()
    held(surface)
    names = [f"t{n}" for n in range(limits.AUTO_CREATES_AT_ONCE_MAX + 5)]
    told = ask(client_of(surface), *names)
    assert told == [(name, 5) for name in names]
    assert [name for name, _ in made(surface)] == names[:-5]


def test_what_was_refused_may_be_asked_for_again() -> None:
    surface = FakeSurface()
    surface.on_command = lambda _: CommandResult(41, "no controller")
    client = client_of(surface)
    assert ask(client, "new") == [("new", 5)]
    assert ask(client, "new") == [("new", 5)]
    assert made(surface) == [("new", 4)] * 2


def test_the_answer_after_a_wait_for_leaders_is_still_that_of_a_topic_in_the_making() -> None:
    surface = FakeSurface()
    held(surface)
    surface.leaders[101] = surface.leaders[101]._replace(leader=None)
    client = client_of(surface)
    asked: Any = [{"name": "new"}, {"name": "orders"}]
    client.send(Api.METADATA, 9, topics=asked, allow_auto_topic_creation=True)
    surface.fake_loop.run(limits.METADATA_LEADERLESS_WAIT_MS)
    (answer,) = client.receive()
    assert [code(t.error_code) for t in answer.topics] == [5, 0]


@pytest.mark.parametrize("version", [3, 9, 13])
def test_partitions_that_are_made_by_the_way_take_tokens_and_nobody_is_muted_for_them(version: int) -> None:
    """As by Kafka's controller, to which brokers pass these creations on in the client's name (KIP-599)."""
    surface = FakeSurface()
    throttling = Throttling(surface.loop)
    throttling.set({(("user", ""),): (("controller_mutation_rate", 2.0),)})
    surface.behind = True
    client = KafkaClient(surface, settings=ON, throttling=throttling)
    names = [f"new-{number}" for number in range(8)]
    assert ask(client, *names, version=version) == [(name, 5) for name in names]
    assert made(surface) == [(name, 4) for name in names[:6]], "22 tokens, and the last may take two more"
    assert ask(client, names[7], version=version) == [(names[7], 5)], "it was not muted"
    creation = client.ask(Api.CREATE_TOPICS, 7, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 3}])
    assert code(creation.topics[0].error_code) == 89, "the bucket is the same"
    client.connection.unmute()
    surface.fake_loop.run(1_100)
    ask(client, names[7], version=version)
    assert made(surface)[6:] == [(names[7], 4)]
