"""Which samples of log end offsets are kept: all of the last minutes, then fewer the older they are, none after a week.

A stream samples every partition each round, and whoever folds a log partition has all samples in memory. Rows of lag
need one sample a minute at most. So samples are thinned by age: of each topic partition the last one of a step is kept,
and steps grow with age; where that is too much for the limit, all steps are twice as long, and so on. Steps are cut at
fixed times, so that what is thinned twice is thinned once. Between samples lag is interpolated and says so.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.tables.errors import LimitReached
from muster_pipeline.transforms.arrays import Bools, Ints, ints
from muster_pipeline.transforms.limits import LOG_END_SAMPLES_KEPT_MS, MINUTE_MS

_HOUR_MS: Final = 60 * MINUTE_MS
_STEPS: Final = (
    (10 * MINUTE_MS, 7_500),
    (_HOUR_MS, MINUTE_MS),
    (6 * _HOUR_MS, 10 * MINUTE_MS),
    (24 * _HOUR_MS, _HOUR_MS),
    (LOG_END_SAMPLES_KEPT_MS, 6 * _HOUR_MS),
)
"""(age up to which, step) in ms; ages are before the newest sample. Of the first all are kept if there is room."""
_FACTORS: Final = tuple(1 << power for power in range(11))


def thinned(samples: pa.Table, rows_max: int) -> pa.Table:
    """At most `rows_max` rows of LOG_END_OFFSETS, in their order. Raises LimitReached if there are more topic
    partitions than that."""
    if samples.num_rows == 0:
        return samples
    at_ms = ints(samples["sample_timestamp_ms"])
    place = _places(samples)
    for factor in _FACTORS:
        kept = _kept(place, at_ms, factor)
        if int(kept.sum()) <= rows_max:
            return samples.filter(pa.array(kept))
    newest = _last_of(place, at_ms, np.zeros_like(at_ms))
    if int(newest.sum()) > rows_max:
        raise LimitReached(f"samples of {int(newest.sum())} topic partitions, of which at most {rows_max} can be kept")
    return samples.filter(pa.array(newest))


def _kept(place: Ints, at_ms: Ints, factor: int) -> Bools:
    age = int(at_ms.max()) - at_ms
    number = np.searchsorted(np.array([upto for upto, _ in _STEPS], dtype=np.int64), age, "left")
    step = np.array([step * factor for _, step in _STEPS] + [1], dtype=np.int64)[number]
    if factor == 1:
        step[number == 0] = 1
    is_last = _last_of(place, at_ms, at_ms // step * (len(_STEPS) + 1) + number)
    return is_last & (number < len(_STEPS))


def _last_of(place: Ints, at_ms: Ints, bucket: Ints) -> Bools:
    """The newest row of each (place, bucket); of several at one time the last one in the table."""
    order = np.lexsort((np.arange(len(place)), at_ms, bucket, place))
    is_last = np.ones(len(order), dtype=np.bool_)
    is_last[:-1] = (place[order][1:] != place[order][:-1]) | (bucket[order][1:] != bucket[order][:-1])
    found = np.zeros(len(order), dtype=np.bool_)
    found[order[is_last]] = True
    return found


def _places(samples: pa.Table) -> Ints:
    """A number for each row's topic partition."""
    topics = pc.dictionary_encode(samples["topic"].combine_chunks())
    return (ints(topics.indices) << 32) + ints(samples["partition"])
