"""When a live object already says what we want, and when not."""

from typing import Any

import pytest
from muster_operator.drift import covers, drifted, quantity, same_status, with_hash
from muster_operator.runtime.settled import Settled


@pytest.mark.parametrize(
    ("live", "desired", "covered"),
    [
        ({"a": 1, "default": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": 1}, False),
        ({}, {"a": {}, "b": [], "c": None}, True),
        ({"n": 1}, {"n": True}, False),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}, True),
        ({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "1024Mi"}}, True),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": 1}}, True),
        ({"env": {"cpu": "1"}}, {"env": {"cpu": "1000m"}}, False),
        ({"l": [{"name": "b"}, {"name": "a", "x": 1}]}, {"l": [{"name": "a", "x": 1}]}, True),
        ({"l": [{"name": "b"}]}, {"l": [{"name": "a"}]}, False),
        ({"l": ["a", "b"]}, {"l": ["a"]}, False),
        ({"l": ["a", "b"]}, {"l": ["a", "b"]}, True),
        ({"l": ["b", "a"]}, {"l": ["a", "b"]}, False),
    ],
)
def test_covers(live: Any, desired: Any, covered: bool) -> None:
    assert covers(live, desired) is covered


MANIFEST: dict[str, Any] = {
    "kind": "Service", "metadata": {"name": "s", "namespace": "ns", "labels": {"a": "b"}}, "spec": {"x": 1, "y": 2},
}  # fmt: skip


def stored(manifest: dict[str, Any]) -> dict[str, Any]:
    sent = with_hash(manifest)
    return {**sent, "metadata": {**sent["metadata"], "uid": "u"}}


def test_what_was_applied_has_not_drifted() -> None:
    assert drifted(stored(MANIFEST), MANIFEST) is None


@pytest.mark.parametrize(
    ("wanted", "missing"), [(0, True), (False, True), ("", True), (None, False), ({}, False), ([], False)]
)
def test_a_wanted_zero_is_wanted(wanted: Any, missing: bool) -> None:
    """A server drops what is empty. It does not drop a 0 that we ask for without meaning another value by it."""
    assert covers({"other": 1}, {"other": 1, "field": wanted}) is not missing


def test_a_field_that_is_no_longer_wanted_is_drift() -> None:
    """The live object covers what is wanted now, and yet has to be written: the field must vanish."""
    less = {**MANIFEST, "spec": {"x": 1}}
    assert covers(stored(MANIFEST), less)
    assert drifted(stored(MANIFEST), less) == "the wanted content changed"


def test_a_change_by_somebody_else_is_named() -> None:
    live = stored(MANIFEST)
    live["spec"] = {"x": 1, "y": 3}
    assert drifted(live, MANIFEST) == "another client changed spec.y"


def test_missing_and_foreign_objects_have_drifted() -> None:
    assert drifted(None, MANIFEST) is not None
    assert drifted(MANIFEST, MANIFEST) == "it was not applied by this operator before"


def test_a_server_that_rewords_our_intent_is_not_asked_again() -> None:
    settled = Settled()
    reworded = stored(MANIFEST)
    reworded["spec"] = {"x": "one", "y": 2}
    assert drifted(reworded, MANIFEST) is not None
    settled.applied(MANIFEST, reworded)
    assert drifted(settled.as_intended(reworded), MANIFEST) is None
    changed = {**reworded, "spec": {"x": "two", "y": 2}}
    assert drifted(settled.as_intended(changed), MANIFEST) is not None, "somebody changed it since"
    other = {**MANIFEST, "spec": {"x": 5, "y": 2}}
    assert drifted(settled.as_intended(reworded), other) is not None, "another intent"


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", "0.5"), ("10Gi", str(10 * 2**30)), ("2", "2"), ("1e3", "1000"), ("x", None), (True, None)],
)
def test_quantities(text: object, value: str | None) -> None:
    found = quantity(text)
    assert (None if found is None else float(found)) == (None if value is None else float(value))


def test_a_status_equals_itself_but_for_conditions_of_others() -> None:
    ours = {"state": "x", "conditions": [{"type": "Ready", "status": "True"}]}
    theirs = {"state": "x", "conditions": [{"type": "Theirs"}, {"type": "Ready", "status": "True"}]}
    assert same_status(theirs, ours)
    assert not same_status({**ours, "left": 1}, ours)
