"""When a status is worth a write."""

import pytest
from muster_operator.runtime.cadence import Decision, decide

BASE = {
    "state": "Stable",
    "lag": 10,
    "lagText": "10",
    "readyReplicas": 3,
    "members": [{"instanceId": "g-0", "lag": 10}],
    "conditions": [{"type": "Ready", "status": "True"}],
}


@pytest.mark.parametrize(
    ("change", "since_ms", "decision"),
    [
        ({}, 0, Decision.SKIP),
        ({"lag": 11, "lagText": "11"}, 9_999, Decision.WAIT),
        ({"lag": 11, "lagText": "11"}, 10_000, Decision.WRITE),
        ({"members": [{"instanceId": "g-0", "lag": 12}]}, 1, Decision.WAIT),
        ({"members": [{"instanceId": "g-1", "lag": 10}]}, 1, Decision.WRITE),
        ({"lagText": "Unknown"}, 1, Decision.WRITE),
        ({"readyReplicas": 2}, 1, Decision.WRITE),
        ({"state": "Empty"}, 1, Decision.WRITE),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, 1, Decision.WRITE),
    ],
)
def test_cadence(change: dict[str, object], since_ms: int, decision: Decision) -> None:
    found, reason, _ = decide(BASE, {**BASE, **change}, last_write_ms=100_000, now_ms=100_000 + since_ms)
    assert found is decision, reason


def test_lag_that_disappears_is_news() -> None:
    wanted = {key: value for key, value in BASE.items() if key != "lag"}
    assert decide(BASE, wanted, last_write_ms=0, now_ms=1)[0] is Decision.WRITE


def test_a_put_off_write_says_how_long() -> None:
    assert decide(BASE, {**BASE, "lag": 1}, last_write_ms=0, now_ms=4_000)[2] == 6_000


def test_conditions_of_others_are_no_difference() -> None:
    stored = {**BASE, "conditions": [*BASE["conditions"], {"type": "Theirs", "status": "True"}]}  # type: ignore[misc]
    assert decide(stored, BASE, last_write_ms=None, now_ms=0)[0] is Decision.SKIP
