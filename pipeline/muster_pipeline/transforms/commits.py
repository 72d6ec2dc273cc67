"""Offset commits and their outcomes: silver `commits`, and the stream of effects from which gold is made.

Plain commits and tombstones take effect at their own offset. A transactional commit waits for its producer's marker
(protocol notes 4.4): COMMIT applies it only if no commit with a higher record offset was stored for its key meanwhile,
ABORT drops it, a tombstone of its key removes it, and a second commit of the same producer replaces it. Pending rows
(a bounded number) appear at the offset of the record that settled them.

Rows without open transactions around them, nearly all of a usual log, go through array operations only; the others are
walked one by one. What it does not do: check whether a marker is valid. The coordinator did.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.schemas import records as kinds
from muster_pipeline.schemas.silver import COMMIT_OUTCOMES, COMMITS
from muster_pipeline.tables.errors import LimitReached
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.arrays import NONE, Bools, Ints, bools, ints, nullable, table, words
from muster_pipeline.transforms.keys import KeyNumbers

_NAMES: Final = tuple(COMMIT_OUTCOMES)
COMMITTED, TXN_COMMITTED, SUPERSEDED, REPLACED, ABORTED, REMOVED, OPEN, TOMBSTONE = range(len(_NAMES))


class Effects(NamedTuple):
    """Changes of committed offsets, in log order. Parallel arrays."""

    at: Ints
    """Log offset of the record that caused the change: the commit, the tombstone, or the marker."""
    clock_ms: Ints
    """The log partition's clock there."""
    key: Ints
    offset: Ints
    """The committed offset from now on; NONE if it was removed."""
    commit_ms: Ints
    """The commit's own timestamp; NONE if it was removed."""
    expire_ms: Ints
    """Its explicit expiry; NONE without."""


class _Settled(NamedTuple):
    row: int
    outcome: int
    at: int
    clock_ms: int


