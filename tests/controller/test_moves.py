"""Where a partition is to be (ADR 42): the rules of moves, and that nobody who may be a voter is ever let go."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller.commands import (
    AddPartitions,
    CancelMove,
    CompleteMove,
    CreateTopic,
    DeleteTopic,
    MovePartition,
    ReplaceReplica,
)
from muster_coordinator.controller.image import (
    MEMBERS_LEVEL,
    OFFSETS_TOPIC,
    Move,
    Partition,
    wanted_members,
)
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, member_no

from tests.controller.cluster_commands import OFFSETS_TOPIC_ID, Log, create, form, register, topic_id
from tests.controller.test_joining_brokers import joins
from tests.controller.test_replacement import FOLDERS, VOTERS, at_level_3
from tests.controller.test_transitions import refused

ID = topic_id(1)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def move(*brokers: int, partition: int = 0) -> MovePartition:
    return MovePartition(topic_id=ID, partition=partition, voters=ids(*brokers))


def complete(*brokers: int, partition: int = 0) -> CompleteMove:
    return CompleteMove(topic_id=ID, partition=partition, voters=ids(*brokers))


def grown() -> Log:
    """Three brokers that formed the cluster and three that joined, and a topic of two partitions."""
    return at_level_3(joins(3), joins(4), joins(5), create("t", n=1, partitions=2))


def partition(log: Log, index: int = 0) -> Partition:
    return log.cluster.topics["t"].partitions[index]


def test_a_move_is_wanted_and_complete_when_the_groups_leader_says_so() -> None:
    log = grown()
    assert (partition(log).voters, partition(log).holders, partition(log).moves) == (ids(0, 1, 2), ids(0, 1, 2), False)
    assert log.apply(move(3, 1, 4)).error == Code.NONE
    moving = partition(log)
    assert (moving.voters, moving.holders, moving.moves) == (ids(3, 1, 4), ids(3, 1, 4, 0, 2), True)
    assert moving.members == (0, 1, 2), "where its log began"
    assert wanted_members(log.cluster, moving) == (3, 1, 4)
    assert partition(log, 1).move is None
    assert log.apply(complete(3, 1, 4)).error == Code.NONE
    assert partition(log).move == Move(ids(3, 1, 4))
    assert (partition(log).holders, partition(log).moves) == (ids(3, 1, 4), False)


def test_another_target_lets_nobody_go_who_may_be_a_voter_by_now() -> None:
    log = grown()
    log.apply(move(3, 4, 5))
    log.apply(move(1, 2, 3))
    assert partition(log).move == Move(ids(1, 2, 3), ids(0, 1, 2), ids(0, 4, 5))
    log.apply(complete(3, 4, 5))
    assert partition(log).move == Move(ids(1, 2, 3), ids(0, 1, 2), ids(0, 4, 5)), "that target is over"
    log.apply(complete(1, 2, 3))
    assert partition(log).move == Move(ids(1, 2, 3))


def test_a_move_is_cancelled_by_one_back_to_where_it_began() -> None:
    log = grown()
    assert "not being moved" in refused(log, move(), Code.NO_REASSIGNMENT_IN_PROGRESS)
    log.apply(move(3, 4, 5))
    log.apply(move(0, 3, 4))
    assert log.apply(move()).error == Code.NONE
    assert partition(log).move == Move(ids(0, 1, 2), ids(0, 1, 2), ids(3, 4, 5))
    assert log.apply(move()).error == Code.NONE
    log.apply(complete(0, 1, 2))
    assert partition(log).move == Move(ids(0, 1, 2))
    assert "not being moved" in refused(log, move(), Code.NO_REASSIGNMENT_IN_PROGRESS)


def cancel(*brokers: int) -> CancelMove:
    return CancelMove(topic_id=ID, partition=0, voters=ids(*brokers))


def test_only_the_move_that_is_named_is_cancelled() -> None:
    """Whoever cancels one has seen it a while ago: what somebody wants since then stays."""
    log = grown()
    before = log.cluster
    none = Code.NO_REASSIGNMENT_IN_PROGRESS
    refused(log, cancel(3, 4, 5), none)
    refused(log, cancel(0, 1, 2), none)
    assert log.cluster.topics is before.topics, "there is none"
    log.apply(move(3, 4, 5))
    log.apply(move(1, 2, 3))
    assert "not on its way to [3, 4, 5]" in refused(log, cancel(3, 4, 5), none)
    assert partition(log).voters == ids(1, 2, 3), "another one is wanted"
    assert log.apply(cancel(1, 2, 3)).error == Code.NONE
    assert partition(log).move == Move(ids(0, 1, 2), ids(0, 1, 2), ids(3, 4, 5))
    assert log.apply(cancel(0, 1, 2)).error == Code.NONE, "on its way back it stays so"
    assert partition(log).move == Move(ids(0, 1, 2), ids(0, 1, 2), ids(3, 4, 5))
    log.apply(complete(0, 1, 2))
    assert partition(log).move == Move(ids(0, 1, 2))
    log.apply(move(3, 4, 5))
    log.apply(complete(3, 4, 5))
    refused(log, cancel(3, 4, 5), none)
    assert partition(log).move == Move(ids(3, 4, 5)), "it came too late"
    refused(log, CancelMove(topic_id=topic_id(2), partition=0, voters=ids(0)), Code.UNKNOWN_TOPIC_ID)
    refused(log, CancelMove(topic_id=ID, partition=2, voters=ids(0)), Code.UNKNOWN_TOPIC_OR_PARTITION)


def test_the_same_brokers_in_another_order_are_no_move() -> None:
    log = grown()
    before = log.cluster
    assert log.apply(move(0, 1, 2)).error == Code.NONE
    assert log.cluster.topics is before.topics
    assert log.apply(move(2, 0, 1)).error == Code.NONE
    assert (partition(log).voters, partition(log).moves, partition(log).holders) == (ids(2, 0, 1), False, ids(2, 0, 1))


def test_the_replication_factor_changes_by_a_move() -> None:
    log = grown()
    for brokers in (ids(0), ids(4, 0, 1), ids(0, 1, 2, 3, 4)):
        log.apply(move(*brokers))
        assert partition(log).moves
        log.apply(complete(*brokers))
        assert partition(log).holders == brokers


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (move(0, 0, 1), Code.INVALID_REPLICA_ASSIGNMENT, "named twice"),
        (move(0, 1), Code.INVALID_REPLICA_ASSIGNMENT, "1, 3 or 5"),
        (move(0, 1, 9), Code.INVALID_REPLICA_ASSIGNMENT, "broker 9 is not registered"),
        (move(0, 1, -1), Code.INVALID_REPLICA_ASSIGNMENT, "broker -1 is not registered"),
        (move(3, partition=2), Code.UNKNOWN_TOPIC_OR_PARTITION, "has 2 partitions"),
        (move(3, partition=-1), Code.UNKNOWN_TOPIC_OR_PARTITION, "has 2 partitions"),
        (complete(0, 1, 2, partition=7), Code.UNKNOWN_TOPIC_OR_PARTITION, "has 2 partitions"),
        (MovePartition(topic_id=b"x" * 16, partition=0, voters=ids(3)), Code.UNKNOWN_TOPIC_ID, "no topic"),
        (MovePartition(topic_id=OFFSETS_TOPIC_ID, partition=0, voters=ids(9)), Code.INVALID_REPLICA_ASSIGNMENT, "9 is"),
    ],
)
def test_what_cannot_be_is_refused(command: MovePartition | CompleteMove, code: Code, words: str) -> None:
    assert words in refused(grown(), command, code)


def test_offsets_partitions_move_like_others() -> None:
    log = grown()
    before = log.cluster.topics[OFFSETS_TOPIC]
    assert not log.apply(MovePartition(topic_id=OFFSETS_TOPIC_ID, partition=1, voters=ids(3, 1, 2))).error
    moving = log.cluster.topics[OFFSETS_TOPIC].partitions[1]
    assert (moving.voters, moving.moves, set(moving.holders)) == (ids(3, 1, 2), True, {0, 1, 2, 3})
    assert not log.apply(CompleteMove(topic_id=OFFSETS_TOPIC_ID, partition=1, voters=ids(3, 1, 2))).error
    after = log.cluster.topics[OFFSETS_TOPIC]
    assert after.partitions[1] == replace(before.partitions[1], move=Move(ids(3, 1, 2)))
    assert (after.partitions[0], after.partitions[2:]) == (before.partitions[0], before.partitions[2:])
    assert after.internal


def test_nothing_is_moved_to_a_broker_without_a_folder_and_away_from_it_it_is() -> None:
    log = grown()
    log.apply(ReplaceReplica(broker=BrokerId(2), gone_uuid=FOLDERS[2]))
    assert "waits for a new data folder" in refused(log, move(0, 2, 3), Code.INVALID_REPLICA_ASSIGNMENT)
    assert log.apply(move(0, 1, 3)).error == Code.NONE
    assert wanted_members(log.cluster, partition(log)) == (0, 1, 3)
    log.apply(register(2, uuid=b"n" * 16, feature_max=3))
    log.apply(move(0, 2, 3))
    assert wanted_members(log.cluster, partition(log)) == (0, member_no(BrokerId(2), 1), 3)


def test_below_its_level_nothing_is_moved() -> None:
    for level in (1, 2):
        log = Log(form(feature_level=level), *(register(voter, feature_max=3) for voter in VOTERS), create("t", n=1))
        for command in (move(0), complete(0)):
            said = refused(log, command, Code.UNSUPPORTED_VERSION)
            assert said == f"moving a partition needs feature level {MEMBERS_LEVEL}; the cluster has {level}"


def test_a_checkpoint_holds_moves() -> None:
    log = grown()
    log.apply(move(3, 4, 5))
    log.apply(move(1, 2, 3, partition=1))
    log.apply(complete(1, 2, 3, partition=1))
    twin = ControllerMachine()
    twin.restore(log.machine.image().encode())
    assert twin.cluster == log.cluster
    assert twin.state_hash() == log.machine.state_hash()


def test_more_partitions_of_a_moved_topic_begin_on_the_voters() -> None:
    """Until new partitions are placed."""
    log = grown()
    log.apply(move(3, 4, 5))
    log.apply(AddPartitions(topic_id=ID, total=3))
    assert partition(log).voters == ids(3, 4, 5)
    assert set(partition(log, 2).voters) == set(VOTERS)
    log.apply(DeleteTopic(topic_id=ID))
    again = CreateTopic(name="t", topic_id=topic_id(2), partitions=1, configs=())
    log.apply(again)
    assert partition(log).move is None


ONES = [ids(broker) for broker in range(6)]
TARGETS = st.sampled_from([ids(), *ONES, ids(0, 1, 2), ids(3, 4, 5), ids(1, 3, 5), ids(2, 1, 0)])
STEPS = st.lists(st.tuples(st.booleans(), TARGETS), max_size=12)


@given(STEPS)
def test_whoever_may_be_a_voter_holds_a_replica_whatever_is_wanted(
    steps: list[tuple[bool, tuple[BrokerId, ...]]],
) -> None:
    """The model: the group's members may be those of any target since the last completed one."""
    log = grown()
    possible = {ids(0, 1, 2)}
    for completes, brokers in steps:
        command = complete(*brokers) if completes else move(*brokers)
        error = log.apply(command).error
        now = partition(log)
        if completes and brokers == now.voters and error == 0:
            possible = {now.voters}
        possible.add(now.voters)
        assert {broker for voters in possible for broker in voters} <= set(now.holders)
        assert len(set(now.holders)) == len(now.holders)
        assert now.voters
        assert now.moves or set(now.holders) == set(now.voters)
