"""What a client was told through one replica is not unknown at another (`replica.controller.current_image`)."""

import pytest
from muster_coordinator.controller.codec import READ_INDEX, decode_command
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code, UnsupportedFormat
from muster_coordinator.ids import CONTROLLER_GROUP, GroupNo
from muster_coordinator.replica import formed, limits
from muster_coordinator.replica.controller.current_image import Kind
from muster_coordinator.replica.multiraft import payloads

from tests.replica.cluster import SimCluster
from tests.sim.loop import World

TOPIC = CreateTopic(name="data", topic_id=bytes([7]) * 16, partitions=1, configs=())


def created(seed: int) -> tuple[SimCluster, int, list[int]]:
    """A topic's creation was answered just now by the controller's leader, whose followers have not applied it."""
    cluster = SimCluster(World(seed))
    cluster.start()
    leader = cluster.wait_leader(CONTROLLER_GROUP)
    cluster.converge([CONTROLLER_GROUP])
    assert cluster.submit(leader, TOPIC).error == Code.NONE
    late = [broker for broker in cluster.nodes if not knows(cluster, broker)]
    assert late == [broker for broker in cluster.nodes if broker != leader]
    return cluster, leader, late


def knows(cluster: SimCluster, broker: int) -> bool:
    image = cluster.nodes[broker].image()
    return image is not None and TOPIC.name in image.topics


def ask(cluster: SimCluster, broker: int, told: list[tuple[bool, bool]]) -> None:
    """(current, knows the topic) comes into the list."""
    cluster.nodes[broker].when_image_current(lambda current: told.append((current, knows(cluster, broker))))


def test_a_late_replica_has_caught_up_when_it_is_told_so() -> None:
    cluster, leader, late = created(1)
    told: list[tuple[bool, bool]] = []
    for broker in (leader, *late):
        ask(cluster, broker, told)
    cluster.world.run_until("answers", lambda: len(told) == 3, 500)
    assert told == [(True, True)] * 3


def test_nothing_is_shown_without_the_controllers_leader() -> None:
    cluster, _, late = created(2)
    told: list[tuple[bool, bool]] = []
    cluster.net.isolate(late[0])
    ask(cluster, late[0], told)
    cluster.world.run_for(limits.CURRENT_IMAGE_WAIT_MS + 100)
    assert told == [(False, False)]


def test_an_index_that_does_not_come_here_in_time_shows_nothing() -> None:
    cluster, leader, late = created(3)
    told: list[tuple[bool, bool]] = []
    group = cluster.nodes[late[0]].host.groups[CONTROLLER_GROUP]
    group.installing = True  # as while a checkpoint comes: nothing is applied
    ask(cluster, late[0], told)
    cluster.world.run_for(limits.CURRENT_IMAGE_WAIT_MS - 100)
    assert told == []
    cluster.world.run_for(200)
    assert told == [(False, False)]
    group.installing = False
    ask(cluster, late[0], told)
    cluster.submit(leader, CreateTopic(name="next", topic_id=bytes([8]) * 16, partitions=1, configs=()))
    cluster.world.run_until("an answer", lambda: len(told) == 2, 1_000)
    assert told[1] == (True, True)


def test_questions_on_their_way_share_the_next_and_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formed, "COMMITS", Kind(parked_max=100, pace_ms=0))
    cluster, _, late = created(4)
    asked = []
    cluster.net.watch = lambda sender, _receiver, _channel, payload: asked.append(
        sender == late[0] and payloads.kind_of(payload) is payloads.Kind.COMMAND
    )
    told: list[tuple[bool, bool]] = []
    for _ in range(101):
        ask(cluster, late[0], told)
    assert told == [(False, False)], "the one too many"
    cluster.world.run_until("answers", lambda: len(told) == 101, 500)
    assert told[1:] == [(True, True)] * 100
    assert sum(asked) == 2
    ask(cluster, late[0], told)
    cluster.world.run_until("an answer", lambda: len(told) == 102, 500)
    assert told[101] == (True, True)


def test_requests_for_topics_that_do_not_exist_share_some_questions_a_second() -> None:
    """However many clients poll for a topic with a mistyped name."""
    cluster, _, late = created(6)
    asked = []
    cluster.net.watch = lambda sender, _receiver, _channel, payload: asked.append(
        sender == late[0] and payloads.kind_of(payload) is payloads.Kind.COMMAND
    )
    told: list[bool] = []
    for _ in range(1_000):
        for _ in range(10):
            cluster.nodes[late[0]].when_topics_current(told.append)
        cluster.world.run_for(1)
    cluster.world.run_for(2 * limits.CURRENT_TOPICS_PACE_MS)
    assert told == [True] * 10_000
    assert sum(asked) <= 1_000 // limits.CURRENT_TOPICS_PACE_MS + 2


def test_requests_for_topics_that_do_not_exist_leave_commits_their_places() -> None:
    cluster, _, late = created(7)
    told: list[bool] = []
    for _ in range(limits.CURRENT_TOPICS_PARKED_MAX + 1):
        cluster.nodes[late[0]].when_topics_current(told.append)
    assert told == [False], "the one too many"
    commits: list[tuple[bool, bool]] = []
    ask(cluster, late[0], commits)
    cluster.world.run_until("an answer", lambda: commits, 500)
    assert commits == [(True, True)]


def test_the_question_outlives_a_change_of_the_leader() -> None:
    """The old one says that it does not lead, the next is looked for."""
    cluster, leader, late = created(5)
    told: list[tuple[bool, bool]] = []
    assert cluster.nodes[leader].transfer(GroupNo(CONTROLLER_GROUP), cluster.brokers[late[1]])
    for broker in (leader, *late):
        ask(cluster, broker, told)
    cluster.world.run_until("answers", lambda: len(told) == 3, limits.CURRENT_IMAGE_WAIT_MS)
    assert told == [(True, True)] * 3


def test_an_older_binary_refuses_the_question_as_it_does_any_unknown_command() -> None:
    with pytest.raises(UnsupportedFormat):
        decode_command(READ_INDEX)
