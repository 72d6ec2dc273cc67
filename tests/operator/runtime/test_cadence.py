"""When a status is worth a write."""

import pytest
from muster_operator.limits import LAG_BAND_HELD_MS
from muster_operator.runtime.cadence import Decision, Held, band_of, decide, holding

BASE = {
    "state": "Stable",
    "lag": 10,
    "lagText": "10",
    "lagTime": "2026-01-01T00:00:00Z",
    "readyReplicas": 3,
    "members": [{"instanceId": "g-0", "lag": 10}],
    "conditions": [{"type": "Ready", "status": "True"}],
}
MINUTE_MS = LAG_BAND_HELD_MS


@pytest.mark.parametrize(
    ("lag", "band"),
    [(0, 0), (1, 1), (3, 1), (4, 2), (15, 2), (16, 3), (63, 3), (64, 4), (2**62 - 1, 31), (2**62, 32), (None, None)],
)
def test_bands_are_0_and_then_powers_of_four(lag: int | None, band: int | None) -> None:
    assert band_of(lag) == band


@pytest.mark.parametrize(
    ("change", "since_ms", "decision"),
    [
        ({}, 0, Decision.SKIP),
        ({"lagTime": "2026-01-01T00:10:00Z"}, 10 * MINUTE_MS, Decision.SKIP),
        ({"lag": 15, "lagText": "15"}, 10 * MINUTE_MS, Decision.SKIP),
        ({"lag": 4, "lagText": "4"}, 10 * MINUTE_MS, Decision.SKIP),
        ({"lag": 16, "lagText": "16"}, MINUTE_MS - 1, Decision.WAIT),
        ({"lag": 16, "lagText": "16"}, MINUTE_MS, Decision.LAG),
        ({"lag": 0, "lagText": "0"}, MINUTE_MS - 1, Decision.WAIT),
        ({"lag": 0, "lagText": "0"}, MINUTE_MS, Decision.LAG),
        ({"lag": 11, "lagText": "~11", "lagQuality": "estimated"}, 10 * MINUTE_MS, Decision.SKIP),
        ({"lag": 16, "lagText": "~16", "lagQuality": "estimated"}, MINUTE_MS, Decision.LAG),
        ({"members": [{"instanceId": "g-0", "lag": 12}]}, 10 * MINUTE_MS, Decision.SKIP),
        ({"members": [{"instanceId": "g-1", "lag": 10}]}, 0, Decision.WRITE),
        ({"lagText": "Unknown"}, 0, Decision.WRITE),
        ({"readyReplicas": 2, "lag": 16, "lagText": "16"}, 0, Decision.WRITE),
        ({"state": "Empty"}, 0, Decision.WRITE),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, 0, Decision.WRITE),
    ],
)
def test_cadence(change: dict[str, object], since_ms: int, decision: Decision) -> None:
    wanted = {**BASE, **change}
    held = Held(band=band_of(wanted["lag"]), since_ms=100_000)
    found, reason, _ = decide(BASE, wanted, held=held, now_ms=100_000 + since_ms)
    assert found is decision, reason


def test_lag_that_goes_to_and_fro_has_not_held() -> None:
    held = None
    for at_ms, lag in enumerate([10, 16, 10, 16]):
        held = holding(held, {"lag": lag}, at_ms * 50_000)
    assert held == Held(band=3, since_ms=150_000)
    assert holding(held, {"lag": 40}, 200_000) == held
    assert decide(BASE, {**BASE, "lag": 40, "lagText": "40"}, held=held, now_ms=200_000)[0] is Decision.WAIT


def test_lag_that_disappears_is_news() -> None:
    wanted = {key: value for key, value in BASE.items() if key != "lag"}
    assert decide(BASE, wanted, held=Held(band=None, since_ms=0), now_ms=0)[0] is Decision.WRITE


def test_a_put_off_write_says_how_long() -> None:
    assert decide(BASE, {**BASE, "lag": 1}, held=Held(band=1, since_ms=1_000), now_ms=5_000)[2] == MINUTE_MS - 4_000


def test_a_status_from_before_the_time_of_the_figure_is_no_difference() -> None:
    """Or the first start of this version would write every group."""
    stored = {key: value for key, value in BASE.items() if key != "lagTime"}
    assert decide(stored, BASE, held=Held(band=2, since_ms=0), now_ms=10 * MINUTE_MS)[0] is Decision.SKIP


def test_what_the_server_made_of_our_words_is_no_difference_but_lag_is_seen() -> None:
    stored = {key: value for key, value in BASE.items() if key != "members"}
    held = Held(band=3, since_ms=0)
    wanted = {**BASE, "lag": 16, "lagText": "16"}
    assert decide(stored, BASE, held=Held(band=2, since_ms=0), now_ms=0, as_written=True)[0] is Decision.SKIP
    assert decide(stored, wanted, held=held, now_ms=MINUTE_MS, as_written=True)[0] is Decision.LAG


def test_conditions_of_others_are_no_difference() -> None:
    stored = {**BASE, "conditions": [*BASE["conditions"], {"type": "Theirs", "status": "True"}]}  # type: ignore[misc]
    assert decide(stored, BASE, held=Held(band=2, since_ms=0), now_ms=0)[0] is Decision.SKIP
