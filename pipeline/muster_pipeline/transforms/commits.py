"""Offset commits and their outcomes: silver `commits`, and the stream of effects from which gold is made.

Plain commits and tombstones take effect at their own offset, transactional commits at their producer's marker
(`transactions`). Pending rows, a bounded number, are kept and appear at the offset of the record that settled them.
Every column is moved once: from the chunk's records, and the pending rows before them, to the order of the outcomes.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.schemas import records as kinds
from muster_pipeline.schemas.silver import COMMITS
from muster_pipeline.tables.errors import LimitReached
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.arrays import NONE, Ints, bools, ints, nullable, table, words
from muster_pipeline.transforms.keys import KeyNumbers
from muster_pipeline.transforms.transactions import (
    COMMITTED,
    NAMES,
    OPEN,
    TOMBSTONE,
    TXN_COMMITTED,
    Commits,
    Ends,
    Transactions,
    markers_of,
)

_VERDICT: Final = ("outcome", "resolved_at_offset", "visible_at_offset")
_COPIED: Final = pa.schema([kinds.RECORDS.field(name) for name in COMMITS.names if name not in _VERDICT])
"""Columns that are those of the record."""


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


class CommitFold:
    """Fed with `records`, chunk by chunk in log order."""

    def __init__(self, keys: KeyNumbers) -> None:
        self._keys = keys
        self._transactions = Transactions()
        self._held = _COPIED.empty_table()
        """Commits of transactions that are open, in log order."""
        self._held_keys = np.empty(0, dtype=np.int64)

    def feed(self, records: pa.Table, clock_ms: Ints) -> tuple[pa.Table, Effects]:
        """`clock_ms`: the clock at each row of `records`. Returns settled rows and effects of this chunk. Raises
        LimitReached."""
        is_commit = pc.is_in(records["key_type"], pa.array(kinds.OFFSET_COMMIT_TYPES, pa.int16()))
        named = records.select(("group_id", "topic", "partition")).filter(is_commit)
        keys = np.concatenate([self._held_keys, self._keys.resolve(*named.columns)])
        at, producer = ints(records["log_offset"]), ints(records["producer_id"])
        place = np.flatnonzero(bools(is_commit))
        commits = Commits(
            keys,
            self._joined("producer_id", producer[place]),
            self._joined(None, place, -1),
            self._joined("log_offset", at[place]),
            self._joined(None, clock_ms[place], NONE),
            self._joined(None, bools(records["is_tombstone"])[place], 0).astype(np.bool_),
        )
        kind = ints(records["control_type"])
        markers = markers_of(bools(records["is_control"]), kind, producer, at, clock_ms)
        ends = self._transactions.settle(commits, markers, len(self._keys))
        return self._told(records, commits, ends)

    def finish(self) -> pa.Table:
        """Commits of transactions that are still open, in the order of the log."""
        count = self._held.num_rows
        none = np.full(count, NONE, dtype=np.int64)
        return _silver(self._held, np.full(count, OPEN, dtype=np.int64), none)

    def pending_keys(self) -> frozenset[int]:
        """Keys that have a commit of an open transaction."""
        return frozenset(self._held_keys.tolist())

    def _joined(self, column: str | None, values: npt.NDArray[Any], held: int = 0) -> Ints:
        """A column of the pending rows, or the same value for each of them, and then these."""
        count = self._held.num_rows
        before = np.full(count, held, dtype=np.int64) if column is None else ints(self._held[column])
        return np.concatenate([before, values])

    def _told(self, records: pa.Table, commits: Commits, ends: Ends) -> tuple[pa.Table, Effects]:
        base = self._held.num_rows
        mine = pa.Table.from_arrays([records[name] for name in _COPIED.names], schema=_COPIED)
        rows = pa.concat_tables([self._held, mine])
        row_of = np.where(commits.place < 0, np.arange(len(commits.place)), base + commits.place)
        is_open = ends.outcome == OPEN
        done = np.flatnonzero(~is_open)
        settled_at = ends.at[done]
        if (settled_at[1:] < settled_at[:-1]).any():
            done = done[np.lexsort((commits.at[done], settled_at))]
        silver = _silver(_rows(rows, row_of[done]), ends.outcome[done], ends.at[done])
        effective = done[np.isin(ends.outcome[done], (COMMITTED, TXN_COMMITTED, TOMBSTONE))]
        offset, commit_ms, expire_ms = (
            ints(rows[name])[row_of[effective]]
            for name in ("committed_offset", "commit_timestamp_ms", "expire_timestamp_ms")
        )
        self._keep(rows, row_of, commits.key, np.flatnonzero(is_open))
        return silver, Effects(
            ends.at[effective], ends.clock_ms[effective], commits.key[effective], offset, commit_ms, expire_ms
        )

    def _keep(self, rows: pa.Table, row_of: Ints, keys: Ints, pending: Ints) -> None:
        if len(pending) > limits.PENDING_COMMITS_MAX:
            raise LimitReached(
                f"{len(pending)} commits of open transactions, PENDING_COMMITS_MAX is {limits.PENDING_COMMITS_MAX}"
            )
        self._held = _rows(rows, row_of[pending])
        self._held_keys = keys[pending]


def _rows(rows: pa.Table, places: Ints) -> pa.Table:
    """These rows in this order, one chunk a column."""
    if len(places) == rows.num_rows and (places == np.arange(len(places))).all():
        return rows.combine_chunks()
    return rows.take(pa.array(places)).combine_chunks()


def _silver(rows: pa.Table, outcome: Ints, resolved: Ints) -> pa.Table:
    is_visible = np.isin(outcome, (COMMITTED, TXN_COMMITTED))
    verdict = (
        words(outcome.astype(np.int8), NAMES),
        nullable(resolved),
        nullable(np.where(is_visible, resolved, NONE)),
    )
    copied = {name: rows[name].combine_chunks() for name in rows.column_names}
    return table(COMMITS, copied | dict(zip(_VERDICT, verdict, strict=True)))
