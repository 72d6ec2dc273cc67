"""The last commits of every key: what a status is judged by, as Burrow keeps it.

A slot is the commits of one key within one second of the log's clock: its time is that of the first of them, its offset
that of the last. Ten slots are kept for each key, newest first, and a tombstone empties them. Seconds are those of the
clock and not of the key's first commit (which Burrow counts from), so that the slots do not depend on how the log was
cut. What it does not do: judge (`status_rules`).
"""

from typing import NamedTuple

import numpy as np

from muster_pipeline.transforms.arrays import NONE, Ints, run_ends, run_starts
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
        self._slots = Window(*(np.full((1024, STATUS_SLOTS), NONE, dtype=np.int64) for _ in Window._fields))

    def feed(self, steps: Steps, key_count: int) -> None:
        """The slots after the chunk."""
        self._ensure(key_count)
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
        return Window(*(column[keys] for column in self._slots))

    def _absorb(self, key: Ints, new: Window) -> None:
        firsts = run_starts(key)
        ends = run_ends(firsts, len(key))
        keys = key[firsts]
        # Nothing before a key's last tombstone counts.
        places = np.arange(len(key))
        last_gone = np.maximum.reduceat(np.where(new.offset == NONE, places, -1), firsts)
        is_emptied = last_gone >= 0
        begins = np.where(is_emptied, last_gone + 1, firsts)
        old = self.of(keys)
        for column in old:
            column[is_emptied] = NONE
        alive = begins < ends
        first = np.where(alive, begins, 0)
        same = (
            alive & (old.offset[:, 0] != NONE) & (old.first_ms[:, 0] // _SECOND_MS == new.first_ms[first] // _SECOND_MS)
        )
        _merge(old, new, np.flatnonzero(same), first)
        begins = begins + same
        count = np.minimum(ends - begins, STATUS_SLOTS)[:, None]
        slot = np.arange(STATUS_SLOTS)
        is_new = slot < count
        from_new = np.where(is_new, ends[:, None] - 1 - slot, 0)
        from_old = np.where(is_new, 0, slot - count)
        rows = np.arange(len(keys))[:, None]
        for whole, mine, fresh in zip(self._slots, old, new, strict=True):
            whole[keys] = np.where(is_new, fresh[from_new], mine[rows, from_old])

    def _ensure(self, size: int) -> None:
        have = len(self._slots.offset)
        if size <= have:
            return
        grown = []
        for column in self._slots:
            wider = np.full((max(size, 2 * have), STATUS_SLOTS), NONE, dtype=np.int64)
            wider[:have] = column
            grown.append(wider)
        self._slots = Window(*grown)


def _merge(old: Window, new: Window, rows: Ints, first: Ints) -> None:
    """A key's first new slot of the second of its newest old one continues that."""
    old.last_ms[rows, 0] = new.last_ms[first[rows]]
    old.offset[rows, 0] = new.offset[first[rows]]
