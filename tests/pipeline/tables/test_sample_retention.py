"""Samples of a stream: bounded for ever, the older the fewer, and what is said of a kept one stays."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.tables.errors import LimitReached
from muster_pipeline.transforms.limits import LOG_END_SAMPLES_KEPT_MS, LOG_END_SAMPLES_MAX
from muster_pipeline.transforms.log_end_offsets import LogEndSamples
from muster_pipeline.transforms.sample_retention import thinned

NOW_MS = 1_760_000_000_000
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
Row = tuple[str, int, int, int]
"""(topic, partition, time, log end)."""


def table(rows: Sequence[Row]) -> pa.Table:
    names = ("topic", "partition", "sample_timestamp_ms", "end_offset")
    columns: dict[str, object] = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    columns |= {"cluster": ["c"] * len(rows), "start_offset": [0] * len(rows)}
    columns |= {name: [None] * len(rows) for name in LOG_END_OFFSETS.names if name not in columns}
    return pa.table({name: columns[name] for name in LOG_END_OFFSETS.names}, schema=LOG_END_OFFSETS)


def rows_of(samples: pa.Table) -> list[Row]:
    names = ("topic", "partition", "sample_timestamp_ms", "end_offset")
    return list(zip(*(samples[name].to_pylist() for name in names), strict=True))


def test_eight_days_of_rounds_at_the_ratio_of_ten_thousand_partitions() -> None:
    """A sample of each partition every 30 s, with room for 100 of each, as 10,000 partitions have in the limit: at
    7d8ab59 the stream ended after 50 minutes."""
    partitions, rows_max = 8, 800
    assert rows_max // partitions == LOG_END_SAMPLES_MAX // 10_000
    held = table([])
    for first in range(0, 8 * DAY_MS // 30_000, 10):
        times = [(NOW_MS + 30_000 * number, number) for number in range(first, first + 10)]
        held = pa.concat_tables([held, table([("t", one, *at) for at in times for one in range(partitions)])])
        if held.num_rows > rows_max:
            held = thinned(held, rows_max // 2)
            assert held.num_rows <= rows_max // 2
    newest = NOW_MS + 8 * DAY_MS - 30_000
    for one in range(partitions):
        ages = np.array([newest - at_ms for _, number, at_ms, _ in rows_of(held) if number == one])
        assert ages.min() == 0
        assert ages.max() <= LOG_END_SAMPLES_KEPT_MS + HOUR_MS
        assert ages.max() > 5 * DAY_MS, "a week is still told"
        for upto, least in ((HOUR_MS, 5), (6 * HOUR_MS, 9), (DAY_MS, 13)):
            assert (ages <= upto).sum() >= least, f"of the last {upto / HOUR_MS} h {(ages <= upto).sum()} samples"


samples_made = st.lists(
    st.tuples(
        st.sampled_from(["t", "u"]), st.integers(0, 2), st.integers(0, 9 * DAY_MS // 1_000), st.integers(0, 50)
    ).map(lambda row: (row[0], row[1], NOW_MS + row[2] * 1_000, row[3])),
    max_size=120,
)


@given(samples_made, st.integers(6, 130))
@settings(max_examples=150, deadline=None)
def test_a_part_in_its_order_with_the_newest_of_each_and_once_is_enough(rows: list[Row], rows_max: int) -> None:
    samples = table(rows)
    found = thinned(samples, rows_max)
    assert found.num_rows <= rows_max
    left = iter(rows)
    assert all(one in left for one in rows_of(found)), "rows of the given ones, in their order"
    assert thinned(found, rows_max).equals(found)
    oldest = max((at_ms for _, _, at_ms, _ in rows), default=0) - LOG_END_SAMPLES_KEPT_MS
    newest = {(topic, number): at_ms for topic, number, at_ms, _ in sorted(rows, key=lambda row: row[2])}
    kept = {(topic, number, at_ms) for topic, number, at_ms, _ in rows_of(found)}
    assert all((*place, at_ms) in kept for place, at_ms in newest.items() if at_ms >= oldest)
    if len({row[:3] for row in rows}) == len(rows) <= rows_max:
        recent = [row for row in rows if row[2] >= oldest + LOG_END_SAMPLES_KEPT_MS - 10 * MINUTE_MS]
        assert set(recent) <= set(rows_of(found)), "all of the last minutes where there is room"


def test_lag_at_a_kept_sample_is_what_it_was() -> None:
    rows = [("t", 0, NOW_MS + 30_000 * number, 7 * number) for number in range(2_000)]
    found = thinned(table(rows), 300)
    before, after = LogEndSamples(table(rows), "c"), LogEndSamples(found, "c")
    at_ms = np.array([row[2] for row in rows_of(found)], dtype=np.int64)
    zeros = at_ms * 0
    for whole, part in zip(
        before.measure(zeros, at_ms, zeros)[:4], after.measure(zeros, at_ms, zeros)[:4], strict=True
    ):
        assert whole.tolist() == part.tolist()


def test_more_topic_partitions_than_rows_is_a_limit() -> None:
    rows = [("t", number, NOW_MS, 1) for number in range(20)]
    assert thinned(table(rows), 20).num_rows == 20
    with pytest.raises(LimitReached, match="samples of 20 topic partitions, of which at most 19"):
        thinned(table(rows), 19)