class CommitFold:
    """Fed with `records`, chunk by chunk in log order."""

    def __init__(self, keys: KeyNumbers) -> None:
        self._keys = keys
        self._held = COMMITS.empty_table()
        self._held_keys = np.empty(0, dtype=np.int64)
        self._pending: dict[int, dict[int, int]] = {}
        """Producer → key → row among held rows."""
        self._pending_producers: dict[int, int] = {}
        """Key → number of producers with a pending commit of it."""
        self._stored_at: dict[int, int] = {}
        """Record offset of the last value stored for a key since it has pending commits."""

    def feed(self, records: pa.Table, clock_ms: Ints) -> tuple[pa.Table, Effects]:
        """`clock_ms`: the clock at each row of `records`. Returns settled rows and effects of this chunk."""
        is_commit = pc.is_in(records["key_type"], pa.array(kinds.OFFSET_COMMIT_TYPES, pa.int16()))
        is_commit_np = bools(is_commit)
        commits = records.filter(is_commit)
        keys = self._keys.resolve(commits["group_id"], commits["topic"], commits["partition"])
        is_control = bools(records["is_control"])
        clock = clock_ms[is_commit_np]
        if not self._pending and not is_control.any() and not (ints(commits["producer_id"]) >= 0).any():
            return self._plain(commits, keys, clock)
        return self._mixed(records, is_commit_np, is_control, commits, keys, clock_ms)

    def finish(self) -> pa.Table:
        """Commits of transactions that are still open, in the order of the log."""
        rows = sorted(row for pending in self._pending.values() for row in pending.values())
        held = self._held.take(pa.array(rows, pa.int64()))
        return held.sort_by("log_offset")

    def pending_keys(self) -> frozenset[int]:
        """Keys that have a commit of an open transaction."""
        return frozenset(self._pending_producers)

    def _plain(self, commits: pa.Table, keys: Ints, clock: Ints) -> tuple[pa.Table, Effects]:
        outcome = np.where(bools(commits["is_tombstone"]), TOMBSTONE, COMMITTED)
        at = ints(commits["log_offset"])
        return _silver(commits, outcome, at, at), _effects(commits, keys, at, clock)

    def _mixed(
        self, records: pa.Table, is_commit: Bools, is_control: Bools, commits: pa.Table, keys: Ints, clock_ms: Ints
    ) -> tuple[pa.Table, Effects]:
        base = self._held.num_rows
        size = len(keys)
        count = base + size
        at = np.full(count, NONE, dtype=np.int64)
        at[base:] = ints(commits["log_offset"])
        clock = np.full(count, NONE, dtype=np.int64)
        clock[base:] = clock_ms[is_commit]
        outcome = np.full(count, OPEN, dtype=np.int64)
        tombstone, producer = bools(commits["is_tombstone"]), ints(commits["producer_id"])
        plain = producer < 0
        outcome[base:][plain] = np.where(tombstone[plain], TOMBSTONE, COMMITTED)
        all_keys = np.concatenate([self._held_keys, keys])
        row_of = np.full(records.num_rows, -1, dtype=np.int64)
        row_of[is_commit] = base + np.arange(size)
        watched = set(self._pending_producers) | set(keys[~plain].tolist())
        walk = is_control.copy()
        walk[is_commit] = ~plain | np.isin(keys, np.fromiter(watched, np.int64, len(watched)))
        held_at = np.concatenate([ints(self._held["log_offset"]), ints(commits["log_offset"])])
        for settled in self._walk(records, np.flatnonzero(walk), row_of, all_keys, held_at, clock_ms):
            outcome[settled.row], at[settled.row], clock[settled.row] = settled[1:]
        combined = pa.concat_tables([self._held, _silver(commits, outcome[base:], at[base:], at[base:])])
        is_open = outcome == OPEN
        done = np.flatnonzero(~is_open)
        done = done[np.lexsort((held_at[done], at[done]))]
        silver = _relabelled(combined.take(pa.array(done)), outcome[done], at[done])
        effective = done[np.isin(outcome[done], (COMMITTED, TXN_COMMITTED, TOMBSTONE))]
        effects = _effects(combined.take(pa.array(effective)), all_keys[effective], at[effective], clock[effective])
        self._keep(combined, all_keys, np.flatnonzero(is_open))
        return silver, effects

    def _walk(
        self, records: pa.Table, rows: Ints, row_of: Ints, keys: Ints, record_at: Ints, clock_ms: Ints
    ) -> list[_Settled]:
        """Settle the rows around transactions, one by one."""
        settled: list[_Settled] = []
        chosen = records.select(("log_offset", "producer_id", "is_control", "control_type", "is_tombstone")).take(
            pa.array(rows)
        )
        columns = (chosen[name].to_pylist() for name in chosen.column_names)
        for index, at, producer, control, marker, tombstone in zip(rows.tolist(), *columns, strict=True):
            now = int(clock_ms[index])
            row = int(row_of[index])
            if control:
                if marker in (kinds.CONTROL_ABORT, kinds.CONTROL_COMMIT):
                    settled += self._end(producer, marker == kinds.CONTROL_COMMIT, at, now, record_at)
            elif tombstone:
                settled += [_Settled(r, REMOVED, at, now) for r in self._drop(int(keys[row]))]
            elif producer >= 0:
                key = int(keys[row])
                pending = self._pending.setdefault(producer, {})
                if key in pending:
                    settled.append(_Settled(pending[key], REPLACED, at, now))
                else:
                    self._pending_producers[key] = self._pending_producers.get(key, 0) + 1
                pending[key] = row
            elif int(keys[row]) in self._pending_producers:
                self._stored_at[int(keys[row])] = at
        return settled

    def _end(self, producer: int, is_commit: bool, at: int, now: int, record_at: Ints) -> list[_Settled]:
        settled = []
        for key, row in sorted(self._pending.pop(producer, {}).items(), key=lambda item: item[1]):
            if not is_commit:
                outcome = ABORTED
            elif int(record_at[row]) < self._stored_at.get(key, NONE):
                outcome = SUPERSEDED
            else:
                outcome = TXN_COMMITTED
                self._stored_at[key] = int(record_at[row])
            settled.append(_Settled(row, outcome, at, now))
            self._leave(key)
        return settled

    def _drop(self, key: int) -> list[int]:
        """A tombstone removes every pending commit of the key."""
        rows = [rows.pop(key) for rows in self._pending.values() if key in rows]
        self._pending = {producer: rows for producer, rows in self._pending.items() if rows}
        self._pending_producers.pop(key, None)
        self._stored_at.pop(key, None)
        return rows

    def _leave(self, key: int) -> None:
        self._pending_producers[key] -= 1
        if not self._pending_producers[key]:
            del self._pending_producers[key]
            self._stored_at.pop(key, None)

    def _keep(self, combined: pa.Table, keys: Ints, rows: Ints) -> None:
        if len(rows) > limits.PENDING_COMMITS_MAX:
            raise LimitReached(
                f"{len(rows)} commits of open transactions, PENDING_COMMITS_MAX is {limits.PENDING_COMMITS_MAX}"
            )
        moved = {int(row): place for place, row in enumerate(rows)}
        self._pending = {
            producer: {key: moved[row] for key, row in pending.items()} for producer, pending in self._pending.items()
        }
        self._held = combined.take(pa.array(rows)).combine_chunks()
        self._held_keys = keys[rows]


def _silver(commits: pa.Table, outcome: Ints, resolved: Ints, visible: Ints) -> pa.Table:
    columns = {
        field.name: commits[field.name].combine_chunks() for field in COMMITS if field.name in commits.column_names
    }
    return table(COMMITS, columns | _verdict(outcome, resolved, visible))


def _relabelled(silver: pa.Table, outcome: Ints, at: Ints) -> pa.Table:
    """The same rows with their final outcome."""
    columns = {name: silver[name].combine_chunks() for name in silver.column_names}
    return table(COMMITS, columns | _verdict(outcome, at, at))


def _verdict(outcome: Ints, resolved: Ints, visible: Ints) -> dict[str, pa.Array]:
    is_visible = np.isin(outcome, (COMMITTED, TXN_COMMITTED))
    is_open = outcome == OPEN
    return {
        "outcome": words(outcome.astype(np.int8), _NAMES),
        "resolved_at_offset": nullable(np.where(is_open, NONE, resolved)),
        "visible_at_offset": nullable(np.where(is_visible, visible, NONE)),
    }


def _effects(commits: pa.Table, keys: Ints, at: Ints, clock: Ints) -> Effects:
    return Effects(
        at,
        clock,
        keys,
        ints(commits["committed_offset"]),
        ints(commits["commit_timestamp_ms"]),
        ints(commits["expire_timestamp_ms"]),
    )
