"""A certificate's subject becomes the user that Java and Kafka make of it."""

import random

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.security.distinguished_name import rfc2253
from muster_coordinator.security.principal_mapping import SUBJECT_CHARS_MAX, NoMatchingRule, principal_rules

from tests.security.names import DN, INVALID, MAPPINGS, NAMES, NOBODY


@pytest.mark.parametrize("shown", NAMES)
def test_a_name_is_spelled_as_java_spells_it(shown: str) -> None:
    assert rfc2253(NAMES[shown]) == shown


def mapped(rules: str, name: str) -> str:
    try:
        return principal_rules(rules).user(name)
    except NoMatchingRule:
        return NOBODY
    except ValueError:
        return INVALID


@pytest.mark.parametrize(("rules", "name", "user"), MAPPINGS)
def test_rules_map_as_kafkas(rules: str, name: str, user: str) -> None:
    assert mapped(rules, name) == user


def test_damaged_names_are_refused_and_never_another_error() -> None:
    drawn = random.Random(18)
    refused = 0
    for whole in NAMES.values():
        for _ in range(200):
            data = bytearray(whole or b"0")
            for _ in range(drawn.randrange(1, 4)):
                data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
            try:
                rfc2253(bytes(data[: drawn.randrange(len(data) + 1)]))
            except WireError:
                refused += 1
    assert refused > 1_000
    with pytest.raises(WireError, match="no name"):
        rfc2253(b"")


def test_a_subject_over_the_limit_is_not_tried() -> None:
    rules = principal_rules("DEFAULT")
    assert len(rules.user("x" * SUBJECT_CHARS_MAX)) == SUBJECT_CHARS_MAX
    with pytest.raises(NoMatchingRule, match="more than"):
        rules.user("x" * (SUBJECT_CHARS_MAX + 1))


def test_an_invalid_rule_is_named() -> None:
    with pytest.raises(ValueError, match="DEFAULT/L"):
        principal_rules("DEFAULT/L")
    assert principal_rules("DEFAULT,, ").user(DN) == DN
