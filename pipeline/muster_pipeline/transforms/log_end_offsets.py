"""Samples of log end offsets by topic partition, and what they prove about a committed offset at a time.

It never extrapolates: outside the samples there is a lower bound or nothing (other exporters draw a line beyond the
last sample and so show lags that never existed). Log ends only grow, unless a topic is created again; from two samples
that fall nothing is concluded.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.schemas.gold import LAG_DETAILS, LAG_QUALITIES
from muster_pipeline.tables.errors import BadInput, LimitReached
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.arrays import NONE, Ints, ints
from muster_pipeline.transforms.clock import minutes
from muster_pipeline.transforms.wrong_times import WrongTimes

_QUALITY: Final = {name: code for code, name in enumerate(LAG_QUALITIES)}
_DETAIL: Final = {name: code for code, name in enumerate(LAG_DETAILS)}
NOT_SAMPLED: Final = -1
_SPAN_MAX: Final = (1 << limits.CLOCK_SPAN_BITS) - 1


class Measured(NamedTuple):
    """Arrays parallel to the requested times; NONE is null; codes are positions in LAG_QUALITIES and LAG_DETAILS."""

    log_end: Ints
    lag: Ints
    quality: Ints
    detail: Ints
    time_lag_ms: Ints
    time_quality: Ints
    log_start: Ints


class LogEndSamples:
    """All samples of one cluster, ordered by topic partition and time."""

    def __init__(self, log_ends: pa.Table | None, cluster: str) -> None:
        """`log_ends`: table of schema LOG_END_OFFSETS, None if none were taken. Raises BadInput, LimitReached."""
        samples = _answered(log_ends, cluster)
        places = list(zip(samples["topic"].to_pylist(), samples["partition"].to_pylist(), strict=True))
        self._numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
        number = np.fromiter((self._numbers[place] for place in places), dtype=np.int64, count=len(places))
        self._at_ms, self._end, self._start = (
            ints(samples[name]) for name in ("sample_timestamp_ms", "end_offset", "start_offset")
        )
        self._from = np.searchsorted(number, np.arange(len(self._numbers) + 1))
        self._thinned(number)

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

    def measure(self, number: int, at_ms: Ints, committed: Ints) -> Measured:
        """Lag of committed offsets at these times, by the samples of a topic partition."""
        size = len(at_ms)
        none = np.full(size, NONE, dtype=np.int64)
        unknown = np.full(size, _QUALITY["unknown"])
        if number == NOT_SAMPLED:
            return Measured(none, none, unknown, np.full(size, _DETAIL["no_samples"]), none, unknown, none)
        span = slice(self._from[number], self._from[number + 1])
        times, ends, starts = self._at_ms[span], self._end[span], self._start[span]
        before = np.searchsorted(times, at_ms, "right") - 1
        log_end, quality, detail = _log_end(times, ends, before, at_ms, committed)
        lag = np.where(log_end == NONE, NONE, log_end - committed)
        time_lag, time_quality = _time_lag(times, ends, at_ms, committed, lag, quality)
        log_start = np.where(before >= 0, starts[before], NONE)
        return Measured(log_end, lag, quality, detail, time_lag, time_quality, log_start)


def lowered(measured: Measured, wrong: WrongTimes, at_ms: Ints) -> Measured:
    """What may still be said at times that are not certain.

    A commit with a time of its own that is wrong happened at the clock or later, when the log end was not lower: lag
    has a lower bound. Where records were behind the clock, they happened before: nothing is known.
    """
    raised, behind = wrong.raised_ms.hold(at_ms), wrong.behind_ms.hold(at_ms)
    if not (raised.any() or behind.any()):
        return measured
    bounded = raised & (measured.quality != _QUALITY["unknown"])
    quality = np.where(bounded, _QUALITY["lower_bound"], measured.quality)
    time_known = raised & (measured.time_quality != _QUALITY["unknown"])
    time_quality = np.where(time_known, _QUALITY["lower_bound"], measured.time_quality)
    return Measured(
        log_end=np.where(behind, NONE, measured.log_end),
        lag=np.where(behind, NONE, measured.lag),
        quality=np.where(behind, _QUALITY["unknown"], quality),
        detail=np.where(bounded | behind, _DETAIL["clock"], measured.detail),
        time_lag_ms=np.where(behind, NONE, measured.time_lag_ms),
        time_quality=np.where(behind, _QUALITY["unknown"], time_quality),
        log_start=measured.log_start,
    )


def _answered(log_ends: pa.Table | None, cluster: str) -> pa.Table:
    """Samples with a log end, sorted; of several at the same time the last one in the table."""
    if log_ends is None or log_ends.num_rows == 0:
        empty = {"topic": pa.string(), "partition": pa.int32()}
        names = ("sample_timestamp_ms", "end_offset", "start_offset")
        return pa.schema([*empty.items(), *((name, pa.int64()) for name in names)]).empty_table()
    if log_ends.num_rows > limits.LOG_END_SAMPLES_MAX:
        raise LimitReached(
            f"{log_ends.num_rows} samples of log ends, LOG_END_SAMPLES_MAX is {limits.LOG_END_SAMPLES_MAX}"
        )
    mine = log_ends.filter(pc.equal(log_ends["cluster"], cluster))
    if mine.num_rows == 0:
        others = ", ".join(sorted(set(log_ends["cluster"].to_pylist()))[:5])
        raise BadInput(f"the samples of log ends are of cluster {others}, the run is of cluster {cluster}")
    mine = mine.filter(pc.is_valid(mine["end_offset"]))
    names = ("topic", "partition", "sample_timestamp_ms")
    mine = mine.append_column("place", pa.array(np.arange(mine.num_rows)))
    mine = mine.sort_by([*((name, "ascending") for name in names), ("place", "ascending")])
    keep = np.ones(mine.num_rows, dtype=np.bool_)
    if mine.num_rows > 1:
        same = np.ones(mine.num_rows - 1, dtype=np.bool_)
        for name in names:
            column = mine[name].combine_chunks()
            same &= np.asarray(pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False))
        keep[:-1] = ~same
    return mine.filter(pa.array(keep))


def _log_end(times: Ints, ends: Ints, before: Ints, at_ms: Ints, committed: Ints) -> tuple[Ints, Ints, Ints]:
    """Log end at each time, quality code, detail code."""
    after = before + 1
    has_before, has_after = before >= 0, after < len(times)
    low, high = np.maximum(before, 0), np.minimum(after, len(times) - 1)
    on_sample = has_before & (times[low] == at_ms)
    between = has_before & has_after & ~on_sample
    span = np.where(between, times[high] - times[low], 1)
    share = np.where(between, at_ms - times[low], 0) / span
    line = ends[low] + np.floor((ends[high] - ends[low]) * share).astype(np.int64)
    went_back = between & (ends[high] < ends[low])
    log_end = np.select([on_sample, went_back, between, has_before], [ends[low], NONE, line, ends[low]], NONE)
    quality = np.select(
        [on_sample, went_back, between, has_before],
        [_QUALITY["exact"], _QUALITY["unknown"], _QUALITY["interpolated"], _QUALITY["lower_bound"]],
        _QUALITY["unknown"],
    )
    detail = np.select(
        [on_sample, went_back, between, has_before],
        [_DETAIL["sampled"], _DETAIL["head_went_back"], _DETAIL["between_samples"], _DETAIL["after_last_sample"]],
        _DETAIL["before_first_sample"],
    )
    past = (log_end != NONE) & (log_end < committed)
    later_max = np.append(np.maximum.accumulate(ends[::-1])[::-1], NONE)[np.minimum(after, len(ends))]
    in_bracket = past & between & (ends[high] >= committed)
    unsampled = past & ~has_after & ~on_sample
    later = past & ~in_bracket & (later_max >= committed)
    lost = past & ~in_bracket & ~unsampled & ~later
    log_end = np.where(lost, NONE, np.where(past, committed, log_end))
    quality = np.where(past, _QUALITY["lower_bound"], quality)
    quality = np.where(lost, _QUALITY["unknown"], quality)
    detail = np.where(later, _DETAIL["answer_older_than_commit"], detail)
    return log_end, quality, np.where(lost, _DETAIL["committed_past_end"], detail)


def _time_lag(times: Ints, ends: Ints, at_ms: Ints, committed: Ints, lag: Ints, quality: Ints) -> tuple[Ints, Ints]:
    """(time since the log end passed the committed offset, quality code of that)."""
    highest = np.maximum.accumulate(ends)
    passed = np.searchsorted(highest, committed, "right")
    high, low = np.minimum(passed, len(times) - 1), np.maximum(np.minimum(passed, len(times) - 1) - 1, 0)
    inside = (passed > 0) & (passed < len(times))
    rise = np.where(inside, highest[high] - highest[low], 1)
    share = np.where(inside, committed - highest[low], 0) / rise
    reached = times[low] + np.floor((times[high] - times[low]) * share).astype(np.int64)
    behind = (lag != NONE) & (lag > 0)
    by_line = behind & inside
    since_first = behind & (passed == 0) & (times[0] <= at_ms)
    time_lag = np.select([lag == 0, by_line, since_first], [0, np.maximum(at_ms - reached, 0), at_ms - times[0]], NONE)
    time_quality = np.select(
        [lag == 0, by_line, since_first],
        [quality, _QUALITY["interpolated"], _QUALITY["lower_bound"]],
        _QUALITY["unknown"],
    )
    return time_lag, time_quality
