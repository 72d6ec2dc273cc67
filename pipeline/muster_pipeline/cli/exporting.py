"""`export`: tables of one run a cluster as one DuckDB file, for Grafana's DuckDB data source and whatever reads such.

Who opens the file needs no Delta, no credentials and no lease: rows are copied, at the versions that the run's row
pins, so that an answer over several tables is of one moment. Table `runs` in it has the row of that run alone. The file
is made beside the old one and takes its place as a whole; a reader that has the old one open keeps it until it opens
the file again. It cannot tell that it is old: its `runs` say when it was published.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from muster_pipeline.cli.exits import Exit, leave, say
from muster_pipeline.cli.querying import CONFIGURATION, INSTALL
from muster_pipeline.report.table_dashboard import TABLES
from muster_pipeline.schemas.runs import RUNS
from muster_pipeline.store import durable, reader, runs
from muster_pipeline.store.place import Place
from muster_pipeline.tables.catalog import RUNS_TABLE, table
from muster_pipeline.tables.errors import NothingPublished

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def export(where: Place, file: Path, clusters: Sequence[str], names: Sequence[str], run: int | None) -> None:
    """Write the file anew. `clusters`: none for all of the folder; `names`: tables beside those that the dashboard
    asks. Raises TablesError, OSError."""
    try:
        import duckdb
    except ImportError as error:
        leave(Exit.USAGE, f"muster pipeline export needs the package {error.name}, which is not installed: {INSTALL}")
    chosen = list(dict.fromkeys([*TABLES, *(table(name).name for name in names if name != RUNS_TABLE)]))
    events = _events(where, clusters, run)
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        connection = duckdb.connect(str(draft), config=CONFIGURATION)
        try:
            _fill(connection, where, events, chosen)
        finally:
            connection.close()
        durable.sync_file(draft)
        _replace(draft, file)
    except duckdb.Error as error:
        leave(Exit.FAILED, f"{file} was not written: {' '.join(str(error).split())}")
    finally:
        draft.unlink(missing_ok=True)
        _log_of(draft).unlink(missing_ok=True)
    told = ", ".join(f"{one.cluster} (run {one.run})" for one in events)
    say(f"{len(chosen)} tables of {told} in {file}")


def _events(where: Place, clusters: Sequence[str], run: int | None) -> list[runs.Event]:
    """The publications to copy."""
    if run is not None:
        if len(clusters) > 1:
            raise NothingPublished(f"run {run} is of one cluster: name one with --cluster, or none")
        return [runs.chosen(where, clusters[0] if clusters else None, run)]
    ledger = runs.load(where)
    known = [] if ledger is None else ledger.clusters()
    if not known:
        return [runs.chosen(where, None, None)]
    return [runs.chosen(where, name, None) for name in dict.fromkeys(clusters or known)]


def _fill(connection: "DuckDBPyConnection", where: Place, events: Sequence[runs.Event], names: Sequence[str]) -> None:
    snapshots = [reader.published(where, one.cluster, one.run) for one in events]
    rows = pa.Table.from_pylist([one.row() for one in events], schema=RUNS)
    connection.register("source", rows)
    connection.execute(f"CREATE TABLE {RUNS_TABLE} AS FROM source")
    for name in names:
        for number, found in enumerate(snapshots):
            connection.register("source", reader.dataset(name, found))
            connection.execute(f"INSERT INTO {name} FROM source" if number else f"CREATE TABLE {name} AS FROM source")


def _replace(draft: Path, file: Path) -> None:
    """A log beside the old file is what somebody wrote into it, and would be taken for the new one's. The data source
    opens a file again if its time is later than when it looked last, which may be since the draft was made."""
    _log_of(file).unlink(missing_ok=True)
    draft.replace(file)
    os.utime(file)
    durable.sync_folder(file.parent)


def _log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.wal")
