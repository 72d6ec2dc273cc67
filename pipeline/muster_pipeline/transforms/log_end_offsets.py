"""Samples of log end offsets by topic partition, and what they prove about a committed offset at a time.

It never extrapolates: outside the samples there is a lower bound or nothing (other exporters draw a line beyond the
last sample and so show lags that never existed). Log ends only grow, unless a topic is created again; from two samples
that fall nothing is concluded. Where offsets have gaps (topics in Redis), lag is 0 or not known; for how long a group
has been behind is told there too. What a later sample may still say of a time is bounded
(limits.LAG_SAMPLE_BEHIND_MAX_MS, LAG_WITNESS_MS), so that a stream knows when a row is final.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.schemas.gold import LAG_DETAILS, LAG_QUALITIES
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.tables.errors import BadInput, LimitReached
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.arrays import NONE, Bools, Ints, bools, ints
from muster_pipeline.transforms.clock import minutes
from muster_pipeline.transforms.wrong_times import WrongTimes

_QUALITY: Final = {name: code for code, name in enumerate(LAG_QUALITIES)}
_DETAIL: Final = {name: code for code, name in enumerate(LAG_DETAILS)}
NOT_SAMPLED: Final = -1
_SPAN_MAX: Final = (1 << limits.CLOCK_SPAN_BITS) - 1
FOREVER: Final = 1 << 62
"""A time that no sample reaches."""


class Measured(NamedTuple):
    """Arrays parallel to the requested times; NONE is null; codes are positions in LAG_QUALITIES and LAG_DETAILS."""

    log_end: Ints
    lag: Ints
    quality: Ints
    detail: Ints
    time_lag_ms: Ints
    time_quality: Ints
    log_start: Ints
    final_ms: Ints
    """Samples that are newer than this change nothing any more; NONE: no sample to come does."""


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

    def measure(self, number: int, at_ms: Ints, committed: Ints) -> Measured:
        """Lag of committed offsets at these times, by the samples of a topic partition."""
        size = len(at_ms)
        none = np.full(size, NONE, dtype=np.int64)
        unknown = np.full(size, _QUALITY["unknown"])
        if number == NOT_SAMPLED:
            final = at_ms + limits.LAG_SAMPLE_BEHIND_MAX_MS
            return Measured(none, none, unknown, np.full(size, _DETAIL["no_samples"]), none, unknown, none, final)
        span = slice(self._from[number], self._from[number + 1])
        times, ends, starts = self._at_ms[span], self._end[span], self._start[span]
        before = np.searchsorted(times, at_ms, "right") - 1
        log_end, quality, detail, final = _log_end(times, ends, before, at_ms, committed)
        lag = np.where(log_end == NONE, NONE, log_end - committed)
        time_lag, time_quality = _time_lag(times, ends, at_ms, committed, lag, quality)
        log_start = np.where(before >= 0, starts[before], NONE)
        no_number = (lag != NONE) & (lag != 0) & _gaps(times, self._has_gaps[span], before, at_ms)
        lag = np.where(no_number, NONE, lag)
        quality = np.where(no_number, _QUALITY["unknown"], quality)
        detail = np.where(no_number, _DETAIL["gaps"], detail)
        return Measured(log_end, lag, quality, detail, time_lag, time_quality, log_start, final)


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
    return measured._replace(
        log_end=np.where(behind, NONE, measured.log_end),
        lag=np.where(behind, NONE, measured.lag),
        quality=np.where(behind, _QUALITY["unknown"], quality),
        detail=np.where(bounded | behind, _DETAIL["clock"], measured.detail),
        time_lag_ms=np.where(behind, NONE, measured.time_lag_ms),
        time_quality=np.where(behind, _QUALITY["unknown"], time_quality),
    )


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


def _log_end(times: Ints, ends: Ints, before: Ints, at_ms: Ints, committed: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Log end at each time, quality code, detail code, and from which samples on all of it is final."""
    after = before + 1
    low, high = np.maximum(before, 0), np.minimum(after, len(times) - 1)
    has_before = before >= 0
    has_after = (after < len(times)) & (times[high] <= at_ms + limits.LAG_SAMPLE_BEHIND_MAX_MS)
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
        [on_sample, went_back, between, has_before, has_after],
        [_DETAIL[one] for one in ("sampled", "head_went_back", "between_samples", "after_last_sample",
                                  "before_first_sample")],
        _DETAIL["no_samples"],
    )  # fmt: skip
    past = (log_end != NONE) & (log_end < committed)
    in_bracket = past & between & (ends[high] >= committed)
    unsampled = past & ~has_after & ~on_sample
    later = _reached(times, ends, after, at_ms, committed, past & ~in_bracket & ~unsampled)
    lost = past & ~in_bracket & ~unsampled & ~later
    log_end = np.where(lost, NONE, np.where(past, committed, log_end))
    quality = np.where(past, _QUALITY["lower_bound"], quality)
    quality = np.where(lost, _QUALITY["unknown"], quality)
    detail = np.where(later, _DETAIL["answer_older_than_commit"], detail)
    final = np.where(on_sample | has_after, NONE, at_ms + limits.LAG_SAMPLE_BEHIND_MAX_MS)
    final = np.where(lost, at_ms + limits.LAG_WITNESS_MS, final)
    return log_end, quality, np.where(lost, _DETAIL["committed_past_end"], detail), final


def _gaps(times: Ints, has_gaps: Bools, before: Ints, at_ms: Ints) -> Bools:
    """Whether a sample from which the log end was taken says that offsets have gaps: one at that time alone, else those
    on both sides of it."""
    low, high = np.maximum(before, 0), np.minimum(before + 1, len(times) - 1)
    on_sample = (before >= 0) & (times[low] == at_ms)
    has_after = (before + 1 < len(times)) & (times[high] <= at_ms + limits.LAG_SAMPLE_BEHIND_MAX_MS)
    found: Bools = ((before >= 0) & has_gaps[low]) | (~on_sample & has_after & has_gaps[high])
    return found


def _reached(times: Ints, ends: Ints, after: Ints, at_ms: Ints, committed: Ints, asked: Bools) -> Bools:
    """Of the rows that are asked for: does a sample from `after` on, within the time for it, reach the commit?"""
    found = np.zeros(len(asked), dtype=np.bool_)
    upto = np.searchsorted(times, at_ms + limits.LAG_WITNESS_MS, "right")
    rows = np.flatnonzero(asked & (after < upto))
    at = after[rows]
    while len(rows):
        reaches = ends[at] >= committed[rows]
        found[rows[reaches]] = True
        goes_on = ~reaches & (at + 1 < upto[rows])
        rows, at = rows[goes_on], at[goes_on] + 1
    return found


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
