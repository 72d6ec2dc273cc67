"""A broker leaves the cluster (ADR 43): who may, and that neither its folder nor its member number ever comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller import departures
from muster_coordinator.controller.commands import (
    Command,
    CompleteMove,
    FinalizeFeatures,
    MovePartition,
    RecoverCluster,
    RecoveredSeat,
    RegisterBroker,
    ReplaceReplica,
    UnregisterBroker,
)
from muster_coordinator.controller.image import EMPTY_ID, observers
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, member_no
from muster_coordinator.limits import BROKERS_MAX

from tests.controller.cluster_commands import VOTERS, Log, create, form, register, topic_id
from tests.controller.test_joining_brokers import NEWCOMER, joins
from tests.controller.test_replacement import FOLDERS, at_level_3
from tests.controller.test_transitions import refused

FOLDER, FRESH = bytes([107]) * 16, b"f" * 16


def leaves(broker: int = NEWCOMER, uuid: bytes = FOLDER) -> UnregisterBroker:
    return UnregisterBroker(broker=BrokerId(broker), replica_uuid=uuid)


def again(uuid: bytes, broker: int = NEWCOMER) -> RegisterBroker:
    return register(broker, uuid=uuid, incarnation=9, feature_max=3)


def test_a_broker_that_left_is_no_broker_any_more() -> None:
    log = at_level_3(joins(), joins(9))
    assert log.apply(leaves()).error == Code.NONE
    assert observers(log.cluster) == (9,)
    assert log.cluster.unregistered == {NEWCOMER: (FOLDER,)}
    assert "not registered" in refused(log, leaves(uuid=EMPTY_ID), Code.BROKER_ID_NOT_REGISTERED)
    assert "not registered" in refused(log, leaves(33), Code.BROKER_ID_NOT_REGISTERED)


def test_below_its_level_nobody_leaves() -> None:
    for level in (1, 2):
        log = Log(form(feature_level=level), *(register(voter, feature_max=3) for voter in VOTERS))
        said = refused(log, leaves(), Code.UNSUPPORTED_VERSION)
        assert said == f"unregistering a broker needs feature level 3; the cluster has {level}"


def test_its_folder_never_registers_again_under_any_id() -> None:
    log = at_level_3(joins(), leaves())
    for command in (joins(), again(FOLDER), again(FOLDER, 8), again(FOLDER, 2)):
        words = refused(log, command, Code.DUPLICATE_BROKER_REGISTRATION)
        assert words.startswith(f"broker 7 with data folder {FOLDER.hex()} was unregistered: remove it")


def test_an_empty_folder_under_its_id_is_another_member() -> None:
    """Also after it left twice, and was replaced between."""
    log = at_level_3(joins(), leaves(), again(FRESH))
    back = log.cluster.brokers[NEWCOMER]
    assert (back.member, back.gone) == (member_no(NEWCOMER, 1), (FOLDER,))
    assert log.cluster.unregistered == {}
    assert FOLDER.hex() in refused(log, again(FOLDER), Code.DUPLICATE_BROKER_REGISTRATION)
    log.apply(ReplaceReplica(broker=NEWCOMER, gone_uuid=FRESH))
    log.apply(again(b"g" * 16))
    log.apply(leaves(uuid=b"g" * 16))
    log.apply(again(b"h" * 16))
    back = log.cluster.brokers[NEWCOMER]
    assert (back.member, back.gone) == (member_no(NEWCOMER, 3), (FOLDER, FRESH, b"g" * 16))


def test_one_whose_folder_is_gone_leaves_without_another() -> None:
    log = at_level_3(joins(), ReplaceReplica(broker=NEWCOMER, gone_uuid=FOLDER))
    assert log.apply(leaves(uuid=EMPTY_ID)).error == Code.NONE
    assert log.cluster.unregistered == {NEWCOMER: (FOLDER,)}
    assert log.apply(ReplaceReplica(broker=BrokerId(1), gone_uuid=FOLDERS[1])).error == Code.NONE, "nobody waits"
    log.apply(again(FRESH))
    assert log.cluster.brokers[NEWCOMER].member == member_no(NEWCOMER, 1)


def test_a_command_that_is_repeated_or_late_lets_nobody_else_go() -> None:
    log = at_level_3(joins(), leaves())
    before = log.cluster
    assert log.apply(leaves()).error == Code.NONE
    assert log.cluster.unregistered is before.unregistered
    log.apply(again(FRESH))
    assert FRESH.hex() in refused(log, leaves(), Code.INVALID_REQUEST)
    assert NEWCOMER in log.cluster.brokers


@pytest.mark.parametrize("registered", [True, False])
def test_a_voter_of_the_controllers_group_stays(registered: bool) -> None:
    log = at_level_3() if registered else Log(form(feature_level=3), register(0, feature_max=3))
    words = refused(log, leaves(2, FOLDERS[2]), Code.POLICY_VIOLATION)
    assert words == "broker 2 votes in the controller's group"


def test_who_has_or_may_have_a_replica_stays() -> None:
    """One that is to get it, one that has it, and one that has to go and is not let go yet."""
    log = at_level_3(joins(), joins(8), joins(9), create("t", n=1, partitions=3))
    target, one = tuple(map(BrokerId, (7, 8, 9))), (BrokerId(8),)
    for number in range(2):
        log.apply(MovePartition(topic_id=topic_id(1), partition=number, voters=target))
    words = refused(log, leaves(), Code.POLICY_VIOLATION)
    assert words == "broker 7 has replicas: move t-0 and 1 more away from it first"
    log.apply(CompleteMove(topic_id=topic_id(1), partition=0, voters=target))
    log.apply(MovePartition(topic_id=topic_id(1), partition=0, voters=one))
    log.apply(MovePartition(topic_id=topic_id(1), partition=1, voters=()))
    assert "t-0 and 1 more" in refused(log, leaves(), Code.POLICY_VIOLATION)
    log.apply(CompleteMove(topic_id=topic_id(1), partition=0, voters=one))
    log.apply(CompleteMove(topic_id=topic_id(1), partition=1, voters=VOTERS[1:] + VOTERS[:1]))
    assert log.apply(leaves()).error == Code.NONE
    assert "not registered" in refused(
        log, MovePartition(topic_id=topic_id(1), partition=0, voters=target), Code.INVALID_REPLICA_ASSIGNMENT
    )


def test_who_left_holds_up_no_feature_level() -> None:
    log = at_level_3(*(register(voter, incarnation=6, feature_max=4) for voter in VOTERS), joins())
    refused(log, FinalizeFeatures(feature_level=4), Code.UNSUPPORTED_VERSION)
    log.apply(leaves())
    assert log.apply(FinalizeFeatures(feature_level=4)).error == Code.NONE


def test_ids_of_those_that_left_count_and_may_be_taken() -> None:
    """The cluster record keeps a seat for each of them."""
    log = at_level_3(*(joins(broker) for broker in range(10, 10 + BROKERS_MAX - len(VOTERS))))
    for broker in (10, 11):
        log.apply(leaves(broker, bytes([100 + broker]) * 16))
    words = refused(log, joins(99), Code.POLICY_VIOLATION)
    assert f"the cluster has {BROKERS_MAX} brokers" in words
    assert "2 of them unregistered, whose ids may be taken" in words
    assert log.apply(again(FRESH, 10)).error == Code.NONE
    assert log.apply(again(b"g" * 16, 11)).error == Code.NONE


def test_the_folders_that_are_kept_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "GONE_FOLDERS_MAX", 1)
    log = at_level_3(joins(), leaves(), again(FRESH))
    assert "the most that are kept" in refused(log, leaves(uuid=FRESH), Code.POLICY_VIOLATION)


def test_a_checkpoint_holds_who_left() -> None:
    log = at_level_3(joins(), joins(9), leaves(), leaves(9, bytes([109]) * 16))
    twin = ControllerMachine()
    twin.restore(log.machine.image().encode())
    assert twin.cluster == log.cluster
    assert twin.state_hash() == log.machine.state_hash()


def test_a_recovery_brings_nobody_back_as_who_it_was() -> None:
    """The folder that goes on may know of one that has come back since."""
    log = at_level_3(joins(), leaves())
    seat = RecoveredSeat(broker=NEWCOMER, gone=(FRESH,), bound=EMPTY_ID)
    assert log.apply(RecoverCluster(seats=(seat,), next_group=0, next_producer_id=0)).error == Code.NONE
    back = log.cluster.brokers[NEWCOMER]
    assert (back.member, back.gone, back.bound) == (member_no(NEWCOMER, 2), (FOLDER, FRESH), False)
    assert log.cluster.unregistered == {}


STEPS = st.lists(
    st.one_of(
        st.builds(again, st.sampled_from([bytes([n]) * 16 for n in range(1, 6)]), st.sampled_from([7, 8])),
        st.builds(leaves, st.sampled_from([7, 8]), st.sampled_from([bytes([n]) * 16 for n in range(6)])),
    ),
    max_size=25,
)


@given(STEPS)
def test_no_member_number_is_ever_given_to_two_folders(steps: list[Command]) -> None:
    log = at_level_3()
    folders: dict[int, bytes] = {}
    left: set[bytes] = set()
    for step in steps:
        before = log.cluster.brokers
        taken = log.apply(step).error == 0
        for broker in log.cluster.brokers.values():
            if broker.broker not in VOTERS:
                assert folders.setdefault(broker.member, broker.replica_uuid) == broker.replica_uuid
                assert broker.replica_uuid not in left
        if taken and isinstance(step, UnregisterBroker) and step.broker in before:
            left.add(step.replica_uuid)
