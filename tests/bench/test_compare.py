"""Ratios, spreads and verdicts: what decides whether a row holds."""

import pytest

from bench.compare import KAFKA, MUSTER, Target, Verdict, judge, number, ratio, spread

SAMPLES = {
    "rate": {MUSTER: [130.0, 90.0, 120.0], KAFKA: [100.0, 101.0, 40.0]},
    "p99": {MUSTER: [9.0, 12.0, 10.0]},
    "p99 quiet": {MUSTER: [5.0]},
    "nothing": {MUSTER: [1.0], KAFKA: [0.0]},
}


def test_a_ratio_is_of_medians_so_one_disturbed_run_does_not_decide() -> None:
    assert ratio(SAMPLES, "rate", MUSTER, KAFKA) == 1.2


@pytest.mark.parametrize(
    ("target", "verdict", "measured"),
    [
        (Target(figure="rate", at_least=1.2, of_side=KAFKA), Verdict.HELD, "1.20x"),
        (Target(figure="rate", at_least=1.21, of_side=KAFKA), Verdict.MISSED, "1.20x"),
        (Target(figure="rate", at_most=1.2, of_side=KAFKA), Verdict.HELD, "1.20x"),
        (Target(figure="rate", at_most=1.19, of_side=KAFKA), Verdict.MISSED, "1.20x"),
        (Target(figure="p99", at_most=10), Verdict.HELD, "10"),
        (Target(figure="p99", at_most=10, worst=True), Verdict.MISSED, "12"),
        (Target(figure="rate", at_least=100, worst=True), Verdict.MISSED, "90"),
        (Target(figure="p99", at_most=2, of_figure="p99 quiet"), Verdict.HELD, "2.00x"),
        (Target(side=KAFKA, figure="rate", at_least=0.8, of_side=MUSTER), Verdict.HELD, "0.83x"),
    ],
)
def test_a_target_holds_up_to_its_bound_and_not_past_it(target: Target, verdict: Verdict, measured: str) -> None:
    judgement = judge(target, SAMPLES)
    assert (judgement.verdict, judgement.measured) == (verdict, measured)


@pytest.mark.parametrize(
    "target",
    [
        Target(figure="p99", at_most=1, of_side=KAFKA),
        Target(figure="p99", at_most=1, side=KAFKA),
        Target(figure="never", at_least=1),
        Target(figure="nothing", at_most=1, of_side=KAFKA),
    ],
)
def test_what_was_not_measured_is_unknown_neither_held_nor_missed(target: Target) -> None:
    judgement = judge(target, SAMPLES)
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.measured == "not measured"


def test_a_target_has_one_bound() -> None:
    with pytest.raises(AssertionError):
        Target(figure="rate", at_least=1, at_most=2)
    with pytest.raises(AssertionError):
        Target(figure="rate")
    with pytest.raises(AssertionError):
        Target(figure="rate", at_most=1, of_side=KAFKA, worst=True)


def test_a_target_says_what_it_asks() -> None:
    assert Target(figure="rate", at_least=1.2, of_side=KAFKA).text == "rate ≥ 1.2x kafka"
    assert Target(figure="turn", at_most=20, worst=True).text == "worst turn ≤ 20"
    assert Target(figure="during", at_most=2, of_figure="quiet").text == "during ≤ 2x quiet"
    assert Target(side=KAFKA, figure="rate", at_least=3, of_side=MUSTER).text == "kafka rate ≥ 3x muster"


def test_numbers_have_three_digits_and_spreads_both_ends() -> None:
    assert [number(value) for value in (0.01234, 1.5, 99.96, 12345.6)] == ["0.0123", "1.5", "100", "12,346"]
    assert spread([3.0, 1.0, 2.0]) == "2 (1–3)"
    assert spread([1.5]) == "1.5"
    assert spread([]) == "–"
