"""AlterPartitionReassignments and ListPartitionReassignments, and what clients are shown of a partition that is being
moved. The codes are those of Kafka's controller (KIP-455, KIP-860) where Kafka has the case."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.api import limits
from muster_coordinator.controller.commands import Command, CommandResult, CompleteMove, MovePartition
from muster_coordinator.controller.image import EMPTY_ID, OFFSETS_TOPIC
from muster_coordinator.controller.moves import complete_move
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, broker
from tests.api.kafka_client import KafkaClient, code

ORDERS_ID = b"orders----------"
EITHER = pytest.mark.parametrize("version", range(2))
Replicas = tuple[int, ...] | None


def six() -> FakeSurface:
    """Three brokers that formed the cluster and three that joined; `orders` has three partitions on the first three."""
    surface = FakeSurface()
    surface.brokers |= {BrokerId(number): broker(number) for number in (3, 4, 5)}
    return surface


def alter(surface: FakeSurface, *asked: tuple[str, int, Replicas], version: int = 1, **more: Any) -> Any:
    """One entry for each of the partitions."""
    topics = [
        {"name": name, "partitions": [{"partition_index": number, "replicas": replicas}]}
        for name, number, replicas in asked
    ]
    values = {"topics": topics, "timeout_ms": 5_000, **more}
    return KafkaClient(surface).ask(Api.ALTER_PARTITION_REASSIGNMENTS, version, **values)


def codes(answer: Any) -> dict[tuple[str, int], int]:
    assert code(answer.error_code) == 0, answer.error_message
    return {(t.name, p.partition_index): code(p.error_code) for t in answer.responses for p in t.partitions}


def refusal(surface: FakeSurface, replicas: Replicas, name: str = "orders", number: int = 0, **more: Any) -> Any:
    """(code, message) of the only partition, for which nothing was proposed."""
    (topic,) = alter(surface, (name, number, replicas), **more).responses
    (one,) = topic.partitions
    assert surface.commands == []
    return code(one.error_code), one.error_message


def listed(surface: FakeSurface, topics: Any = None) -> dict[tuple[str, int], tuple[Any, Any, Any]]:
    answer = KafkaClient(surface).ask(Api.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics, timeout_ms=5_000)
    assert (code(answer.error_code), answer.error_message) == (0, None)
    return {
        (t.name, p.partition_index): (p.replicas, p.adding_replicas, p.removing_replicas)
        for t in answer.topics
        for p in t.partitions
    }


def move(number: int, *voters: int) -> MovePartition:
    return MovePartition(topic_id=ORDERS_ID, partition=number, voters=tuple(map(BrokerId, voters)))


def complete(surface: FakeSurface, number: int) -> None:
    orders = surface.topics["orders"]
    partitions = list(orders.partitions)
    partitions[number] = complete_move(partitions[number], partitions[number].voters)
    surface.topics["orders"] = replace(orders, partitions=tuple(partitions))


# -- AlterPartitionReassignments


@EITHER
def test_each_partition_becomes_a_wanted_move(version: int) -> None:
    surface = six()
    answer = alter(surface, ("orders", 0, (3, 4, 5)), ("orders", 2, (0,)), version=version)
    assert codes(answer) == {("orders", 0): 0, ("orders", 2): 0}
    assert surface.commands == [move(0, 3, 4, 5), move(2, 0)]
    assert surface.command_deadlines == [surface.fake_loop.now_ms + 5_000] * 2
    assert [p.error_message for t in answer.responses for p in t.partitions] == [None, None]


@EITHER
def test_null_cancels_what_is_under_way_and_nothing_else(version: int) -> None:
    surface = six()
    assert refusal(surface, None, version=version) == (85, "the partition is not being moved")
    alter(surface, ("orders", 0, (3, 4, 5)))
    assert codes(alter(surface, ("orders", 0, None), version=version)) == {("orders", 0): 0}
    assert surface.commands[-1] == move(0)
    assert surface.topics["orders"].partitions[0].voters == (0, 1, 2)


@pytest.mark.parametrize(
    ("replicas", "words"),
    [
        ((), "not 0"),
        ((0, 1), "1, 3 or 5 replicas, not 2"),
        ((0, 1, 2, 3), "not 4"),
        ((0, 1, 2, 3, 4, 5, 6), "not 7"),
        ((0, 0, 1), "named twice"),
        ((0, 1, 9), "broker 9 is not registered"),
        ((0, 1, -1), "broker -1 is not registered"),
    ],
)
@EITHER
def test_assignments_that_cannot_be_are_39(version: int, replicas: tuple[int, ...], words: str) -> None:
    surface = six()
    alter(surface, ("orders", 0, (3, 4, 5)))
    surface.commands.clear()
    got, message = refusal(surface, replicas, version=version)
    assert got == 39
    assert words in message


def test_an_empty_list_is_no_cancellation() -> None:
    surface = six()
    alter(surface, ("orders", 0, (3, 4, 5)))
    assert codes(alter(surface, ("orders", 0, ()))) == {("orders", 0): 39}
    assert surface.topics["orders"].partitions[0].voters == (3, 4, 5)


def test_a_broker_without_room_for_it_is_39_unless_it_has_it_already() -> None:
    surface = six()
    group = surface.topics["orders"].partitions[0].group
    surface.without_room = {(group, BrokerId(broker)): f"no room on {broker}" for broker in (0, 4)}
    assert refusal(surface, (0, 1, 4)) == (39, "no room on 4")
    assert codes(alter(surface, ("orders", 0, (0, 1, 3)))) == {("orders", 0): 0}, "it stays on 0"
    assert codes(alter(surface, ("orders", 0, (5, 0, 1)), ("orders", 1, (0, 1, 4)))) == {
        ("orders", 0): 0,
        ("orders", 1): 0,
    }, "of another partition nothing is known"
    assert codes(alter(surface, ("orders", 0, None))) == {("orders", 0): 0}


def test_a_broker_that_waits_for_a_folder_is_39() -> None:
    surface = six()
    surface.brokers[BrokerId(3)] = replace(surface.brokers[BrokerId(3)], replica_uuid=EMPTY_ID, binding=1)
    assert refusal(surface, (0, 1, 3)) == (39, "broker 3 waits for a new data folder")


def test_what_does_not_exist_is_3() -> None:
    assert refusal(six(), (0,), "nope") == (3, "there is no topic nope")
    for number in (3, -1, 2**31 - 1):
        assert refusal(six(), (0,), number=number) == (3, f"topic orders has 3 partitions, and no {number}")


def test_an_offsets_partition_moves_like_any_other() -> None:
    surface = six()
    assert codes(alter(surface, (OFFSETS_TOPIC, 1, (3, 4, 5)))) == {(OFFSETS_TOPIC, 1): 0}
    (command,) = surface.commands
    assert command == MovePartition(topic_id=b"__consumer_offse", partition=1, voters=(3, 4, 5))


def test_below_its_level_nothing_is_moved() -> None:
    surface = six()
    surface.feature_level = 2
    for replicas in ((3, 4, 5), (9,), None):
        assert refusal(surface, replicas) == (35, "moving a partition needs feature level 3; the cluster has 2")


def test_good_partitions_of_a_half_bad_request_are_moved() -> None:
    surface = six()
    answer = alter(surface, ("orders", 0, (3, 4, 5)), ("orders", 1, (9,)), ("nope", 0, None), ("orders", 2, None))
    assert codes(answer) == {("orders", 0): 0, ("orders", 1): 39, ("nope", 0): 3, ("orders", 2): 85}
    assert surface.commands == [move(0, 3, 4, 5)]


def test_a_partition_that_is_named_twice_is_42_once_whatever_is_wanted_of_it() -> None:
    surface = six()
    answer = alter(surface, ("orders", 0, (3, 4, 5)), ("orders", 1, (0,)), ("orders", 0, None))
    assert codes(answer) == {("orders", 0): 42, ("orders", 1): 0}
    assert surface.commands == [move(1, 0)]


def test_the_factor_changes_only_if_it_may() -> None:
    surface = six()
    got, message = refusal(surface, (4,), allow_replication_factor_change=False)
    assert (got, message) == (38, "the replication factor would change from 3 to 1")
    answer = alter(surface, ("orders", 0, (3, 4, 5)), allow_replication_factor_change=False)
    assert codes(answer) == {("orders", 0): 0}
    assert answer.allow_replication_factor_change is False
    assert alter(surface, ("orders", 1, (4,)), version=1).allow_replication_factor_change is True
    # Of one that is being moved it is that of the move.
    assert codes(alter(surface, ("orders", 1, (5,)), allow_replication_factor_change=False)) == {("orders", 1): 0}
    assert codes(alter(surface, ("orders", 1, (0, 1, 2)), allow_replication_factor_change=False)) == {("orders", 1): 38}
    assert codes(alter(surface, ("orders", 1, None), allow_replication_factor_change=False)) == {("orders", 1): 0}


def test_a_late_image_does_not_let_a_factor_change() -> None:
    """Here the partition still has three replicas; elsewhere it has one by now, and three would be a change."""
    surface = six()

    def question() -> bool:
        surface.apply(move(0, 5))
        return True

    surface.on_image_question = question
    assert refusal(surface, (0, 1, 2), allow_replication_factor_change=False)[0] == 38
    assert surface.topic_questions == 1


@pytest.mark.parametrize(
    "asked", [("orders", 0, (9,)), ("orders", 0, None), ("nope", 0, (0,)), ("orders", 7, (0,)), ("orders", 0, ())]
)
def test_no_refusal_by_an_image_that_may_be_late(asked: tuple[str, int, Replicas]) -> None:
    """Java asks again only when the code is that of the whole request."""
    surface = six()
    surface.on_image_question = lambda: False
    answer = alter(surface, asked)
    assert (code(answer.error_code), answer.responses) == (41, ())
    assert "behind" in answer.error_message
    assert surface.topic_questions == 1


def test_what_was_taken_is_told_beside_what_could_not_be_judged() -> None:
    surface = six()
    surface.on_image_question = lambda: False
    answer = alter(surface, ("orders", 0, (3, 4, 5)), ("orders", 1, (9,)))
    assert codes(answer) == {("orders", 0): 0, ("orders", 1): 41}


def test_a_broker_that_joined_meanwhile_is_not_called_unknown() -> None:
    surface = six()

    def question() -> bool:
        surface.brokers[BrokerId(9)] = broker(9)
        return True

    surface.on_image_question = question
    assert codes(alter(surface, ("orders", 0, (9,)))) == {("orders", 0): 0}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (CommandResult(Code.NOT_CONTROLLER, "no leader"), 41),
        (CommandResult(Code.REQUEST_TIMED_OUT, "not known"), 7),
        (CommandResult(Code.UNKNOWN_TOPIC_ID, "no topic has this id"), 3),
        (CommandResult(Code.INVALID_REPLICA_ASSIGNMENT, "broker 3 is not registered"), 39),
    ],
)
def test_what_the_controllers_log_says_is_told(result: CommandResult, expected: int) -> None:
    surface = six()

    def refuse_the_first(command: Command) -> CommandResult:
        return result if command == move(0, 3, 4, 5) else CommandResult(0)

    surface.on_command = refuse_the_first
    answer = alter(surface, ("orders", 0, (3, 4, 5)), ("orders", 1, (0,)))
    assert codes(answer) == {("orders", 0): expected, ("orders", 1): 0}
    assert answer.responses[0].partitions[0].error_message == result.message


def test_without_a_controller_the_whole_request_is_41() -> None:
    surface = six()
    surface.on_command = lambda _: CommandResult(Code.NOT_CONTROLLER, "no leader")
    assert code(alter(surface, ("orders", 0, (3, 4, 5))).error_code) == 41


def test_no_time_means_no_change_and_much_time_is_bounded() -> None:
    for timeout_ms in (0, -1, -(2**31)):
        got, message = refusal(six(), (3, 4, 5), timeout_ms=timeout_ms)
        assert (got, message) == (7, "timeoutMs leaves no time; nothing was changed")
    surface = six()
    alter(surface, ("orders", 0, (3, 4, 5)), timeout_ms=2**31 - 1)
    assert surface.command_deadlines == [surface.fake_loop.now_ms + limits.ADMIN_TIMEOUT_MS_MAX]


def test_a_request_has_a_bound_and_an_empty_one_is_fine() -> None:
    surface = six()
    bound = limits.PARTITIONS_PER_REQUEST_MAX
    parts = [{"partition_index": number, "replicas": None} for number in range(bound + 1)]
    answer = alter(surface, topics=[{"name": "orders", "partitions": parts}])
    assert (code(answer.error_code), answer.responses) == (44, ())
    assert str(bound) in answer.error_message
    assert surface.topic_questions == 0
    assert alter(surface).responses == ()
    assert alter(surface, topics=[{"name": "orders", "partitions": []}]).responses == ()


def test_the_largest_request_is_judged_in_turns_and_asks_once() -> None:
    surface = six()
    client = KafkaClient(surface)
    parts = [{"partition_index": number, "replicas": [9]} for number in range(limits.PARTITIONS_PER_REQUEST_MAX)]
    topics = [{"name": "orders", "partitions": parts}]
    client.send(Api.ALTER_PARTITION_REASSIGNMENTS, 1, topics=topics, timeout_ms=1_000)
    assert client.receive() == []
    surface.fake_loop.run()
    (answer,) = client.receive()
    assert sorted(set(codes(answer).values())) == [3, 39]
    assert len(codes(answer)) == limits.PARTITIONS_PER_REQUEST_MAX
    assert surface.topic_questions == 1


def test_before_the_cluster_is_formed_the_client_is_to_ask_again() -> None:
    surface = six()
    surface.formed = False
    assert code(alter(surface, ("orders", 0, (0,))).error_code) == 41
    answer = KafkaClient(surface).ask(Api.LIST_PARTITION_REASSIGNMENTS, 0, topics=None)
    assert code(answer.error_code) == 41


# -- ListPartitionReassignments


def test_what_is_being_moved_is_listed_until_it_is_complete() -> None:
    surface = six()
    assert listed(surface) == {}
    alter(surface, ("orders", 0, (3, 1, 4)), ("orders", 2, (2, 1, 0)))
    assert listed(surface) == {("orders", 0): ((3, 1, 4, 0, 2), (3, 4), (0, 2))}, "another order is no move"
    complete(surface, 0)
    assert listed(surface) == {}
    assert surface.topics["orders"].partitions[0].voters == (3, 1, 4)


def test_fewer_and_more_replicas_are_listed_by_what_comes_and_goes() -> None:
    surface = six()
    alter(surface, ("orders", 0, (1,)), ("orders", 1, (0, 1, 2, 3, 4)))
    assert listed(surface) == {
        ("orders", 0): ((1, 0, 2), (), (0, 2)),
        ("orders", 1): ((0, 1, 2, 3, 4), (3, 4), ()),
    }


def test_a_cancelled_move_is_listed_until_nobody_has_to_go() -> None:
    """Members may have changed by then; in Kafka a cancelled one is over at once."""
    surface = six()
    alter(surface, ("orders", 0, (3, 4, 5)))
    alter(surface, ("orders", 0, None))
    assert listed(surface) == {("orders", 0): ((0, 1, 2, 3, 4, 5), (), (3, 4, 5))}
    complete(surface, 0)
    assert listed(surface) == {}


def test_only_what_is_asked_about_is_listed_and_unknown_names_are_left_out() -> None:
    surface = six()
    alter(surface, ("orders", 0, (3, 4, 5)), ("orders", 1, (3, 4, 5)))
    moving = ((3, 4, 5, 0, 1, 2), (3, 4, 5), (0, 1, 2))
    asked = [
        {"name": "orders", "partition_indexes": [1, 2, 7, -1, 1]},
        {"name": "nope", "partition_indexes": [0]},
        {"name": OFFSETS_TOPIC, "partition_indexes": [0]},
        {"name": "orders", "partition_indexes": [1]},
    ]
    assert listed(surface, asked) == {("orders", 1): moving}
    assert listed(surface, []) == {}
    assert listed(surface, [{"name": "orders", "partition_indexes": []}]) == {}
    assert listed(surface) == {("orders", 0): moving, ("orders", 1): moving}


def test_no_list_by_an_image_that_may_be_late() -> None:
    """A tool takes a move that is not listed for complete."""
    surface = six()
    surface.on_image_question = lambda: False
    answer = KafkaClient(surface).ask(Api.LIST_PARTITION_REASSIGNMENTS, 0, topics=None)
    assert (code(answer.error_code), answer.topics) == (41, ())

    def question() -> bool:
        surface.apply(move(0, 3, 4, 5))
        return True

    surface.on_image_question = question
    assert listed(surface).keys() == {("orders", 0)}


# -- what clients see of a partition that is being moved


def shown(surface: FakeSurface, number: int = 0, version: int = 12) -> tuple[Any, Any, Any]:
    """(replicas, ISR, offline) of Metadata, and the same of DescribeTopicPartitions."""
    client = KafkaClient(surface)
    by_metadata = client.ask(Api.METADATA, version, topics=[{"name": "orders"}]).topics[0].partitions[number]
    answer = client.ask(
        Api.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "orders"}], response_partition_limit=9, cursor=None
    )
    described = answer.topics[0].partitions[number]
    told = [(one.replica_nodes, one.isr_nodes, one.offline_replicas) for one in (by_metadata, described)]
    assert told[0] == told[1]
    return told[0]


def test_during_a_move_replicas_are_those_to_be_and_those_to_go_and_the_isr_is_that_of_before() -> None:
    """As Kafka shows them. Whether a new replica has caught up, only the leader of its group knows."""
    surface = six()
    assert shown(surface) == ((0, 1, 2), (0, 1, 2), ())
    alter(surface, ("orders", 0, (3, 1, 4)))
    assert shown(surface) == ((3, 1, 4, 0, 2), (1, 0, 2), ())
    surface.dead |= {2, 4}
    surface.elect(102, 1, 4)  # the partition that the dead broker led, else Metadata waits
    assert shown(surface) == ((3, 1, 4, 0, 2), (1, 0), (4, 2))
    surface.elect(100, 3, 4)
    assert shown(surface) == ((3, 1, 4, 0, 2), (3, 1, 0), (4, 2)), "its leader is in sync with itself"
    complete(surface, 0)
    assert shown(surface) == ((3, 1, 4), (3, 1), (4,))


def test_version_0_leaves_out_dead_replicas_and_says_so() -> None:
    surface = six()
    alter(surface, ("orders", 0, (3, 1, 4)))
    surface.dead.add(4)
    one = KafkaClient(surface).ask(Api.METADATA, 0, topics=[{"name": "orders"}]).topics[0].partitions[0]
    assert (code(one.error_code), one.replica_nodes, one.isr_nodes) == (9, (3, 1, 0, 2), (1, 0, 2))


def test_one_that_never_moved_is_shown_as_it_was() -> None:
    surface = six()
    alter(surface, ("orders", 0, (3, 4, 5)))
    assert shown(surface, 1) == ((0, 1, 2), (0, 1, 2), ())


def test_a_completed_move_is_not_proposed_by_clients() -> None:
    """CompleteMove is what a group's leader says."""
    surface = six()
    alter(surface, ("orders", 0, (3, 4, 5)), ("orders", 0, (3, 4, 5)))
    alter(surface, ("orders", 1, (3, 4, 5)))
    assert not any(isinstance(command, CompleteMove) for command in surface.commands)
