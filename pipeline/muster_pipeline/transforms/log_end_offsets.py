"""Samples of log end offsets, by topic partition and time.

`measured` says what they prove. A worker holds all samples of a cluster, and no more (limits.LOG_END_SAMPLES_MAX).
"""

from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.tables.errors import BadInput, LimitReached
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.arrays import NONE, Bools, Ints, bools, ints
from muster_pipeline.transforms.clock import minutes
from muster_pipeline.transforms.measured import Measured, Samples, Spans, measure, not_sampled

NOT_SAMPLED: Final = -1
_SPAN_MAX: Final = (1 << limits.CLOCK_SPAN_BITS) - 1
FOREVER: Final = 1 << 62
"""A time that no sample reaches."""


class LogEndSamples:
    """All samples of one cluster, ordered by topic partition and time."""

    def __init__(self, log_ends: pa.Table | None, cluster: str, *, more_follow: bool = False) -> None:
        """`log_ends`: table of schema LOG_END_OFFSETS, None if none were taken. `more_follow`: there will be newer
        ones, whose rows of lag must not have been told yet. Raises BadInput, LimitReached."""
        mine = _mine(log_ends, cluster)
        self.seen_ms: int = pc.max(mine["sample_timestamp_ms"]).as_py() if mine.num_rows else NONE
        """Time of the newest sample, answered or not."""
        self.more_follow = more_follow and mine.num_rows > 0
        mine = mine.filter(pc.is_valid(mine["end_offset"]))
        topics = pc.dictionary_encode(mine["topic"].combine_chunks())
        place = (ints(topics.indices) << 32) + ints(mine["partition"])
        at_ms = ints(mine["sample_timestamp_ms"])
        order = _last_of_each_time(place, at_ms)
        places, number = np.unique(place[order], return_inverse=True)
        names = topics.dictionary.to_pylist()
        self._numbers = {(names[one >> 32], one & 0xFFFFFFFF): at for at, one in enumerate(places.tolist())}
        self._at_ms, self._end = at_ms[order], ints(mine["end_offset"])[order]
        self._start = ints(mine["start_offset"])[order]
        self._has_gaps = bools(mine["has_gaps"].fill_null(False))[order]
        self._from = np.searchsorted(number, np.arange(len(places) + 1))
        self._samples = Samples(self._at_ms, self._end, self._start, self._has_gaps, _highest(self._end, self._from))
        self._thinned(number.astype(np.int64))

    def frontier_ms(self, clock_ms: int) -> int:
        """The time up to which all samples are there when a log's clock has come to `clock_ms`."""
        return max(self.seen_ms, clock_ms - limits.LATE_SAMPLE_MS) if self.more_follow else FOREVER

    def _thinned(self, number: Ints) -> None:
        """Keep the last sample of each minute: the times at which lag rows are made."""
        minute = minutes(self._at_ms)
        is_last = np.ones(len(number), dtype=np.bool_)
        is_last[:-1] = (number[1:] != number[:-1]) | (minute[1:] != minute[:-1])
        chosen = np.flatnonzero(is_last)
        chosen = chosen[np.lexsort((number[chosen], self._at_ms[chosen]))]
        self.told_ms, self.told_number = self._at_ms[chosen], number[chosen]

    def number(self, topic: str, partition: int) -> int:
        """The number of a topic partition; NOT_SAMPLED if it was never sampled."""
        return self._numbers.get((topic, partition), NOT_SAMPLED)

    def last_before(self, number: int, at_ms: int) -> tuple[int, int] | None:
        """Time and log end of the last sample up to `at_ms`."""
        if number == NOT_SAMPLED:
            return None
        first, end = self._from[number], self._from[number + 1]
        index = first + np.searchsorted(self._at_ms[first:end], at_ms, "right") - 1
        return None if index < first else (int(self._at_ms[index]), int(self._end[index]))

    @property
    def newest_ms(self) -> int:
        """Time of the newest sample; NONE if there is none."""
        return int(self._at_ms.max()) if len(self._at_ms) else NONE

    def ends_at(self, numbers: Ints, at_ms: Ints) -> Ints:
        """Log end of the last sample of each topic partition up to its time; NONE if there is none."""
        if len(self._at_ms) == 0:
            return np.full(at_ms.shape, NONE, dtype=np.int64)
        begin = int(self._at_ms.min())
        of_sample = np.repeat(np.arange(len(self._numbers)), np.diff(self._from))
        known = (of_sample << limits.CLOCK_SPAN_BITS) + np.minimum(self._at_ms - begin, _SPAN_MAX)
        asked = (np.maximum(numbers, 0) << limits.CLOCK_SPAN_BITS) + np.clip(at_ms - begin, -1, _SPAN_MAX)
        found = np.searchsorted(known, asked, "right") - 1
        has = (found >= 0) & (numbers != NOT_SAMPLED) & (of_sample[found] == numbers)
        return np.where(has, self._end[found], NONE)

    def newest(self, numbers: Ints, count: int) -> tuple[Ints, Ints, Ints]:
        """Time, log end and log start of the last `count` samples of each topic partition: a row each, the newest
        first; NONE where there are fewer."""
        shape = (len(numbers), count)
        if len(self._at_ms) == 0:
            none = np.full(shape, NONE, dtype=np.int64)
            return none, none, none
        known = np.maximum(numbers, 0)
        place = self._from[known + 1][:, None] - 1 - np.arange(count)
        has = (place >= self._from[known][:, None]) & (numbers != NOT_SAMPLED)[:, None]
        index = np.where(has, place, 0)
        at, end, start = (np.where(has, column[index], NONE) for column in (self._at_ms, self._end, self._start))
        return at, end, start

    def have_gaps(self, numbers: Ints) -> Bools:
        """Whether the last sample of each topic partition says that its offsets have gaps."""
        found = np.zeros(len(numbers), dtype=np.bool_)
        is_known = numbers != NOT_SAMPLED
        found[is_known] = self._has_gaps[self._from[numbers[is_known] + 1] - 1]
        return found

    def measure(self, numbers: Ints, at_ms: Ints, committed: Ints) -> Measured:
        """Lag of committed offsets at these times, by the samples of their topic partitions."""
        known = np.flatnonzero(numbers != NOT_SAMPLED)
        if len(known) == len(numbers):
            return measure(self._samples, self._spans(numbers), at_ms, committed)
        found = not_sampled(at_ms)
        part = measure(self._samples, self._spans(numbers[known]), at_ms[known], committed[known])
        for whole, values in zip(found, part, strict=True):
            whole[known] = values
        return found

    def _spans(self, numbers: Ints) -> Spans:
        return Spans(self._from[numbers], self._from[numbers + 1])


