"""Rows that group folds produce, collected by table and made into Arrow with the tables' schemas."""

from collections.abc import Mapping
from typing import Any, Final

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

    def add(self, table: str, row: Mapping[str, Any] | None) -> None:
        """Add a row; None adds nothing."""
        if row is not None:
            self._rows[table].append({**self._place, **row})

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows added since the last call. A column that a row lacks is null; the schema must allow that."""
        made = {
            name: pa.Table.from_pylist(sorted(rows, key=_place_in_log), schema=_SCHEMAS[name])
            for name, rows in self._rows.items()
        }
        self._rows = {name: [] for name in _SCHEMAS}
        return made


def _place_in_log(row: Mapping[str, Any]) -> int:
    """The log offset by which a row is sorted; for `rebalances` of the record that ended it. The sort is stable."""
    place: int = row["ended_log_offset"] if "ended_log_offset" in row else row["log_offset"]
    return place
