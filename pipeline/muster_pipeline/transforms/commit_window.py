"""The last commits of every key: what a status is judged by, as Burrow keeps it.

A slot is the commits of one key within one second of the log's clock: its time is that of the first of them, its offset
that of the last. Ten slots are kept for each key, and a tombstone empties them. Seconds are those of the clock and not
of the key's first commit (which Burrow counts from), so that the slots do not depend on how the log was cut. A key's
slots are a ring, so that a new one moves no other. What it does not do: judge (`status_rules`).
"""

from typing import NamedTuple

import numpy as np

from muster_pipeline.transforms.arrays import NONE, Bools, Ints, run_ends, run_starts
from muster_pipeline.transforms.grow import Grow
from muster_pipeline.transforms.key_state import Steps
from muster_pipeline.transforms.limits import STATUS_SLOTS

_SECOND_MS = 1_000


class Window(NamedTuple):
    """Arrays of a row per key and a column per slot, newest first; NONE where there is no slot."""

    first_ms: Ints
    last_ms: Ints
    offset: Ints


class CommitWindow:
    """Fed with the chunk's steps."""

    def __init__(self) -> None:
        none = np.int64(NONE)
        self._first_ms, self._last_ms, self._offset = Grow(none), Grow(none), Grow(none)
        """Key k has the STATUS_SLOTS places from k * STATUS_SLOTS on."""
        self._newest = Grow(np.int64(0))
        """Place of each key's newest slot in its ring."""

    def feed(self, steps: Steps, key_count: int) -> None:
        """The slots after the chunk."""
        for column in (self._first_ms, self._last_ms, self._offset):
            column.ensure(key_count * STATUS_SLOTS)
        self._newest.ensure(key_count)
        if len(steps.key) == 0:
            return
        second = steps.clock_ms // _SECOND_MS
        gone = steps.offset == NONE
        is_new = np.ones(len(gone), dtype=np.bool_)
        is_new[1:] = (steps.key[1:] != steps.key[:-1]) | (second[1:] != second[:-1]) | gone[1:] | gone[:-1]
        starts = np.flatnonzero(is_new)
        ends = run_ends(starts, len(steps.key))
        new = Window(steps.clock_ms[starts], steps.clock_ms[ends - 1], steps.offset[ends - 1])
        self._absorb(steps.key[starts], new)

    def of(self, keys: Ints) -> Window:
        """The slots of these keys."""
        ring = (self._newest.values[keys][:, None] - np.arange(STATUS_SLOTS)) % STATUS_SLOTS
        places = keys[:, None] * STATUS_SLOTS + ring
        return Window(*(column.values[places] for column in (self._first_ms, self._last_ms, self._offset)))

    def _absorb(self, key: Ints, new: Window) -> None:
        firsts = run_starts(key)
        ends = run_ends(firsts, len(key))
        keys = key[firsts]
        # Nothing before a key's last tombstone counts.
        last_gone = np.maximum.reduceat(np.where(new.offset == NONE, np.arange(len(key)), -1), firsts)
        self._empty(keys[last_gone >= 0])
        begins = np.where(last_gone >= 0, last_gone + 1, firsts)
        begins = begins + self._continued(keys, new, begins, begins < ends)
        begins = np.maximum(begins, ends - STATUS_SLOTS)
        count = ends - begins
        owner = np.repeat(np.arange(len(keys)), count)
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        newest = self._newest.values[keys]
        places = keys[owner] * STATUS_SLOTS + (newest[owner] + 1 + rank) % STATUS_SLOTS
        for column, values in zip((self._first_ms, self._last_ms, self._offset), new, strict=True):
            column.values[places] = values[begins[owner] + rank]
        self._newest.values[keys] = (newest + count) % STATUS_SLOTS

    def _empty(self, keys: Ints) -> None:
        places = keys[:, None] * STATUS_SLOTS + np.arange(STATUS_SLOTS)
        for column in (self._first_ms, self._last_ms, self._offset):
            column.values[places] = NONE

    def _continued(self, keys: Ints, new: Window, begins: Ints, has_new: Bools) -> Ints:
        """A key's first new slot of the second of its newest old one continues that. 1: so it was."""
        first = np.where(has_new, begins, 0)
        newest = keys * STATUS_SLOTS + self._newest.values[keys]
        is_same: Bools = has_new & (self._offset.values[newest] != NONE)
        is_same &= self._first_ms.values[newest] // _SECOND_MS == new.first_ms[first] // _SECOND_MS
        places, rows = newest[is_same], first[is_same]
        self._last_ms.values[places] = new.last_ms[rows]
        self._offset.values[places] = new.offset[rows]
        return is_same.astype(np.int64)
