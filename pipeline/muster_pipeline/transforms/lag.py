"""Gold `lag`: committed offsets against log ends, one row per key and minute.

In a minute with a sample of the topic partition, the row is for its last sample, for every group that has a committed
offset there, whether it commits in that minute or not. In a minute with commits only, the row is for its last commit,
by the samples around it. The committed offset as of a sample is found among the recent effects, else in the state
before them. A sample is used once the log's clock has passed it, since no later commit can precede it then.

A stream has the samples up to now only. A row is told when no sample to come can change it: its minute is over by the
samples too, and there is one behind it (`Measured.final_ms`). Until then its point is kept; at the end of the log as it
is now, the rows of these points are told as well, and the next round replaces them.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from muster_pipeline.schemas.gold import LAG, LAG_DETAILS, LAG_QUALITIES
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.arrays import (
    NONE,
    Bools,
    Ints,
    constant,
    masked,
    nullable,
    run_starts,
    table,
    words,
)
from muster_pipeline.transforms.clock import minutes
from muster_pipeline.transforms.grow import Grow
from muster_pipeline.transforms.key_state import Steps
from muster_pipeline.transforms.keys import KeyNumbers
from muster_pipeline.transforms.log_end_offsets import FOREVER, LogEndSamples
from muster_pipeline.transforms.measured import Measured, lowered
from muster_pipeline.transforms.rate import Groups
from muster_pipeline.transforms.wrong_times import WrongTimes

_SPAN_MAX: Final = (1 << limits.CLOCK_SPAN_BITS) - 1


class _Points(NamedTuple):
    """The times for which lag rows are made."""

    key: Ints
    at_ms: Ints
    committed: Ints
    """NONE: the key had none at that sample, so that earlier samples of the minute do not count."""
    is_commit: Ints
    """1: of the minute's last commit; 0: of a sample."""


class _Effects(NamedTuple):
    """Effects ordered by key, then by log."""

    key: Ints
    clock_ms: Ints
    offset: Ints
    before: Ints


class Rows(NamedTuple):
    """What is said at some times."""

    points: _Points
    measured: Measured


_NO_POINTS: Final = _Points(*(np.empty(0, dtype=np.int64) for _ in range(4)))
_NO_EFFECTS: Final = _Effects(*(np.empty(0, dtype=np.int64) for _ in range(4)))


class _Asked:
    """The keys among the samples at hand: numbers of their topic partitions, the keys of each, samples used so far."""

    def __init__(self, taken: int) -> None:
        self.number_of = Grow(np.int64(-1))
        self.known = 0
        self.by_number: dict[int, list[int]] = {}
        self.taken = taken


