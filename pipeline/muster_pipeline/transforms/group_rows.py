"""Rows that group folds produce, collected by table and made into Arrow with the tables' schemas."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from muster_pipeline.schemas.gold import BALANCE, REBALANCES
from muster_pipeline.schemas.silver import ASSIGNMENTS, GENERATIONS, MEMBERSHIPS

_SCHEMAS: Final = {
    "generations": GENERATIONS,
    "memberships": MEMBERSHIPS,
    "assignments": ASSIGNMENTS,
    "rebalances": REBALANCES,
    "balance": BALANCE,
}


class GroupRows:
    """Rows of one chunk. Group records are rare beside commits, so rows are Python dictionaries until `tables`.

    Classic and KIP-848 groups are folded one after the other, so their rows are put back into the log's order here:
    else a table would show where the log was cut into chunks.
    """

    def __init__(self, cluster: str, log_partition: int) -> None:
        self._place = {"cluster": cluster, "log_partition": log_partition}
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _SCHEMAS}
        """A row of `assignments` has a list of partitions here, and is one row for each of them in the table."""

    def add(self, table: str, row: Mapping[str, Any] | None) -> None:
        """Add a row; None adds nothing."""
        if row is not None:
            self._rows[table].append({**self._place, **row})

    def assign(self, row: Mapping[str, Any], partitions: Sequence[int]) -> None:
        """Add a row of `assignments` for each of these partitions of a topic."""
        self.add("assignments", {**row, "partition": partitions} if partitions else None)

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows added since the last call. A column that a row lacks is null; the schema must allow that."""
        made = {}
        for name, rows in self._rows.items():
            rows.sort(key=_place_in_log)
            made[name] = _assignments(rows) if name == "assignments" else _table(rows, _SCHEMAS[name])
        self._rows = {name: [] for name in _SCHEMAS}
        return made


def _assignments(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    counts = [len(row["partition"]) for row in rows]
    partitions = pa.array([number for row in rows for number in row["partition"]], pa.int32())
    made = _table([{**row, "partition": 0} for row in rows], ASSIGNMENTS)
    made = made.take(pa.array(np.repeat(np.arange(len(rows)), counts)))
    return made.set_column(made.column_names.index("partition"), ASSIGNMENTS.field("partition"), partitions)


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _place_in_log(row: Mapping[str, Any]) -> int:
    """The log offset by which a row is sorted; for `rebalances` of the record that ended it. The sort is stable."""
    place: int = row["ended_log_offset"] if "ended_log_offset" in row else row["log_offset"]
    return place
