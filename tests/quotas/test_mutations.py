"""Tokens for partitions are those of Kafka's TokenBucket, and its ControllerMutationQuotaManager's times."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.quotas import limits
from muster_coordinator.quotas.mutations import MutationQuotas
from muster_coordinator.quotas.rate import Windows
from muster_coordinator.security.quota_entities import DEFAULT, QuotaEntity

KEY = "controller_mutation_rate"
WINDOWS = Windows(11, 1_000)
ANNA: QuotaEntity = (("user", "anna"),)


def quotas(bound: float = 2.0, entity: QuotaEntity = ANNA, windows: Windows = WINDOWS, **more: int) -> MutationQuotas:
    made = MutationQuotas(windows, **more)
    made.set({entity: ((KEY, bound),)})
    return made


class KafkasBucket:
    """org.apache.kafka.common.metrics.stats.TokenBucket, told as it is: empty at the beginning of time, so full now."""

    def __init__(self, samples: int, window_s: float) -> None:
        self.samples, self.window_s = samples, window_s
        self.tokens, self.last_ms = 0.0, 0

    def refill(self, quota: float, now_ms: int) -> None:
        burst = self.samples * self.window_s * quota
        self.tokens = min(burst, self.tokens + quota * (now_ms - self.last_ms) / 1_000)
        self.last_ms = now_ms

    def measure(self, quota: float, now_ms: int) -> float:
        self.refill(quota, now_ms)
        return self.tokens

    def record(self, quota: float, value: float, now_ms: int) -> None:
        burst = self.samples * self.window_s * quota
        self.refill(quota, now_ms)
        self.tokens = min(burst, self.tokens - value)


BOUNDS = st.sampled_from([0.25, 1.0, 2.0, 100.0])
STEPS = st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 500), BOUNDS), min_size=1, max_size=60)


@given(STEPS, st.integers(1, 12), st.integers(1, 3))
def test_times_are_kafkas_whatever_is_taken_and_however_the_bound_changes(
    steps: list[tuple[int, int, float]], number: int, window_s: int
) -> None:
    """A strict client: asked first, and counted only when it is let through (StrictControllerMutationQuota)."""
    made = quotas(windows=Windows(number, window_s * 1_000))
    oracle = KafkasBucket(number, window_s)
    now_ms = 10**12
    for passed_ms, wanted, bound in steps:
        now_ms += passed_ms
        made.set({ANNA: ((KEY, bound),)})
        tokens = oracle.measure(bound, now_ms)
        expected = math.floor(-tokens / bound * 1_000 + 0.5) if tokens < 0 else 0
        assert made.wait_ms("anna", "app", now_ms) == pytest.approx(expected, abs=1)
        if not expected:
            oracle.record(bound, wanted, now_ms)
            made.take("anna", "app", wanted, now_ms)


def test_who_obeys_creates_at_its_bound_over_an_hour() -> None:
    made, now_ms, created = quotas(2.0), 0, 0
    while now_ms < 3_600_000:
        wait_ms = made.wait_ms("anna", "app", now_ms)
        if not wait_ms:
            made.take("anna", "app", 7, now_ms)
            created += 7
        now_ms += max(wait_ms, 10)
    assert created == pytest.approx(22 + 2 * 3_600, abs=7)


def test_one_request_may_take_more_than_there_is_and_all_who_share_it_pay() -> None:
    made = quotas(2.0)
    assert made.wait_ms("anna", "app", 5) == 0
    made.take("anna", "app", 1_022, 5)
    assert made.wait_ms("anna", "other", 5) == 500_000
    assert made.wait_ms("anna", "other", 500_005) == 0
    assert made.wait_ms("bert", "app", 5) == 0


def test_what_is_next_to_nothing_gives_no_time_that_no_answer_can_tell() -> None:
    made = quotas(1e-9)
    made.take("anna", "app", 2**31 - 1, 0)
    assert made.wait_ms("anna", "app", 0) == limits.THROTTLE_MS_MAX


def test_the_number_of_buckets_is_bounded_and_those_without_a_quota_are_none() -> None:
    made = quotas(1.0, (("client-id", DEFAULT),), tracked_max=3)
    for n in range(10):
        made.take("anna", f"app-{n}", 100, 0)
    assert made.tracked == 3
    assert made.wait_ms("anna", "app-9", 0) > 0
    assert made.wait_ms("anna", "app-0", 0) == 0, "forgotten: it begins anew"
    made.set({})
    assert (made.tracked, made.active, made.wait_ms("anna", "app-9", 0)) == (0, False, 0)