def _mine(log_ends: pa.Table | None, cluster: str) -> pa.Table:
    if log_ends is None or log_ends.num_rows == 0:
        return LOG_END_OFFSETS.empty_table()
    if log_ends.num_rows > limits.LOG_END_SAMPLES_MAX:
        raise LimitReached(
            f"{log_ends.num_rows} samples of log ends, LOG_END_SAMPLES_MAX is {limits.LOG_END_SAMPLES_MAX}"
        )
    mine = log_ends.filter(pc.equal(log_ends["cluster"], cluster))
    if mine.num_rows == 0:
        others = ", ".join(sorted(set(log_ends["cluster"].to_pylist()))[:5])
        raise BadInput(f"the samples of log ends are of cluster {others}, the run is of cluster {cluster}")
    return mine


def _last_of_each_time(place: Ints, at_ms: Ints) -> Ints:
    """Rows by place and time; of several at the same time the last one in the table."""
    order = np.lexsort((at_ms, place))
    is_last = np.ones(len(order), dtype=np.bool_)
    is_last[:-1] = (place[order][1:] != place[order][:-1]) | (at_ms[order][1:] != at_ms[order][:-1])
    return order[is_last]


def _highest(ends: Ints, begins: Ints) -> Ints:
    """Of every sample the highest log end of its topic partition up to then."""
    found = np.empty_like(ends)
    for first, beyond in pairwise(begins.tolist()):
        np.maximum.accumulate(ends[first:beyond], out=found[first:beyond])
    return found
