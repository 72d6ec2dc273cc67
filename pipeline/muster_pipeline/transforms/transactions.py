"""How commits of transactions end (protocol notes 4.4).

A transactional commit waits for its producer's marker: COMMIT applies it only if no commit with a higher record offset
was stored for its key meanwhile, ABORT drops it, a tombstone of its key removes it, and a second commit of the same
producer replaces it.

Nearly always a key has commits of one producer's transactions and of nobody else; its commits end by array operations
(`_alone`). Those of keys where others commit or remove offsets at the same time are walked one by one (`_Walk`). What
it does not do: check whether a marker is valid. The coordinator did.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from muster_pipeline.schemas import records as kinds
from muster_pipeline.schemas.silver import COMMIT_OUTCOMES
from muster_pipeline.transforms.arrays import NONE, Bools, Ints

NAMES: Final = tuple(COMMIT_OUTCOMES)
COMMITTED, TXN_COMMITTED, SUPERSEDED, REPLACED, ABORTED, REMOVED, OPEN, TOMBSTONE = range(len(NAMES))
"""Outcomes: positions in NAMES."""


class Commits(NamedTuple):
    """Commits and tombstones in log order, first the open ones of earlier chunks; parallel arrays."""

    key: Ints
    producer: Ints
    place: Ints
    """Row among the chunk's records; -1 for those of earlier chunks."""
    at: Ints
    """Log offset of the record."""
    clock_ms: Ints
    """The log partition's clock there."""
    is_tombstone: Bools

    @property
    def is_transactional(self) -> Bools:
        """A tombstone takes effect at once, whoever wrote it."""
        return (self.producer >= 0) & ~self.is_tombstone


class Markers(NamedTuple):
    """Ends of transactions among the chunk's records, in log order; parallel arrays."""

    producer: Ints
    place: Ints
    at: Ints
    clock_ms: Ints
    is_commit: Bools


class Ends(NamedTuple):
    """Of every commit its outcome, and the log offset and the clock at which it was settled; parallel arrays."""

    outcome: Ints
    at: Ints
    clock_ms: Ints


class Transactions:
    """Keeps the offsets of commits that were stored for a key while it has open ones of a transaction."""

    def __init__(self) -> None:
        self._stored_at: dict[int, int] = {}

    def settle(self, commits: Commits, markers: Markers, key_count: int) -> Ends:
        """Ends of a chunk's commits and of those that were open before; OPEN: not up to here."""
        own = commits.is_transactional
        outcome = np.where(own, OPEN, np.where(commits.is_tombstone, TOMBSTONE, COMMITTED))
        ends = Ends(outcome, commits.at.copy(), commits.clock_ms.copy())
        rows = np.flatnonzero(own)
        if len(rows):
            contested = self._contested(commits, rows, key_count)
            is_alone = ~contested[commits.key[rows]]
            _alone(commits, markers, rows[is_alone], ends)
            if not is_alone.all():
                walk = _Walk(commits, ends, self._stored_at)
                walk.go(markers, np.flatnonzero(contested[commits.key]))
                self._stored_at = walk.stored_at
        return ends

    def _contested(self, commits: Commits, rows: Ints, key_count: int) -> Bools:
        """By key: have others than one producer's transactions to do with it?"""
        is_watched = np.zeros(key_count, dtype=np.bool_)
        is_watched[commits.key[rows]] = True
        found = np.zeros(key_count, dtype=np.bool_)
        others = commits.key[~commits.is_transactional]
        found[others[is_watched[others]]] = True
        order = np.lexsort((commits.producer[rows], commits.key[rows]))
        key, producer = commits.key[rows][order], commits.producer[rows][order]
        found[key[1:][(key[1:] == key[:-1]) & (producer[1:] != producer[:-1])]] = True
        found[list(self._stored_at)] = True
        return found


def markers_of(is_control: Bools, kind: Ints, producer: Ints, at: Ints, clock_ms: Ints) -> Markers:
    """From columns of a chunk's records."""
    place = np.flatnonzero(is_control & ((kind == kinds.CONTROL_COMMIT) | (kind == kinds.CONTROL_ABORT)))
    return Markers(producer[place], place, at[place], clock_ms[place], kind[place] == kinds.CONTROL_COMMIT)


