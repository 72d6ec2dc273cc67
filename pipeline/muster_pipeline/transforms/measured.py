"""What samples of log ends prove about committed offsets at some times.

It never extrapolates: outside the samples there is a lower bound or nothing (other exporters draw a line beyond the
last sample and so show lags that never existed). Log ends only grow, unless a topic is created again; from two samples
that fall nothing is concluded. Where offsets have gaps (topics in Redis), lag is 0 or not known; for how long a group
has been behind is told there too. What a later sample may still say of a time is bounded
(limits.LAG_SAMPLE_BEHIND_MAX_MS, LAG_WITNESS_MS), so that a stream knows when a row is final.

All rows are measured at once, each within its topic partition's part of the samples (`Spans`).
"""

from typing import Final, NamedTuple

import numpy as np

from muster_pipeline.schemas.gold import LAG_DETAILS, LAG_QUALITIES
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.arrays import NONE, Bools, Ints
from muster_pipeline.transforms.wrong_times import WrongTimes

_QUALITY: Final = {name: code for code, name in enumerate(LAG_QUALITIES)}
_DETAIL: Final = {name: code for code, name in enumerate(LAG_DETAILS)}


class Samples(NamedTuple):
    """Parallel arrays, ordered by topic partition and time."""

    at_ms: Ints
    end: Ints
    start: Ints
    has_gaps: Bools
    highest: Ints
    """The highest log end of the topic partition so far."""


class Spans(NamedTuple):
    """Where among the samples those of each row's topic partition are: one at least."""

    first: Ints
    beyond: Ints


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


def not_sampled(at_ms: Ints) -> Measured:
    """Of topic partitions without samples."""
    none, unknown = np.full(len(at_ms), NONE, dtype=np.int64), np.full(len(at_ms), _QUALITY["unknown"])
    no_samples = np.full(len(at_ms), _DETAIL["no_samples"])
    final = at_ms + limits.LAG_SAMPLE_BEHIND_MAX_MS
    return Measured(none, none.copy(), unknown, no_samples, none.copy(), unknown.copy(), none.copy(), final)


def measure(samples: Samples, spans: Spans, at_ms: Ints, committed: Ints) -> Measured:
    """Lag of committed offsets at these times."""
    before = _behind(samples.at_ms, spans, at_ms) - 1
    log_end, quality, detail, final = _log_end(samples, spans, before, at_ms, committed)
    lag = np.where(log_end == NONE, NONE, log_end - committed)
    time_lag, time_quality = _time_lag(samples, spans, at_ms, committed, lag, quality)
    log_start = np.where(before >= spans.first, samples.start[before], NONE)
    no_number = (lag != NONE) & (lag != 0) & _gaps(samples, spans, before, at_ms)
    lag = np.where(no_number, NONE, lag)
    quality = np.where(no_number, _QUALITY["unknown"], quality)
    detail = np.where(no_number, _DETAIL["gaps"], detail)
    return Measured(log_end, lag, quality, detail, time_lag, time_quality, log_start, final)


def _log_end(
    samples: Samples, spans: Spans, before: Ints, at_ms: Ints, committed: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Log end at each time, quality code, detail code, and from which samples on all of it is final."""
    times, ends = samples.at_ms, samples.end
    after = before + 1
    low, high = np.maximum(before, spans.first), np.minimum(after, spans.beyond - 1)
    has_before = before >= spans.first
    has_after = (after < spans.beyond) & (times[high] <= at_ms + limits.LAG_SAMPLE_BEHIND_MAX_MS)
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
    later = _reached(samples, spans, after, at_ms, committed, past & ~in_bracket & ~unsampled)
    lost = past & ~in_bracket & ~unsampled & ~later
    log_end = np.where(lost, NONE, np.where(past, committed, log_end))
    quality = np.where(past, _QUALITY["lower_bound"], quality)
    quality = np.where(lost, _QUALITY["unknown"], quality)
    detail = np.where(later, _DETAIL["answer_older_than_commit"], detail)
    final = np.where(on_sample | has_after, NONE, at_ms + limits.LAG_SAMPLE_BEHIND_MAX_MS)
    final = np.where(lost, at_ms + limits.LAG_WITNESS_MS, final)
    return log_end, quality, np.where(lost, _DETAIL["committed_past_end"], detail), final


def _gaps(samples: Samples, spans: Spans, before: Ints, at_ms: Ints) -> Bools:
    """Whether a sample from which the log end was taken says that offsets have gaps: one at that time alone, else those
    on both sides of it."""
    times, has_gaps = samples.at_ms, samples.has_gaps
    if not has_gaps.any():
        return np.zeros(len(at_ms), dtype=np.bool_)
    low, high = np.maximum(before, spans.first), np.minimum(before + 1, spans.beyond - 1)
    on_sample = (before >= spans.first) & (times[low] == at_ms)
    has_after = (before + 1 < spans.beyond) & (times[high] <= at_ms + limits.LAG_SAMPLE_BEHIND_MAX_MS)
    found: Bools = ((before >= spans.first) & has_gaps[low]) | (~on_sample & has_after & has_gaps[high])
    return found


def _reached(samples: Samples, spans: Spans, after: Ints, at_ms: Ints, committed: Ints, asked: Bools) -> Bools:
    """Of the rows that are asked for: does a sample from `after` on, within the time for it, reach the commit?"""
    found = np.zeros(len(asked), dtype=np.bool_)
    rows = np.flatnonzero(asked)
    upto = _behind(samples.at_ms, Spans(spans.first[rows], spans.beyond[rows]), at_ms[rows] + limits.LAG_WITNESS_MS)
    at = after[rows]
    while len(rows):
        goes_on = at < upto
        rows, at, upto = rows[goes_on], at[goes_on], upto[goes_on]
        reaches = samples.end[at] >= committed[rows]
        found[rows[reaches]] = True
        rows, at, upto = rows[~reaches], at[~reaches] + 1, upto[~reaches]
    return found


def _time_lag(
    samples: Samples, spans: Spans, at_ms: Ints, committed: Ints, lag: Ints, quality: Ints
) -> tuple[Ints, Ints]:
    """(time since the log end passed the committed offset, quality code of that)."""
    times, highest = samples.at_ms, samples.highest
    passed = _behind(highest, spans, committed)
    high = np.minimum(passed, spans.beyond - 1)
    low = np.maximum(high - 1, spans.first)
    inside = (passed > spans.first) & (passed < spans.beyond)
    rise = np.where(inside, highest[high] - highest[low], 1)
    share = np.where(inside, committed - highest[low], 0) / rise
    reached = times[low] + np.floor((times[high] - times[low]) * share).astype(np.int64)
    behind = (lag != NONE) & (lag > 0)
    by_line = behind & inside
    begun = times[spans.first]
    since_first = behind & (passed == spans.first) & (begun <= at_ms)
    time_lag = np.select([lag == 0, by_line, since_first], [0, np.maximum(at_ms - reached, 0), at_ms - begun], NONE)
    time_quality = np.select(
        [lag == 0, by_line, since_first],
        [quality, _QUALITY["interpolated"], _QUALITY["lower_bound"]],
        _QUALITY["unknown"],
    )
    return time_lag, time_quality


def _behind(values: Ints, spans: Spans, asked: Ints) -> Ints:
    """The place behind the last value of each row's span that is not greater than what the row asks for: a binary
    search in each span, all at a time. Values ascend in every span."""
    low, high = spans.first.copy(), spans.beyond.copy()
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        is_over = (low == high) | (values[np.minimum(middle, len(values) - 1)] > asked)
        low, high = np.where(is_over, low, middle + 1), np.where(is_over, middle, high)
    return low
