"""A cluster goes on from one folder (ADR 40): the rules of `RecoverCluster`."""

import dataclasses

import pytest
from muster_coordinator.controller import limits, recovery, transitions
from muster_coordinator.controller.commands import RecoverCluster, RecoveredSeat, RegisterBroker
from muster_coordinator.controller.image import EMPTY_ID, members_of, observers
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, member_no

from tests.controller.cluster_commands import Log, create, form, register, topic_id
from tests.controller.test_replacement import FOLDERS, NEW, at_level_3, broker, lost, new
from tests.controller.test_transitions import refused

KEPT = BrokerId(0)


def seat(number: int, *gone: bytes, bound: bytes = EMPTY_ID) -> RecoveredSeat:
    return RecoveredSeat(broker=BrokerId(number), gone=gone or (FOLDERS[number],), bound=bound)


def recovered(*seats: RecoveredSeat, next_group: int = 0, next_producer_id: int = 0) -> RecoverCluster:
    return RecoverCluster(seats=seats, next_group=next_group, next_producer_id=next_producer_id)


def test_all_others_are_unbound_at_once_and_their_folders_never_come_back() -> None:
    log = at_level_3(create("t", n=1), recovered(seat(1), seat(2)))
    assert broker(log, 0).replica_uuid == FOLDERS[0]
    for number in (1, 2):
        one = broker(log, number)
        assert (one.bound, one.binding, one.gone, one.incarnation) == (False, 1, (FOLDERS[number],), 0)
        assert one.endpoints, "where the next folder is expected"
        said = refused(log, new(number, uuid=FOLDERS[number], incarnation=99), Code.DUPLICATE_BROKER_REGISTRATION)
        assert "was replaced" in said
    assert members_of(log.cluster, log.cluster.voters) == (0, member_no(BrokerId(1), 1), member_no(BrokerId(2), 1))


def test_the_next_folders_are_bound_as_after_a_replacement() -> None:
    log = at_level_3(recovered(seat(1), seat(2)), new(1), new(2, uuid=b"m" * 16))
    assert [broker(log, number).bound for number in range(3)] == [True, True, True]
    assert [broker(log, number).binding for number in range(3)] == [0, 1, 1]
    assert log.apply(lost(1, NEW)).error == 0, "and one of them may be lost again"


def test_numbers_that_the_lost_ones_may_have_given_are_not_given_again() -> None:
    log = at_level_3(create("t", n=1, partitions=2), recovered(next_group=70, next_producer_id=5_000))
    assert log.apply(create("later", n=2)).error == 0
    assert log.cluster.topics["later"].partitions[0].group == 70
    assert log.cluster.next_producer_id == 5_000
    log.apply(recovered(next_group=1, next_producer_id=1))
    assert (log.cluster.next_group, log.cluster.next_producer_id) == (71, 5_000), "numbers never go back"


def test_a_seat_of_which_this_log_knows_less_than_the_record_catches_up() -> None:
    """The image knows the first folder, the record the third: the second has no name here."""
    log = at_level_3(recovered(seat(1, FOLDERS[1], EMPTY_ID, b"z" * 16)))
    one = broker(log, 1)
    assert (one.binding, one.gone) == (3, (FOLDERS[1], EMPTY_ID, b"z" * 16))
    assert refused(log, new(1, uuid=EMPTY_ID), Code.INVALID_REQUEST)
    own = at_level_3(recovered(seat(0, FOLDERS[0], bound=NEW)))
    assert (broker(own, 0).replica_uuid, broker(own, 0).binding, broker(own, 0).incarnation) == (NEW, 1, 0)


def test_a_broker_that_never_registered_has_a_seat_from_then_on() -> None:
    lives = (register(number, incarnation=5, feature_max=3) for number in (0, 1))
    log = Log(form(feature_level=3), *lives, recovered(seat(1), seat(2)))
    assert (broker(log, 2).bound, broker(log, 2).gone, broker(log, 2).endpoints) == (False, (FOLDERS[2],), ())
    assert log.apply(new(2)).error == 0


def test_the_state_survives_a_checkpoint() -> None:
    log = at_level_3(recovered(seat(1, FOLDERS[1], EMPTY_ID), seat(2), next_group=70, next_producer_id=5_000))
    other = Log()
    other.machine.restore(log.machine.image().encode())
    assert other.cluster == log.cluster
    assert other.machine.state_hash() == log.machine.state_hash()


@pytest.mark.parametrize("level", [1, 2])
def test_below_its_level_nothing_changes(level: int) -> None:
    log = Log(form(feature_level=level), register(0, feature_max=3))
    assert "feature level" in refused(log, recovered(seat(1)), Code.UNSUPPORTED_VERSION)


def test_what_makes_no_sense_changes_nothing() -> None:
    log = at_level_3()
    nobody = RecoveredSeat(broker=BrokerId(-1), gone=(NEW,), bound=EMPTY_ID)
    assert refused(log, recovered(nobody), Code.INVALID_REQUEST)
    assert refused(log, recovered(seat(1, b"short")), Code.INVALID_REQUEST)
    assert refused(log, recovered(seat(1, FOLDERS[1], bound=FOLDERS[1])), Code.INVALID_REQUEST)


def test_no_more_folders_are_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "GONE_FOLDERS_MAX", 2)
    assert limits.GONE_FOLDERS_MAX == 1_000
    log = at_level_3(recovered(seat(1, b"a" * 16, b"b" * 16)))
    assert "more than are kept" in refused(log, recovered(seat(1, b"c" * 16)), Code.POLICY_VIOLATION)


def test_a_broker_that_joined_is_unbound_too_also_one_that_this_log_does_not_know() -> None:
    log = at_level_3(new(7, uuid=b"7" * 16), recovered(seat(7, b"7" * 16), seat(8, b"8" * 16)))
    assert observers(log.cluster) == (7, 8)
    assert [(broker(log, number).bound, broker(log, number).gone) for number in (7, 8)] == [
        (False, (b"7" * 16,)),
        (False, (b"8" * 16,)),
    ]
    many = tuple(seat(number, bytes([number]) * 16) for number in range(10, 60))
    assert "more than 50" in refused(log, recovered(*many), Code.POLICY_VIOLATION)


def test_nobody_proposes_it() -> None:
    log = at_level_3()
    refusal = transitions.level_refusal(log.cluster, recovered(seat(1)))
    assert refusal is not None
    assert "no replica of it runs" in refusal.message
    assert transitions.level_refusal(log.cluster, lost(1)) is None


def test_what_the_kept_broker_registers_next_is_its_next_life() -> None:
    log = at_level_3(recovered(seat(1), seat(2)))
    again = dataclasses.replace(new(0, uuid=FOLDERS[0], incarnation=6))
    assert isinstance(again, RegisterBroker)
    assert log.apply(again).error == 0
    assert log.apply(create("t", n=9)).error == 0
    assert log.cluster.names_by_id[topic_id(9)] == "t"
