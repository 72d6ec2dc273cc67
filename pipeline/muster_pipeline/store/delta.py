"""One Delta table: opened, made, given new columns, committed.

Executors write the Parquet files; a commit names them in the table's log. It is made on top of the version that was
read and of no other (no retries inside delta-rs): whoever comes second is told, and decides anew on what is there then.

Only what protocol versions 1 (read) and 2 (write) have is used, so that every reader of Delta can read it. Files hold
the partition columns too, so that they can be read as plain Parquet.

delta-rs is loaded by the functions that use it: a worker only writes files, and is 30 MiB smaller without it.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import fs

from muster_pipeline.store.durable import sync_file, sync_folder
from muster_pipeline.store.files import FileEntry, partitioning
from muster_pipeline.store.limits import CHECKPOINT_EVERY, NO_LOG_PARTITION
from muster_pipeline.store.place import Place
from muster_pipeline.tables.catalog import Table
from muster_pipeline.tables.errors import BadInput, DamagedStore, StoreFailed

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG: Final = "_delta_log"
REASON_CHARACTERS_MAX: Final = 500
_TRACE: Final = re.compile(r"\d+: |at /|at \./|stack backtrace|at [\w.$/<>]+\(")
"""A line of Rust's stack, or of Java's."""
_DRAWN: Final = re.compile(r"\x1b\[[0-9;]*m|\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}")
_CONFIGURATION: Final = {
    "delta.checkpointInterval": str(CHECKPOINT_EVERY),
    "delta.enableExpiredLogCleanup": "false",  # versions are pinned by runs, not by their age
    "delta.deletedFileRetentionDuration": "interval 6 hours",  # what was removed before is an orphan
}


class Overtaken(Exception):
    """The table has a newer version than the one that was read."""


def opened(place: Place, name: str, version: int | None = None) -> "DeltaTable | None":
    """The table, None if there is none. Raises DamagedStore, StoreFailed."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return DeltaTable(place.table(name), version=version)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        what = f"table {name} in {place}" + ("" if version is None else f" at version {version}")
        if place.local is not None and not isinstance(error, PermissionError):
            raise DamagedStore(f"{what} cannot be read: {reason(error)}") from error
        raise StoreFailed(f"{what} cannot be read: {reason(error)}") from error


def made(place: Place, table: Table) -> "DeltaTable":
    """The table with the columns of this release: as it is, with new ones added, or new. Raises as `opened`, Overtaken,
    BadInput if a column has another type."""
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import DeltaError

    found = opened(place, table.name)
    if found is None:
        try:
            found = DeltaTable.create(
                place.table(table.name),
                Schema.from_arrow(table.schema),
                partition_by=partitioning(table.schema.names),
                description=table.comment,
                configuration=_CONFIGURATION,
            )
        except (DeltaError, OSError) as error:
            found = opened(place, table.name)  # another run may have made it
            if found is None:
                raise StoreFailed(f"{place.table(table.name)} cannot be made: {reason(error)}") from error
        settle(place, table.name, 0)
    return _evolved(place, found, table)


def _evolved(place: Place, found: "DeltaTable", table: Table) -> "DeltaTable":
    from deltalake import Field, Schema
    from deltalake.exceptions import CommitFailedError

    known = {field.name: field for field in found.schema().fields}
    wanted = Schema.from_arrow(table.schema).fields
    for field in wanted:
        if field.name in known and known[field.name].type != field.type:
            told = f"{known[field.name].type} and not {field.type}"
            raise BadInput(f"column {field.name} of table {table.name} in {place} is {told}: write into another folder")
    new = [Field(one.name, one.type, nullable=True, metadata=one.metadata) for one in wanted if one.name not in known]
    if new:
        before = found.version()
        try:
            found.alter.add_columns(new)
        except CommitFailedError as error:
            raise Overtaken(table.name) from error
        settle(place, table.name, before + 1)
        again = opened(place, table.name)
        if again is None:
            raise DamagedStore(f"table {table.name} in {place} is gone")
        return again
    return found


def is_newest(place: Place, name: str, version: int) -> bool:
    """Has the table no later version than this one, as far as its log's names tell? Opening it costs much more."""
    later = f"{LOG}/{version + 1:020}.json"
    try:
        return bool(place.files(name).get_file_info(later).type == fs.FileType.NotFound)
    except OSError:
        return False  # whoever opens it is told why


def live(found: "DeltaTable", name: str, cluster: str) -> tuple[FileEntry, ...]:
    """A cluster's files at this version, by log partition and order within it."""
    columns = ["path", "size_bytes", "num_records", "partition.cluster", "partition.log_partition"]
    told = pa.table(found.get_add_actions(flatten=True))
    rows = told.select([one for one in columns if one in told.column_names]).to_pylist()
    return tuple(
        sorted(
            FileEntry(
                table=name,
                log_partition=row.get("partition.log_partition", NO_LOG_PARTITION),
                path=row["path"],
                rows=row["num_records"] or 0,
                bytes=row["size_bytes"],
            )
            for row in rows
            if row["partition.cluster"] == cluster
        )
    )


def commit(
    place: Place,
    found: "DeltaTable",
    table: Table,
    cluster: str,
    removed: Sequence[FileEntry],
    added: Sequence[FileEntry],
    now_ms: int,
) -> int:
    """Make the next version; returns it. It is durable. Raises Overtaken, StoreFailed.

    Precondition: the files are durable under their names.
    """
    from deltalake import CommitProperties
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import AddAction, RemoveAction

    columns = partitioning(table.schema.names)
    actions: list[Any] = [
        RemoveAction(one.path, True, now_ms, one.bytes, _values(columns, cluster, one)) for one in removed
    ]
    actions += [
        AddAction(
            path=one.path,
            size=one.bytes,
            partition_values=_values(columns, cluster, one),
            modification_time=now_ms,
            data_change=True,
            stats=one.statistics or f'{{"numRecords": {one.rows}}}',
        )
        for one in added
    ]
    version = found.version() + 1
    try:
        found.create_write_transaction(
            actions,
            "append",
            found.schema(),
            partition_by=columns,
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except CommitFailedError as error:
        raise Overtaken(table.name) from error
    except (DeltaError, OSError) as error:
        raise StoreFailed(f"{place.table(table.name)} cannot be committed: {reason(error)}") from error
    settle(place, table.name, version)
    return version


def settle(place: Place, name: str, version: int) -> None:
    """Make a version of the log durable; a store of objects has done so when it answers."""
    step(f"{name} {version}")
    if place.local is not None:
        log = place.local / name / LOG
        sync_file(log / f"{version:020}.json")
        sync_folder(log)


def step(what: str) -> None:
    """Called after each step of a publication that a reader could see; tests end the process here."""
    del what


def reason(error: BaseException) -> str:
    """What an error of delta-rs says and why, on one line, without its colours and stack."""
    lines = [_DRAWN.sub("", line).strip() for line in str(error).splitlines()]
    text = ": ".join(line for line in lines if line and not _TRACE.match(line)) or type(error).__name__
    return text if len(text) <= REASON_CHARACTERS_MAX else f"{text[:REASON_CHARACTERS_MAX]}..."


def _values(columns: Sequence[str], cluster: str, entry: FileEntry) -> dict[str, str | None]:
    values: dict[str, str | None] = {"cluster": cluster, "log_partition": str(entry.log_partition)}
    return {name: values[name] for name in columns}
