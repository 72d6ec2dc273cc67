"""Brokers that the cluster was not formed with register (ADR 41): the rules, and what their registration changes."""

from muster_coordinator.controller.commands import FinalizeFeatures, RegisterBroker, ReplaceReplica
from muster_coordinator.controller.image import MEMBERS_LEVEL, OFFSETS_TOPIC, observers
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import BROKERS_MAX

from tests.controller.cluster_commands import VOTERS, Log, create, form, register
from tests.controller.test_replacement import at_level_3
from tests.controller.test_transitions import refused

NEWCOMER = BrokerId(7)


def joins(broker: int = NEWCOMER, feature_max: int = MEMBERS_LEVEL) -> RegisterBroker:
    return register(broker, uuid=bytes([100 + broker]) * 16, incarnation=0, feature_max=feature_max)


def test_a_newcomer_is_an_observer_and_holds_nothing() -> None:
    log = at_level_3(joins(), joins(9), create("later", partitions=5))
    assert observers(log.cluster) == (NEWCOMER, 9)
    assert log.cluster.voters == VOTERS
    for topic in (OFFSETS_TOPIC, "later"):
        for partition in log.cluster.topics[topic].partitions:
            assert set(partition.voters) == set(VOTERS)


def test_below_its_level_it_is_refused_with_the_words_of_the_release_before() -> None:
    for level in (1, 2):
        log = Log(form(feature_level=level), *(register(voter, feature_max=3) for voter in VOTERS))
        assert refused(log, joins(), Code.INVALID_REQUEST) == "broker 7 is not a voter of this cluster"


def test_its_id_stays_bound_to_its_folder() -> None:
    log = at_level_3(joins())
    other = register(NEWCOMER, uuid=b"x" * 16, incarnation=9, feature_max=3)
    assert "another data folder" in refused(log, other, Code.DUPLICATE_BROKER_REGISTRATION)
    taken = register(8, uuid=bytes([107]) * 16, feature_max=3)
    assert "is bound to broker 7" in refused(log, taken, Code.DUPLICATE_BROKER_REGISTRATION)
    gone = ReplaceReplica(broker=NEWCOMER, gone_uuid=bytes([107]) * 16)
    assert log.apply(gone).error == Code.NONE
    assert "was replaced" in refused(log, joins(), Code.DUPLICATE_BROKER_REGISTRATION)
    assert log.apply(other).error == Code.NONE
    assert log.cluster.brokers[NEWCOMER].binding == 1


def test_an_observer_of_a_single_replica_may_be_replaced_and_that_replica_not() -> None:
    log = at_level_3(joins(), voters=VOTERS[:1])
    assert log.apply(ReplaceReplica(broker=NEWCOMER, gone_uuid=bytes([107]) * 16)).error == Code.NONE
    log = at_level_3(joins(), voters=VOTERS[:1])
    only = ReplaceReplica(broker=VOTERS[0], gone_uuid=log.cluster.brokers[VOTERS[0]].replica_uuid)
    assert "only replica" in refused(log, only, Code.INVALID_REQUEST)


def test_there_are_never_more_brokers_than_the_limit() -> None:
    """Voters that have not registered yet count: their ids are theirs."""
    log = at_level_3()
    free = BROKERS_MAX - len(VOTERS)
    for broker in range(10, 10 + free):
        assert log.apply(joins(broker)).error == Code.NONE
    assert f"has {BROKERS_MAX} brokers" in refused(log, joins(99), Code.POLICY_VIOLATION)
    again = register(10, uuid=bytes([110]) * 16, incarnation=1, feature_max=3)
    assert log.apply(again).error == Code.NONE, "those that are there register as before"


def test_a_negative_id_is_refused() -> None:
    log = at_level_3()
    bad = register(0, uuid=b"x" * 16, feature_max=3)
    bad = RegisterBroker(
        broker=BrokerId(-1),
        replica_uuid=bad.replica_uuid,
        incarnation=0,
        endpoints=(),
        admin="",
        feature_max=3,
    )
    assert "not negative" in refused(log, bad, Code.INVALID_REQUEST)


def test_a_level_that_an_observer_does_not_support_is_not_finalised() -> None:
    log = at_level_3(*(register(voter, incarnation=6, feature_max=4) for voter in VOTERS), joins())
    assert "broker 7 supports" in refused(log, FinalizeFeatures(feature_level=4), Code.UNSUPPORTED_VERSION)
    assert log.apply(register(7, uuid=bytes([107]) * 16, incarnation=1, feature_max=4)).error == Code.NONE
    assert log.apply(FinalizeFeatures(feature_level=4)).error == Code.NONE
    late = register(8, uuid=b"y" * 16, feature_max=3)
    assert "supports up to 3" in refused(log, late, Code.UNSUPPORTED_VERSION)


def test_a_checkpoint_holds_observers() -> None:
    log = at_level_3(joins())
    machine = ControllerMachine()
    machine.restore(log.machine.image().encode())
    assert machine.cluster is not None
    assert observers(machine.cluster) == (NEWCOMER,)
    assert machine.state_hash() == log.machine.state_hash()
