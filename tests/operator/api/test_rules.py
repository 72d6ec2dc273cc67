"""Every CEL rule has an example that it refuses; the Python twins agree, with the same words."""

import pytest
from muster_operator.api.cluster import parse_cluster
from muster_operator.api.errors import InvalidObject
from muster_operator.api.group import parse_group
from muster_operator.api.kinds import KINDS, Kind
from muster_operator.api.topic import parse_topic
from muster_operator.api.user import parse_user

from tests.operator.api.cel_examples import CEL_EXAMPLES, GOOD, Example, rules_of

PARSERS = {"CoordinatorCluster": parse_cluster, "ConsumerGroup": parse_group, "Topic": parse_topic, "User": parse_user}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
def test_every_rule_has_an_example_and_every_example_a_rule(kind: Kind) -> None:
    messages = {message for _, message in rules_of(kind)}
    shown = [example.says for example in CEL_EXAMPLES if example.kind == kind]
    assert not [message for message in messages if not any(message.startswith(says) for says in shown)]
    assert not [says for says in shown if sum(message.startswith(says) for message in messages) != 1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
def test_a_transition_rule_has_an_update_as_its_example(kind: Kind) -> None:
    for rule, message in rules_of(kind):
        updates = [e.old is not None for e in CEL_EXAMPLES if e.kind == kind and message.startswith(e.says)]
        assert all(updates) if "oldSelf" in rule else not any(updates), message


def name_of(example: Example) -> str:
    return f"{example.kind.short}-{example.says[:30]}"


@pytest.mark.parametrize("example", [e for e in CEL_EXAMPLES if e.parsed], ids=name_of)
def test_what_was_stored_before_a_rule_is_still_worked_with(example: Example) -> None:
    PARSERS[example.kind.kind](example.refused)


@pytest.mark.parametrize("example", [e for e in CEL_EXAMPLES if e.old is None and not e.parsed], ids=name_of)
def test_the_parser_refuses_what_the_rule_refuses_in_the_same_words(example: Example) -> None:
    with pytest.raises(InvalidObject) as caught:
        PARSERS[example.kind.kind](example.refused)
    assert caught.value.message.startswith(example.says)
    assert caught.value.path.startswith(("spec", "metadata.name"))


@pytest.mark.parametrize("example", [e for e in CEL_EXAMPLES if e.old is not None], ids=name_of)
def test_both_sides_of_a_refused_update_are_fine_by_themselves(example: Example) -> None:
    assert example.old is not None
    PARSERS[example.kind.kind](example.manifest(example.old))
    PARSERS[example.kind.kind](example.refused)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
def test_the_object_that_the_examples_start_from_is_fine(kind: Kind) -> None:
    PARSERS[kind.kind]({"metadata": {"name": "example"}, "spec": dict(GOOD[kind.kind])})