def _alone(commits: Commits, markers: Markers, rows: Ints, ends: Ends) -> None:
    """Settle `rows`, whose keys have only commits of one producer's transactions: each by the next commit of its key
    in the same transaction, else by the next marker of its producer."""
    if not len(rows):
        return
    producers, owner = np.unique(commits.producer[rows], return_inverse=True)
    of_marker = np.minimum(np.searchsorted(producers, markers.producer), len(producers) - 1)
    mine = np.flatnonzero(producers[of_marker] == markers.producer)
    mine = mine[np.argsort(of_marker[mine], kind="stable")]  # by producer, then by place
    # Places begin with -1, of commits before the chunk, so that spans of two producers do not overlap.
    span = int(max(commits.place.max(), markers.place.max(initial=-1))) + 2
    known = of_marker[mine] * span + markers.place[mine]
    following = np.searchsorted(known, owner * span + commits.place[rows])
    order = np.lexsort((rows, commits.key[rows], following, owner))
    rows, owner, following = rows[order], owner[order], following[order]
    key = commits.key[rows]
    is_replaced = np.zeros(len(rows), dtype=np.bool_)
    is_replaced[:-1] = (key[1:] == key[:-1]) & (following[1:] == following[:-1])
    by_commit = np.flatnonzero(is_replaced)
    ends.outcome[rows[by_commit]] = REPLACED
    ends.at[rows[by_commit]] = commits.at[rows[by_commit + 1]]
    ends.clock_ms[rows[by_commit]] = commits.clock_ms[rows[by_commit + 1]]
    has = ~is_replaced & (following < len(mine))
    has[has] = of_marker[mine[following[has]]] == owner[has]
    marker = mine[following[has]]
    ends.outcome[rows[has]] = np.where(markers.is_commit[marker], TXN_COMMITTED, ABORTED)
    ends.at[rows[has]] = markers.at[marker]
    ends.clock_ms[rows[has]] = markers.clock_ms[marker]


class _Walk:
    """Commits of contested keys, and all markers, in the order of the log."""

    def __init__(self, commits: Commits, ends: Ends, stored_at: dict[int, int]) -> None:
        self._commits, self._ends = commits, ends
        self.stored_at = dict(stored_at)
        """Record offset of the last value stored for a key since it has pending commits."""
        self._pending: dict[int, dict[int, int]] = {}
        """Producer → key → row."""
        self._producers: dict[int, int] = {}
        """Key → number of producers with a pending commit of it."""

    def go(self, markers: Markers, rows: Ints) -> None:
        """Settle these commits, as far as they end in this chunk."""
        columns = (self._commits.place, self._commits.key, self._commits.producer, self._commits.at)
        told = zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True)
        is_own, is_tombstone = self._commits.is_transactional, self._commits.is_tombstone
        steps: list[tuple[int, int, Sequence[int]]] = [(place, 0, (row, *rest)) for row, place, *rest in told]
        ended = zip(*(column.tolist() for column in markers), strict=True)
        steps += [(place, 1, (producer, at, now, verdict)) for producer, place, at, now, verdict in ended]
        for _, is_marker, values in sorted(steps):
            if is_marker:
                self._end(*values)
                continue
            row, key, producer, at = values
            if is_tombstone[row]:
                self._drop(key, row)
            elif is_own[row]:
                self._add(row, key, producer)
            elif key in self._producers:
                self.stored_at[key] = at

    def _add(self, row: int, key: int, producer: int) -> None:
        pending = self._pending.setdefault(producer, {})
        if key in pending:
            self._settled(pending[key], REPLACED, int(self._commits.at[row]), int(self._commits.clock_ms[row]))
        else:
            self._producers[key] = self._producers.get(key, 0) + 1
        pending[key] = row

    def _end(self, producer: int, at: int, now: int, is_commit: int) -> None:
        for key, row in sorted(self._pending.pop(producer, {}).items(), key=lambda item: item[1]):
            record_at = int(self._commits.at[row])
            if not is_commit:
                outcome = ABORTED
            elif record_at < self.stored_at.get(key, NONE):
                outcome = SUPERSEDED
            else:
                outcome = TXN_COMMITTED
                self.stored_at[key] = record_at
            self._settled(row, outcome, at, now)
            self._producers[key] -= 1
            if not self._producers[key]:
                del self._producers[key]
                self.stored_at.pop(key, None)

    def _drop(self, key: int, by: int) -> None:
        """A tombstone removes every pending commit of the key."""
        for pending in self._pending.values():
            if key in pending:
                at, now = int(self._commits.at[by]), int(self._commits.clock_ms[by])
                self._settled(pending.pop(key), REMOVED, at, now)
        self._producers.pop(key, None)
        self.stored_at.pop(key, None)

    def _settled(self, row: int, outcome: int, at: int, now: int) -> None:
        self._ends.outcome[row], self._ends.at[row], self._ends.clock_ms[row] = outcome, at, now
