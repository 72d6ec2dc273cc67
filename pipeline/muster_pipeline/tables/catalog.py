"""Every table by name: its layer, schema and the order of its rows. The store reads and writes these and no others.

A table that was renamed answers to its old name too, for one release.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from muster_pipeline.schemas import gold, silver
from muster_pipeline.schemas.fold_states import FOLD_STATES
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.schemas.quarantine import FILES, QUARANTINE
from muster_pipeline.schemas.records import RECORDS
from muster_pipeline.schemas.runs import RUNS
from muster_pipeline.schemas.status import PARTITION_STATUS
from muster_pipeline.tables.errors import UnknownTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table. `order` says how the rows of one log partition are sorted."""

    name: str
    layer: str
    schema: pa.Schema
    order: str
    renamed_from: str | None = None
    """The name of the release before."""

    @property
    def comment(self) -> str:
        """What one row is."""
        text: bytes = (self.schema.metadata or {})[b"comment"]
        return text.decode()


_TABLES = (
    Table(name="records", layer="bronze", schema=RECORDS, order="log_offset"),
    Table(name="quarantine", layer="bronze", schema=QUARANTINE, order="as read"),
    Table(name="files", layer="bronze", schema=FILES, order="as read"),
    Table(
        name="log_end_offsets",
        layer="bronze",
        schema=LOG_END_OFFSETS,
        order="as sampled; not by log partition",
        renamed_from="heads",
    ),
    Table(
        name="commits", layer="silver", schema=silver.COMMITS, order="resolved_at_offset, log_offset; open ones last"
    ),
    Table(name="generations", layer="silver", schema=silver.GENERATIONS, order="log_offset"),
    Table(name="memberships", layer="silver", schema=silver.MEMBERSHIPS, order="log_offset, place in the record"),
    Table(name="assignments", layer="silver", schema=silver.ASSIGNMENTS, order="log_offset, place in the record"),
    Table(
        name="lag",
        layer="gold",
        schema=gold.LAG,
        order="minute_ms, first appearance of the key; in a stream's table, as samples decided the rows",
    ),
    Table(name="commit_rate", layer="gold", schema=gold.COMMIT_RATE, order="minute_ms, first appearance of the key"),
    Table(name="rebalances", layer="gold", schema=gold.REBALANCES, order="ended_log_offset"),
    Table(name="stalls", layer="gold", schema=gold.STALLS, order="ended_log_offset; open ones last"),
    Table(name="balance", layer="gold", schema=gold.BALANCE, order="log_offset"),
    Table(name="expiry", layer="gold", schema=gold.EXPIRY, order="first appearance of the key in the log"),
    Table(
        name="partition_status",
        layer="gold",
        schema=PARTITION_STATUS,
        order="first appearance of the key in the log",
    ),
    Table(name="runs", layer="runs", schema=RUNS, order="at_ms; not by log partition"),
    Table(name="fold_states", layer="state", schema=FOLD_STATES, order="one row"),
)

TABLES: Final[Mapping[str, Table]] = MappingProxyType({table.name: table for table in _TABLES})

OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {table.renamed_from: table.name for table in _TABLES if table.renamed_from is not None}
)
"""Old name -> name of the tables that were renamed in this release."""

RUNS_TABLE: Final = "runs"
"""The table that says which versions of the others belong together; no run makes it."""
STATES_TABLE: Final = "fold_states"
"""The table by which the rounds of a stream go on; no run of a batch makes it."""
LOG_ENDS_TABLE: Final = "log_end_offsets"
"""The table whose rows are of no log partition."""
BRONZE: Final = tuple(name for name, table in TABLES.items() if table.layer == "bronze")
DERIVED: Final = tuple(name for name, table in TABLES.items() if table.layer in ("silver", "gold"))


def current(name: str) -> str:
    """Today's name of a table, for its old name too; any other text as it is."""
    return OLD_NAMES.get(name, name)


def table(name: str) -> Table:
    """The table of that name, old or new. Raises UnknownTable."""
    found = TABLES.get(current(name))
    if found is None:
        raise UnknownTable(f"no table {name!r}; there are {', '.join(TABLES)}")
    return found
