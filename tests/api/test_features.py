"""UpdateFeatures: the feature level rises to what all brokers support and never falls. Codes of Kafka's controller."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.api import limits
from muster_coordinator.controller.commands import CommandResult, FinalizeFeatures
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code

NAME = "muster.feature.level"
EVERY = pytest.mark.parametrize("version", range(3))
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def able(level: int = 4) -> FakeSurface:
    """Three brokers that support more than the cluster has, which is 3."""
    surface = FakeSurface()
    surface.brokers = {number: replace(one, feature_max=level) for number, one in surface.brokers.items()}
    return surface


def ask(
    surface: FakeSurface, level: int, *, name: str = NAME, kind: int = UPGRADE, version: int = 2, **more: Any
) -> tuple[int, str | None]:
    """What the client is told of the one feature, or of the whole."""
    update = {"feature": name, "max_version_level": level, "allow_downgrade": kind != UPGRADE, "upgrade_type": kind}
    values = {"feature_updates": [update], "timeout_ms": 5_000, **more}
    answer = KafkaClient(surface).ask(Api.UPDATE_FEATURES, version, **values)
    if version < 2 and not code(answer.error_code):
        (one,) = answer.results
        assert one.feature == name
        return code(one.error_code), one.error_message
    return code(answer.error_code), answer.error_message


@EVERY
def test_the_level_rises_to_what_all_support(version: int) -> None:
    surface = able()
    assert ask(surface, 4, version=version) == (0, None)
    assert surface.commands == [FinalizeFeatures(feature_level=4)]
    assert surface.command_deadlines == [surface.fake_loop.now_ms + 5_000]
    assert ask(surface, 4, version=version) == (0, None), "it has it"


@EVERY
def test_a_level_that_one_broker_does_not_support_is_95(version: int) -> None:
    surface = able()
    surface.brokers[BrokerId(1)] = replace(surface.brokers[BrokerId(1)], feature_max=3)
    assert ask(surface, 4, version=version) == (95, "broker 1 supports feature levels up to 3")
    del surface.brokers[2]
    surface.brokers[BrokerId(1)] = replace(surface.brokers[BrokerId(1)], feature_max=9)
    assert ask(surface, 4, version=version) == (95, "broker 2 has never registered")
    assert surface.commands == []


@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
@EVERY
def test_it_never_falls_whatever_is_allowed(version: int, kind: int) -> None:
    surface = able()
    got, words = ask(surface, 2, kind=kind, version=version)
    assert got == 95
    assert words == "the feature level is 3 and never falls: earlier releases cannot read what is written at it"
    for level in (0, -1):
        assert ask(surface, level, kind=kind, version=version)[0] == 95
    assert surface.commands == []


def test_what_cannot_be_understood_is_95() -> None:
    surface = able()
    assert ask(surface, 4, name="metadata.version") == (95, f"there is no feature metadata.version; there is {NAME}")
    for kind in (0, 4, -1):
        assert "unknown" in str(ask(surface, 4, kind=kind))
    assert "asked for as a downgrade" in str(ask(surface, 4, kind=SAFE))
    assert surface.commands == []


TRANSACTIONS = "transaction.version"


@EVERY
def test_the_transaction_version_may_be_asked_for_as_it_is_and_follows_the_level(version: int) -> None:
    """`kafka-features upgrade --feature transaction.version=2`, as guides of Kafka 4 have it, is done already."""
    surface = able()
    assert ask(surface, 2, name=TRANSACTIONS, version=version) == (0, None)
    for other, kind in ((0, UNSAFE), (1, SAFE), (3, UPGRADE)):
        found, said = ask(surface, other, name=TRANSACTIONS, kind=kind, version=version)
        assert (found, f"is 2 and cannot be {other}: it follows {NAME}" in str(said)) == (95, True)
    surface.feature_level = 2
    found, said = ask(surface, 2, name=TRANSACTIONS, version=version)
    assert (found, said) == (95, f"{TRANSACTIONS} follows {NAME}, which is 2: raise that to 3")
    assert surface.commands == []


def test_both_features_are_raised_together_or_none() -> None:
    def both(level: int, transactions: int) -> list[dict[str, Any]]:
        wanted = ((NAME, level), (TRANSACTIONS, transactions))
        return [{"feature": name, "max_version_level": number, "upgrade_type": UPGRADE} for name, number in wanted]

    surface = able()
    surface.feature_level = 2
    assert ask(surface, 0, feature_updates=both(3, 1))[0] == 95
    assert ask(surface, 0, feature_updates=both(9, 2))[0] == 95
    assert surface.commands == []
    assert ask(surface, 0, feature_updates=both(3, 2)) == (0, None)
    assert surface.commands == [FinalizeFeatures(feature_level=3)]


def test_a_feature_that_is_named_twice_is_42() -> None:
    surface = able()
    updates = [{"feature": NAME, "max_version_level": 4, "upgrade_type": 1}] * 2
    assert ask(surface, 4, feature_updates=updates)[0] == 42
    assert surface.commands == []
    assert ask(surface, 4, feature_updates=[]) == (0, None)
    assert surface.commands == []


@pytest.mark.parametrize("version", [1, 2])
def test_only_validated_nothing_is_changed(version: int) -> None:
    surface = able()
    assert ask(surface, 4, version=version, validate_only=True) == (0, None)
    assert ask(surface, 5, version=version, validate_only=True)[0] == 95
    assert (surface.commands, surface.feature_level) == ([], 3)


@EVERY
def test_no_refusal_by_an_image_that_may_be_late(version: int) -> None:
    surface = able()
    surface.on_image_question = lambda: False
    assert ask(surface, 2, version=version)[0] == 41
    assert ask(surface, 5, version=version)[0] == 41

    def question() -> bool:
        surface.brokers = able(5).brokers
        return True

    surface.on_image_question = question
    assert ask(surface, 5, version=version) == (0, None)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (CommandResult(Code.NOT_CONTROLLER, "no leader"), 41),
        (CommandResult(Code.REQUEST_TIMED_OUT, "not known"), 7),
        (CommandResult(Code.UNSUPPORTED_VERSION, "broker 1 supports less"), 95),
        (CommandResult(Code.INVALID_REQUEST, "feature level 5 is finalised"), 95),
    ],
)
@EVERY
def test_what_the_controllers_log_says_is_told(version: int, result: CommandResult, expected: int) -> None:
    surface = able()
    surface.on_command = lambda _: result
    assert ask(surface, 4, version=version) == (expected, result.message)


def test_time_is_bounded_and_before_the_cluster_is_formed_the_client_is_to_ask_again() -> None:
    surface = able()
    assert ask(surface, 4, timeout_ms=0)[0] == 7
    assert surface.commands == []
    ask(surface, 4, timeout_ms=2**31 - 1)
    assert surface.command_deadlines == [surface.fake_loop.now_ms + limits.ADMIN_TIMEOUT_MS_MAX]
    surface.formed = False
    assert ask(surface, 4)[0] == 41
