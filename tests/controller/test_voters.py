"""Who is to vote in the controller's group (ADR 45): what may be wanted, and who may still vote meanwhile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller.commands import (
    CompleteControllerVoters,
    ReplaceReplica,
    SetControllerVoters,
    UnregisterBroker,
)
from muster_coordinator.controller.image import observers
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId

from tests.controller.cluster_commands import Log, form, register
from tests.controller.test_joining_brokers import joins
from tests.controller.test_moves import grown, ids
from tests.controller.test_replacement import FOLDERS
from tests.controller.test_transitions import refused


def want(*voters: int) -> SetControllerVoters:
    return SetControllerVoters(voters=ids(*voters))


def complete(*voters: int) -> CompleteControllerVoters:
    return CompleteControllerVoters(voters=ids(*voters))


def after(*commands: SetControllerVoters | CompleteControllerVoters) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(voters, those of before that may still vote)"""
    log = grown()
    for command in commands:
        assert log.apply(command).error == Code.NONE
    return log.cluster.voters, log.cluster.former_voters


def test_others_vote_and_those_of_before_may_until_it_is_complete() -> None:
    assert after(want(3, 1, 4)) == ((3, 1, 4), (0, 2))
    assert after(want(3, 1, 4), complete(3, 1, 4)) == ((3, 1, 4), ())
    assert after(want(3, 1, 4), complete(4, 3, 1)) == ((3, 1, 4), ()), "a group's log has no order of wishes"


def test_a_wish_is_replaced_and_all_of_before_may_still_vote() -> None:
    assert after(want(3, 1, 4), want(5)) == ((5,), (0, 1, 2, 3, 4))
    assert after(want(3, 1, 4), want(0, 1, 2)) == ((0, 1, 2), (3, 4))
    assert after(want(3, 1, 4), want(0, 1, 2), complete(3, 1, 4)) == ((0, 1, 2), (3, 4)), "late"
    assert after(want(3, 1, 4), complete(3, 1, 4), complete(3, 1, 4)) == ((3, 1, 4), ())
    assert after(want(2, 1, 0)) == ((0, 1, 2), ()), "the same ones"
    assert after(complete(0, 1, 2)) == ((0, 1, 2), ())


def test_who_does_not_vote_observes() -> None:
    log = grown()
    log.apply(want(3))
    assert observers(log.cluster) == (0, 1, 2, 4, 5)


@pytest.mark.parametrize(
    ("voters", "words"),
    [
        ((), "not 0"),
        ((0, 1), "not 2"),
        ((0, 1, 2, 3, 4, 5), "not 6"),
        ((0, 1, 1), "named twice"),
        ((0, 1, 9), "broker 9 is not registered"),
        ((0, 1, -1), "broker -1 is not registered"),
    ],
)
def test_who_cannot_vote_is_refused(voters: tuple[int, ...], words: str) -> None:
    assert words in refused(grown(), want(*voters), Code.INVALID_REQUEST)


def test_one_without_a_folder_cannot_vote() -> None:
    log = grown()
    log.apply(ReplaceReplica(broker=BrokerId(1), gone_uuid=FOLDERS[1]))
    assert "broker 1 waits for a new data folder" in refused(log, want(1, 3, 4), Code.INVALID_REQUEST)
    assert log.apply(want(0, 3, 4)).error == Code.NONE


def test_below_their_level_both_commands_change_nothing() -> None:
    log = Log(form(feature_level=2), *(register(voter, feature_max=3) for voter in (0, 1, 2)))
    for command in (want(0), complete(0)):
        assert "feature level 3" in refused(log, command, Code.UNSUPPORTED_VERSION)


def test_whoever_votes_or_may_still_is_not_unregistered() -> None:
    log = grown()
    log.apply(want(3, 4, 5))
    for broker in range(6):
        leave = UnregisterBroker(
            broker=BrokerId(broker), replica_uuid=log.cluster.brokers[BrokerId(broker)].replica_uuid
        )
        assert "votes in the controller's group" in refused(log, leave, Code.POLICY_VIOLATION)
    log.apply(complete(3, 4, 5))
    leave = UnregisterBroker(broker=BrokerId(0), replica_uuid=log.cluster.brokers[BrokerId(0)].replica_uuid)
    assert "has replicas" in refused(log, leave, Code.POLICY_VIOLATION)


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 5), min_size=1, max_size=5, unique=True)), max_size=8))
def test_whatever_is_wanted_a_voter_of_then_is_known_until_one_is_complete(
    steps: list[tuple[bool, list[int]]],
) -> None:
    """And a checkpoint at any point says the same as the log."""
    log = grown()
    may_vote = {0, 1, 2}
    for completes, voters in steps:
        before = set(log.cluster.voters)
        command = complete(*voters) if completes else want(*voters)
        result = log.apply(command)
        if completes and before == set(voters):
            may_vote = set(voters)
        elif not completes and result.error == Code.NONE:
            may_vote |= set(voters)
        assert {*log.cluster.voters, *log.cluster.former_voters} == may_vote
        assert not {*log.cluster.voters} & {*log.cluster.former_voters}
        twin = ControllerMachine()
        twin.restore(log.machine.image().encode())
        assert twin.cluster == log.cluster
        assert twin.state_hash() == log.machine.state_hash()


def test_one_that_joins_later_observes() -> None:
    log = grown()
    log.apply(want(3))
    assert log.apply(joins(6)).error == Code.NONE
    assert 6 in observers(log.cluster)
