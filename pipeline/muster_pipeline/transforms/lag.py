"""Gold `lag`: committed offsets against log ends, one row per key and minute.

In a minute with a sample of the topic partition, the row is for its last sample, for every group that has a committed
offset there, whether it commits in that minute or not. In a minute with commits only, the row is for its last commit,
by the samples around it. The committed offset as of a sample is found among the chunk's effects, else in the state
before the chunk. A sample is used once the log's clock has passed it, since no later commit can precede it then.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from muster_pipeline.schemas.gold import LAG, LAG_DETAILS, LAG_QUALITIES
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.arrays import NONE, Ints, constant, masked, nullable, run_ends, run_starts, table, words
from muster_pipeline.transforms.clock import minutes
from muster_pipeline.transforms.grow import Grow
from muster_pipeline.transforms.key_state import Steps
from muster_pipeline.transforms.keys import KeyNumbers
from muster_pipeline.transforms.log_end_offsets import LogEndSamples, Measured, lowered
from muster_pipeline.transforms.rate import Groups
from muster_pipeline.transforms.wrong_times import WrongTimes

_SPAN_MAX: Final = (1 << limits.CLOCK_SPAN_BITS) - 1


class _Points(NamedTuple):
    """The times for which lag rows are made."""

    key: Ints
    at_ms: Ints
    committed: Ints


_NO_POINTS: Final = _Points(*(np.empty(0, dtype=np.int64) for _ in range(3)))


class LagFold:
    """Keeps the points of the open minute, and up to where the samples were used."""

    def __init__(self, log_ends: LogEndSamples, keys: KeyNumbers, wrong: WrongTimes) -> None:
        self._log_ends = log_ends
        self._wrong = wrong
        self._keys = keys
        self._points = _NO_POINTS
        self._taken = 0
        self._number_of = Grow(np.int64(-1))
        self._known = 0
        self._by_number: dict[int, list[int]] = {}

    def feed(self, steps: Steps, offset_before: Ints, now_ms: int) -> None:
        """Use the samples before `now_ms`, the clock after the chunk. `offset_before`: state before the chunk."""
        upto = int(np.searchsorted(self._log_ends.told_ms, now_ms, "left"))
        self._take(steps, offset_before, upto)
        self._learn()

    def close(self, groups: Groups, open_minute: int | None) -> _Points:
        """The points of closed minutes, with those of `groups` that have no sample; ordered by minute and key."""
        is_open = (
            np.zeros(len(self._points.key), dtype=np.bool_)
            if open_minute is None
            else minutes(self._points.at_ms) >= open_minute
        )
        told = _Points(*(column[~is_open] for column in self._points))
        self._points = _Points(*(column[is_open] for column in self._points))
        alive = groups["last_committed_offset"] != NONE
        both = _joined([told, _Points(*(groups[n][alive] for n in ("key", "last_ms", "last_committed_offset")))])
        minute = minutes(both.at_ms)
        is_commit = np.arange(len(minute)) >= len(told.key)
        order = np.lexsort((is_commit, both.key, minute))
        first = order[run_starts(minute[order], both.key[order])]
        return _Points(*(column[first] for column in both))

    def render(self, points: _Points, cluster: str, log_partition: int) -> pa.Table:
        """Rows of the table."""
        count = len(points.key)
        number_of = self._number_of.ensure(len(self._keys))[points.key]
        measured = Measured(*(np.full(count, NONE, dtype=np.int64) for _ in Measured._fields))
        order = np.argsort(number_of, kind="stable")
        starts = run_starts(number_of[order])
        for start, end in zip(starts, run_ends(starts, count), strict=True):
            rows = order[start:end]
            part = self._log_ends.measure(int(number_of[rows[0]]), points.at_ms[rows], points.committed[rows])
            for whole, values in zip(measured, part, strict=True):
                whole[rows] = values
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
        empty = np.empty(0, dtype=np.int64)
        none = Steps(empty, empty, empty, empty, empty, empty, empty, empty.astype(np.bool_))
        self._take(none, offset_now, len(self._log_ends.told_ms))

    def sample_number(self, key: int) -> int:
        """The key's topic partition among the samples."""
        return int(self._number_of.ensure(len(self._keys))[key])

    def sample_numbers(self, keys: Ints) -> Ints:
        """Of several keys."""
        return self._number_of.ensure(len(self._keys))[keys]

    def _learn(self) -> None:
        """Learn the keys that are new since the last chunk."""
        number_of = self._number_of.ensure(len(self._keys))
        for key in range(self._known, len(self._keys)):
            _, topic, partition = self._keys.keys[key]
            number = self._log_ends.number(topic, partition)
            number_of[key] = number
            if number >= 0:
                self._by_number.setdefault(number, []).append(key)
        self._known = len(self._keys)

    def _take(self, steps: Steps, offset_before: Ints, upto: int) -> None:
        self._learn()
        window = slice(self._taken, upto)
        self._taken = max(self._taken, upto)
        key, at = self._pairs(self._log_ends.told_number[window], self._log_ends.told_ms[window])
        if len(key) == 0:
            return
        committed = _as_of(steps, key, at, offset_before)
        has = committed != NONE
        self._points = _joined([self._points, _Points(key[has], at[has], committed[has])])

    def _pairs(self, numbers: Ints, at_ms: Ints) -> tuple[Ints, Ints]:
        """Every sample with every key of its topic partition."""
        keys = [self._by_number.get(number, []) for number in numbers.tolist()]
        counts = np.fromiter((len(one) for one in keys), dtype=np.int64, count=len(keys))
        flat = np.fromiter((key for one in keys for key in one), dtype=np.int64, count=int(counts.sum()))
        return flat, np.repeat(at_ms, counts)


def _joined(parts: list[_Points]) -> _Points:
    return _Points(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _as_of(steps: Steps, key: Ints, at_ms: Ints, offset_before: Ints) -> Ints:
    """The committed offset of each key at its time."""
    if len(steps.key) == 0:
        return offset_before[key]
    begin = int(steps.clock_ms.min())
    effects = (steps.key << limits.CLOCK_SPAN_BITS) + np.minimum(steps.clock_ms - begin, _SPAN_MAX)
    asked = (key << limits.CLOCK_SPAN_BITS) + np.clip(at_ms - begin, -1, _SPAN_MAX)
    found = np.searchsorted(effects, asked, "right") - 1
    inside = (found >= 0) & (steps.key[found] == key) & (at_ms >= begin)
    return np.where(inside, steps.offset[found], offset_before[key])
