"""Rates over windows are those of Kafka's SampledStat and Rate, and throttle times those of its QuotaUtils."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.quotas.rate import Rate, Windows

WINDOWS = Windows(11, 1_000)


@dataclass
class Sample:
    start: int
    last: int
    value: float = 0.0


class KafkasRate:
    """org.apache.kafka.common.metrics.stats: SampledStat, WindowedSum and Rate of release 3.9, told as they are."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self.config_samples, self.window_ms = samples, window_ms
        self.samples: list[Sample] = []
        self.current = 0

    def record(self, value: float, now: int) -> None:
        if not self.samples:
            self.samples.append(Sample(now, now))
        sample = self.samples[self.current]
        if now - sample.start >= self.window_ms:
            self.current = (self.current + 1) % (self.config_samples + 1)
            if self.current >= len(self.samples):
                self.samples.append(Sample(now, now))
            else:
                self.samples[self.current] = Sample(now, now)
            sample = self.samples[self.current]
        sample.value += value
        sample.last = now

    def purge(self, now: int) -> None:
        for at, sample in enumerate(self.samples):
            if now - sample.last >= self.config_samples * self.window_ms:
                self.samples[at] = Sample(now, now)

    def window_size(self, now: int) -> int:
        self.purge(now)
        oldest = min((sample.start for sample in self.samples), default=now)
        elapsed = now - oldest
        full = elapsed // self.window_ms
        least = self.config_samples - 1
        if full < least:
            elapsed += (least - full) * self.window_ms
        return elapsed

    def measure(self, now: int) -> float:
        self.purge(now)
        return sum(sample.value for sample in self.samples) / (max(self.window_size(now), 1) / 1_000)

    def throttle_ms(self, bound: float, now: int) -> int:
        value = self.measure(now)
        if value <= bound:
            return 0
        return min(math.floor((value - bound) / bound * max(self.window_size(now), 1) + 0.5), 2**31 - 1)


uses = st.lists(
    st.tuples(st.one_of(st.integers(0, 50), st.integers(0, 3_000), st.integers(0, 40_000)), st.integers(0, 10**7)),
    max_size=60,
)


@given(uses, st.integers(1, 15), st.sampled_from([1, 100, 1_000, 30_000]), st.integers(1, 10**6))
def test_rate_and_throttle_time_are_kafkas(
    steps: list[tuple[int, int]], number: int, window_ms: int, bound: int
) -> None:
    ours, theirs = Rate(Windows(number, window_ms)), KafkasRate(number, window_ms)
    now = 5_000
    for after_ms, value in steps:
        now += after_ms
        ours.record(value, now)
        theirs.record(value, now)
        assert ours.measure(now).per_second == pytest.approx(theirs.measure(now))
        assert ours.measure(now).window_ms == max(theirs.window_size(now), 1)
        assert abs(ours.throttle_ms(bound, now) - theirs.throttle_ms(bound, now)) <= 1, "floats may round apart"


def test_who_begins_may_use_ten_windows_at_once_and_no_byte_more() -> None:
    """The rate is over ten whole windows even if only one has begun."""
    rate = Rate(WINDOWS)
    rate.record(10_000, 7)
    assert rate.throttle_ms(1_000, 7) == 0
    rate.record(1, 7)
    assert rate.throttle_ms(1_000, 7) == 1


def test_a_use_that_is_too_large_is_held_against_its_client_until_it_is_forgotten() -> None:
    """Windows before the first use count as empty ones, so until ten have passed time does not lower the rate."""
    rate = Rate(WINDOWS)
    rate.record(15_000, 0)
    assert rate.throttle_ms(1_000, 0) == 5_000
    assert rate.throttle_ms(1_000, 5_000) == 5_000
    assert rate.measure(4_999) == (pytest.approx(15_000 / 10.999), 10_999)
    assert rate.throttle_ms(1_000, 10_999) == 4_001
    assert rate.throttle_ms(1_000, 11_000) == 0


def test_the_least_bound_there_is_and_the_greatest_use_make_the_longest_time() -> None:
    rate = Rate(WINDOWS)
    rate.record(1e300, 0)
    assert rate.throttle_ms(5e-324, 0) == 2**31 - 1
    assert rate.throttle_ms(1e308, 0) == 0


def test_what_is_taken_back_was_never_there() -> None:
    rate = Rate(WINDOWS)
    rate.record(9_000, 0)
    rate.record(9_000, 10)
    assert rate.throttle_ms(1_000, 10) > 0
    rate.record(-9_000, 10)
    assert rate.measure(10).per_second == pytest.approx(9_000 / 10.010, rel=0.01)
    assert rate.throttle_ms(1_000, 10) == 0


def test_a_rate_forgets_what_is_older_than_its_windows() -> None:
    rate = Rate(WINDOWS)
    rate.record(5_000, 0)
    assert rate.measure(10_999).per_second > 0
    assert rate.measure(11_000).per_second == 0