class LagFold:
    """Keeps points without a final row, effects that samples to come may ask for, and up to where samples were used."""

    def __init__(self, log_ends: LogEndSamples, keys: KeyNumbers, wrong: WrongTimes) -> None:
        self._log_ends = log_ends
        self._wrong = wrong
        self._keys = keys
        self._points = _NO_POINTS
        self._recent = _NO_EFFECTS
        """Effects at times of which not all samples are there yet."""
        self._taken_ms = NONE
        """Samples before this were used, as far as they were there ..."""
        self._seen_ms = NONE
        """... which is up to this."""
        self.frontier_ms = NONE
        """Rows were told as if all samples up to this were there."""
        self._asked_by: _Asked | None = None

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Without what depends on the samples at hand."""
        return {**self.__dict__, "_asked_by": None}

    @property
    def open_points(self) -> int:
        """Times without a final row."""
        return len(self._points.key)

    def feed(self, steps: Steps, offset_before: Ints, now_ms: int) -> None:
        """Use the samples before `now_ms`, the clock after the chunk. `offset_before`: state before the chunk."""
        effects = _Effects(steps.key, steps.clock_ms, steps.offset, steps.before)
        if len(self._recent.key):
            effects = _Effects(*(np.concatenate(both) for both in zip(self._recent, effects, strict=True)))
            by_key = np.argsort(effects.key, kind="stable")
            effects = _Effects(*(column[by_key] for column in effects))
        upto = int(np.searchsorted(self._log_ends.told_ms, now_ms, "left"))
        self._take(effects, offset_before, upto)
        self._taken_ms, self._seen_ms = max(self._taken_ms, now_ms), self._log_ends.seen_ms
        self.frontier_ms = max(self.frontier_ms, self._log_ends.frontier_ms(now_ms))
        is_recent = effects.clock_ms > self.frontier_ms
        self._recent = _Effects(*(column[is_recent] for column in effects))

    def close(self, groups: Groups, open_minute: int | None) -> Rows:
        """The final rows of closed minutes, ordered by minute and key; `groups`: commits of minutes that closed. None:
        the log has ended, and every row is told."""
        alive = groups["last_committed_offset"] != NONE
        key, at_ms, committed = (groups[name][alive] for name in ("key", "last_ms", "last_committed_offset"))
        points = _reduced(_joined([self._points, _Points(key, at_ms, committed, np.ones_like(key))]))
        frontier = FOREVER if open_minute is None else self.frontier_ms
        minute = minutes(points.at_ms)
        over = FOREVER if open_minute is None else min(open_minute, frontier - frontier % limits.MINUTE_MS)
        is_closed = minute < over
        has = is_closed & (points.committed != NONE)
        told = _chosen(points, has)
        first = run_starts(minutes(told.at_ms), told.key)
        told = _Points(*(column[first] for column in told))
        measured = self._log_ends.measure(self.sample_numbers(told.key), told.at_ms, told.committed)
        is_final = measured.final_ms <= frontier
        self._points = _joined([_chosen(points, ~is_closed), _chosen(told, ~is_final)])
        return Rows(_chosen(told, is_final), Measured(*(column[is_final] for column in measured)))

    def render(self, rows: Rows, cluster: str, log_partition: int) -> pa.Table:
        """Rows of the table."""
        points, measured = rows
        count = len(points.key)
        measured = lowered(measured, self._wrong, points.at_ms)
        no_start = measured.log_start == NONE
        below = points.committed < measured.log_start
        names, details = tuple(LAG_QUALITIES), tuple(LAG_DETAILS)
        return table(
            LAG,
            {
                "cluster": constant(cluster, count, pa.string()),
                "log_partition": constant(log_partition, count, pa.int32()),
                **self._keys.columns(points.key),
                "minute_ms": pa.array(minutes(points.at_ms)),
                "at_ms": pa.array(points.at_ms),
                "committed_offset": pa.array(points.committed),
                "log_end_offset": nullable(measured.log_end),
                "lag": nullable(measured.lag),
                "quality": words(measured.quality.astype(np.int8), names),
                "detail": words(measured.detail.astype(np.int8), details),
                "time_lag_ms": nullable(measured.time_lag_ms),
                "time_lag_quality": words(measured.time_quality.astype(np.int8), names),
                "log_start_offset": nullable(measured.log_start),
                "is_below_start": masked(below, no_start, pa.bool_()),
            },
        )

    def take_rest(self, offset_now: Ints) -> None:
        """The log has ended: use the samples after its clock, with the final state."""
        self._take(self._recent, offset_now, len(self._log_ends.told_ms))

    def sample_number(self, key: int) -> int:
        """The key's topic partition among the samples."""
        return int(self._asked().number_of.values[key])

    def sample_numbers(self, keys: Ints) -> Ints:
        """Of several keys."""
        return self._asked().number_of.values[keys]

    def _asked(self) -> _Asked:
        """With the keys that are new since the last time."""
        if self._asked_by is None:
            first_ms = min(self._taken_ms, self._seen_ms + 1)
            self._asked_by = _Asked(int(np.searchsorted(self._log_ends.told_ms, first_ms, "left")))
        asked = self._asked_by
        number_of = asked.number_of.ensure(len(self._keys))
        for key in range(asked.known, len(self._keys)):
            _, topic, partition = self._keys.keys[key]
            number = self._log_ends.number(topic, partition)
            number_of[key] = number
            if number >= 0:
                asked.by_number.setdefault(number, []).append(key)
        asked.known = len(self._keys)
        return asked

    def _take(self, effects: _Effects, offset_before: Ints, upto: int) -> None:
        asked = self._asked()
        window = slice(asked.taken, upto)
        asked.taken = max(asked.taken, upto)
        key, at = _pairs(asked, self._log_ends.told_number[window], self._log_ends.told_ms[window])
        if len(key) == 0:
            return
        committed = _as_of(effects, key, at, offset_before)
        if not self._log_ends.more_follow:
            has = committed != NONE
            key, at, committed = key[has], at[has], committed[has]
        self._points = _joined([self._points, _Points(key, at, committed, np.zeros_like(key))])


def _pairs(asked: _Asked, numbers: Ints, at_ms: Ints) -> tuple[Ints, Ints]:
    """Every sample with every key of its topic partition."""
    keys = [asked.by_number.get(number, []) for number in numbers.tolist()]
    counts = np.fromiter((len(one) for one in keys), dtype=np.int64, count=len(keys))
    flat = np.fromiter((key for one in keys for key in one), dtype=np.int64, count=int(counts.sum()))
    return flat, np.repeat(at_ms, counts)


def _joined(parts: list[_Points]) -> _Points:
    return _Points(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _chosen(points: _Points, chosen: Bools) -> _Points:
    return _Points(*(column[chosen] for column in points))


def _reduced(points: _Points) -> _Points:
    """Of each key and minute the last sample and the commit, in this order; by minute and key."""
    minute = minutes(points.at_ms)
    order = np.lexsort((-points.at_ms, points.is_commit, points.key, minute))
    first = order[run_starts(minute[order], points.key[order], points.is_commit[order])]
    return _Points(*(column[first] for column in points))


def _as_of(effects: _Effects, key: Ints, at_ms: Ints, offset_before: Ints) -> Ints:
    """The committed offset of each key at its time; `offset_before`: of keys without effects."""
    if len(effects.key) == 0:
        return offset_before[key]
    begin = int(effects.clock_ms.min())
    known = (effects.key << limits.CLOCK_SPAN_BITS) + np.minimum(effects.clock_ms - begin, _SPAN_MAX)
    asked = (key << limits.CLOCK_SPAN_BITS) + np.clip(at_ms - begin, -1, _SPAN_MAX)
    found = np.searchsorted(known, asked, "right") - 1
    inside = (found >= 0) & (effects.key[found] == key) & (at_ms >= begin)
    following = np.minimum(found + 1, len(effects.key) - 1)
    is_first = (found + 1 < len(effects.key)) & (effects.key[following] == key)
    return np.where(inside, effects.offset[found], np.where(is_first, effects.before[following], offset_before[key]))
