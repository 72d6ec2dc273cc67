"""Merged latency histograms: percentiles of several runs are those of all their values."""

from hypothesis import given
from hypothesis import strategies as st

from bench.histogram import merge, percentile_us

HISTOGRAMS = st.lists(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9)), max_size=20), max_size=5)


@given(HISTOGRAMS)
def test_merging_keeps_every_count_and_knows_no_order(histograms: list[list[tuple[int, int]]]) -> None:
    values = sorted(value for one in histograms for value, count in one for _ in range(count))
    merged = merge(histograms)
    assert [value for value, count in merged for _ in range(count)] == values
    assert merge(reversed(histograms)) == merged
    assert merge([merge(histograms[:2]), merge(histograms[2:])]) == merged


@given(HISTOGRAMS, st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_the_least_value_that_covers_its_share(
    histograms: list[list[tuple[int, int]]], share: float
) -> None:
    merged = merge(histograms)
    values = [value for value, count in merged for _ in range(count)]
    got = percentile_us(merged, share)
    if not values:
        assert got is None
        return
    assert got is not None
    edge = got * 1_000
    assert sum(value <= edge for value in values) >= share * len(values)
    assert sum(value < edge for value in values) < share * len(values)
