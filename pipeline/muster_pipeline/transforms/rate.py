"""Gold `commit_rate`: commits and messages of every key and minute.

A chunk's effects become groups of one effect each, are appended to the groups of the open minute, and all are reduced
by (minute, key). All measures are integer sums or maxima, so the result does not depend on the cut between chunks.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from muster_pipeline.schemas.gold import COMMIT_RATE
from muster_pipeline.transforms.arrays import NONE, Ints, constant, nullable, run_ends, run_starts, table
from muster_pipeline.transforms.clock import minutes
from muster_pipeline.transforms.key_state import Steps
from muster_pipeline.transforms.keys import KeyNumbers

_SUMS: Final = (
    "commits",
    "advancing_commits",
    "idle_commits",
    "rewinds",
    "removals",
    "messages",
    "messages_rewound",
)
_MAXIMA: Final = ("interval_max_ms",)
_LASTS: Final = ("last_committed_offset", "last_log_offset", "last_ms")

Groups = dict[str, Ints]
"""Parallel arrays: `minute`, `key`, and a column for each measure; ordered by minute, then key."""


class RateFold:
    """Keeps the groups of the open minute."""

    def __init__(self) -> None:
        self._open: Groups = {
            name: np.empty(0, dtype=np.int64) for name in ("minute", "key", *_SUMS, *_MAXIMA, *_LASTS)
        }
        self._missing: dict[int, int] = {}
        self._next_offset = NONE

    def feed(self, steps: Steps, log_offsets: Ints, clock_ms: Ints) -> Groups:
        """`log_offsets` and `clock_ms` of all the chunk's records. Returns the groups of minutes that closed."""
        self._count_missing(log_offsets, clock_ms)
        reduced = _reduced(self._open, _ones(steps))
        if len(clock_ms) == 0:
            self._open = reduced
            return _where(reduced, np.zeros(len(reduced["key"]), dtype=np.bool_))
        is_open = reduced["minute"] >= int(minutes(clock_ms[-1:])[0])
        self._open = _where(reduced, is_open)
        return _where(reduced, ~is_open)

    def finish(self) -> Groups:
        """The groups of the last minute."""
        return self._open

    def render(self, groups: Groups, keys: KeyNumbers, cluster: str, log_partition: int) -> pa.Table:
        """Rows of the table for groups that closed."""
        count = len(groups["key"])
        missing = self._missing_in(groups["minute"])
        columns = {name: pa.array(groups[name]) for name in (*_SUMS, "last_log_offset")}
        return table(
            COMMIT_RATE,
            {
                "cluster": constant(cluster, count, pa.string()),
                "log_partition": constant(log_partition, count, pa.int32()),
                **keys.columns(groups["key"]),
                "minute_ms": pa.array(groups["minute"]),
                **columns,
                "interval_max_ms": nullable(groups["interval_max_ms"]),
                "last_committed_offset": nullable(groups["last_committed_offset"]),
                "log_offsets_missing": pa.array(missing),
            },
        )

    def _count_missing(self, log_offsets: Ints, clock_ms: Ints) -> None:
        if len(log_offsets) == 0:
            return
        before = np.empty_like(log_offsets)
        before[0] = log_offsets[0] if self._next_offset == NONE else self._next_offset
        before[1:] = log_offsets[:-1] + 1
        gaps = np.maximum(log_offsets - before, 0)
        self._next_offset = int(log_offsets[-1]) + 1
        minute = minutes(clock_ms)
        starts = run_starts(minute)
        for at, gap in zip(minute[starts].tolist(), np.add.reduceat(gaps, starts).tolist(), strict=True):
            self._missing[at] = self._missing.get(at, 0) + gap

    def _missing_in(self, minute: Ints) -> Ints:
        """Offsets missing in each group's minute; minutes before the last one requested are dropped."""
        if len(minute) == 0:
            return minute
        distinct, local = np.unique(minute, return_inverse=True)
        found = np.array([self._missing[one] for one in distinct.tolist()], dtype=np.int64)[local]
        self._missing = {at: gap for at, gap in self._missing.items() if at >= distinct[-1]}
        return found


def _ones(steps: Steps) -> Groups:
    exists, known = steps.offset != NONE, steps.before != NONE
    both = exists & known
    step = np.where(both, steps.offset - np.where(known, steps.before, 0), 0)
    ones = np.ones(len(step), dtype=np.int64)
    return {
        "minute": minutes(steps.clock_ms),
        "key": steps.key,
        "commits": exists * ones,
        "advancing_commits": (step > 0) * ones,
        "idle_commits": (both & (step == 0)) * ones,
        "rewinds": (step < 0) * ones,
        "removals": ~exists * ones,
        "messages": np.maximum(step, 0),
        "messages_rewound": np.maximum(-step, 0),
        "interval_max_ms": np.where(both, steps.clock_ms - np.where(both, steps.before_ms, 0), NONE),
        "last_committed_offset": steps.offset,
        "last_log_offset": steps.at,
        "last_ms": steps.clock_ms,
    }


def _reduced(before: Groups, new: Groups) -> Groups:
    """Both together, one row for each minute and key; one column at a time, which bounds memory."""

    def joined(name: str) -> Ints:
        return np.concatenate([before[name], new[name]])

    minute, key = joined("minute"), joined("key")
    order = np.lexsort((key, minute))
    minute, key = minute[order], key[order]
    starts = run_starts(minute, key)
    if len(starts) == 0:
        return before
    ends = run_ends(starts, len(order)) - 1
    reduced = {"minute": minute[starts], "key": key[starts]}
    reduced |= {name: np.add.reduceat(joined(name)[order], starts) for name in _SUMS}
    reduced |= {name: np.maximum.reduceat(joined(name)[order], starts) for name in _MAXIMA}
    return reduced | {name: joined(name)[order[ends]] for name in _LASTS}


def _where(groups: Groups, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Groups:
    return {name: values[chosen] for name, values in groups.items()}
