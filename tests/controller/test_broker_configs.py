"""Throttles of brokers in the controller's log (ADR 46): who may have which, and that they outlive a checkpoint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller.broker_configs import FOLLOWER_RATE, LEADER_RATE, broker_config_error, rate_of
from muster_coordinator.controller.commands import AlterBrokerConfigs, UnregisterBroker
from muster_coordinator.controller.image import EVERY_BROKER
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code, Corruption
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.ids import BrokerId

from tests.controller.cluster_commands import VOTERS, Log, form, register
from tests.controller.test_joining_brokers import NEWCOMER, joins
from tests.controller.test_replacement import at_level_3
from tests.controller.test_transitions import refused

FAST, SLOW = ((LEADER_RATE, "50000000"),), ((FOLLOWER_RATE, "300000"), (LEADER_RATE, "400000"))


def alters(
    broker: int, configs: tuple[tuple[str, str], ...], expected: tuple[tuple[str, str], ...] = ()
) -> AlterBrokerConfigs:
    return AlterBrokerConfigs(broker=BrokerId(broker), expected=expected, configs=configs)


def test_a_broker_has_the_settings_of_the_last_command_whatever_their_order() -> None:
    log = at_level_3(alters(1, FAST))
    assert log.cluster.broker_configs == {1: FAST}
    log.apply(alters(1, SLOW[::-1], FAST))
    assert log.cluster.broker_configs == {1: SLOW}
    assert log.apply(alters(1, (), SLOW[::-1])).error == Code.NONE
    assert log.cluster.broker_configs == {}


def test_what_is_there_already_changes_nothing() -> None:
    log = at_level_3(alters(1, SLOW))
    before = log.cluster.broker_configs
    assert log.apply(alters(1, SLOW, SLOW)).error == Code.NONE
    assert log.cluster.broker_configs is before


def test_a_change_of_what_was_changed_meanwhile_is_refused() -> None:
    log = at_level_3(alters(1, FAST))
    assert refused(log, alters(1, SLOW), Code.INVALID_REQUEST) == "the configs of broker 1 were changed meanwhile"
    said = refused(log, alters(EVERY_BROKER, SLOW, FAST), Code.INVALID_REQUEST)
    assert said == "the configs of all brokers were changed meanwhile"


def test_a_broker_that_is_not_registered_has_none() -> None:
    log = at_level_3(joins())
    for broker in (NEWCOMER, EVERY_BROKER, *VOTERS):
        assert log.apply(alters(broker, FAST)).error == Code.NONE
    for broker in (NEWCOMER + 1, -2):
        assert "not registered" in refused(log, alters(broker, FAST), Code.BROKER_ID_NOT_REGISTERED)


def test_a_setting_is_given_once() -> None:
    assert "twice" in refused(at_level_3(), alters(1, FAST * 2), Code.INVALID_CONFIG)


def test_below_its_level_none_is_set() -> None:
    for level in (1, 2):
        log = Log(form(feature_level=level), *(register(voter, feature_max=3) for voter in VOTERS))
        said = refused(log, alters(1, FAST), Code.UNSUPPORTED_VERSION)
        assert said == f"changing a broker's settings needs feature level 3; the cluster has {level}"
        early = level_refusal(log.cluster, alters(1, FAST))
        assert early is not None
        assert early.error == Code.UNSUPPORTED_VERSION


def test_a_broker_that_left_and_came_back_has_none() -> None:
    log = at_level_3(joins(), alters(NEWCOMER, FAST), alters(0, SLOW))
    uuid = log.cluster.brokers[NEWCOMER].replica_uuid
    log.apply(UnregisterBroker(broker=NEWCOMER, replica_uuid=uuid))
    assert log.cluster.broker_configs == {0: SLOW}
    log.apply(register(NEWCOMER, uuid=b"f" * 16, feature_max=3))
    assert log.cluster.broker_configs == {0: SLOW}


def test_the_rate_in_force_is_the_brokers_own_and_then_that_of_all() -> None:
    log = at_level_3(alters(1, FAST), alters(EVERY_BROKER, SLOW))
    image = log.cluster
    assert rate_of(image, BrokerId(1), LEADER_RATE) == 50_000_000
    assert rate_of(image, BrokerId(1), FOLLOWER_RATE) == 300_000
    assert rate_of(image, BrokerId(2), LEADER_RATE) == 400_000
    assert rate_of(at_level_3().cluster, BrokerId(1), LEADER_RATE) is None
    assert rate_of(None, BrokerId(1), LEADER_RATE) is None


@given(
    st.dictionaries(st.sampled_from([-1, 0, 1, 2]), st.sampled_from([FAST, SLOW]), max_size=4),
)
def test_settings_outlive_a_checkpoint(settings: dict[int, tuple[tuple[str, str], ...]]) -> None:
    log = at_level_3(*(alters(broker, configs) for broker, configs in settings.items()))
    twin = ControllerMachine()
    twin.restore(log.machine.image().encode())
    assert twin.cluster == log.cluster
    assert twin.cluster.broker_configs == settings
    assert twin.state_hash() == log.machine.state_hash()


def test_settings_that_cannot_be_are_corruption() -> None:
    """Each image has one spelling: none for a broker without any, each sorted, no broker below all of them."""
    head = at_level_3(alters(1, SLOW)).machine.image().encode().head
    both = [bytes([0, 0, 0, len(text)]) + text.encode() for pair in SLOW for text in pair]
    whole = b"\x00\x00\x00\x01\x00\x00\x00\x02" + b"".join(both)
    assert head.count(whole) == 1
    swapped = b"\x00\x00\x00\x01\x00\x00\x00\x02" + b"".join(both[2:] + both[:2])
    for bad in (swapped, b"\x00\x00\x00\x01\x00\x00\x00\x00", b"\xff\xff\xff\xfe" + whole[4:]):
        with pytest.raises(Corruption, match="has settings"):
            ControllerMachine().restore(CheckpointBody(head.replace(whole, bad), ()))


@pytest.mark.parametrize(
    ("value", "legal"),
    [("262144", True), ("262143", False), (str(2**63 - 1), True), (str(2**63), False), ("x", False), ("", False)],
)
def test_a_rate_is_at_least_four_chunks_a_second(value: str, *, legal: bool) -> None:
    for name in (LEADER_RATE, FOLLOWER_RATE):
        assert (broker_config_error(name, value) is None) is legal
    assert broker_config_error("log.dirs", value) is not None
