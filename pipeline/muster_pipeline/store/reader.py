"""Reading what a run published: at the versions that its row pins, checked against the catalogue.

A renamed table is also read by its old name. A folder, a URI or a snapshot is taken alike; a snapshot always gives the
same rows, whatever is published meanwhile.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pd
import pyarrow.parquet as pq
from pyarrow import fs

from muster_pipeline.store import delta, runs
from muster_pipeline.store.files import DIGEST_DIGITS, FileEntry
from muster_pipeline.store.limits import VERSIONS_KNOWN_MAX
from muster_pipeline.store.place import Place, place
from muster_pipeline.tables.catalog import Table
from muster_pipeline.tables.catalog import table as catalog_table
from muster_pipeline.tables.errors import DamagedStore, NothingPublished

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one run published. Picklable: workers read the same versions."""

    place: Place
    cluster: str
    number: int
    at_ms: int
    versions: Mapping[str, int | None]
    """Of every table that was made; None: it has never had a row."""
    rows: Mapping[str, int]
    """Of the cluster, in every table that was made."""
    settings: Mapping[str, Any]
    input: Mapping[str, Any]
    """What the run was made of: plain JSON values."""

    @property
    def tables(self) -> frozenset[str]:
        """Names of the tables that were made, empty ones included."""
        return frozenset(self.versions)

    @property
    def made_of(self) -> Mapping[str, Any]:
        """What the run's bronze was made of; `input` itself, unless that was bronze."""
        found: Mapping[str, Any] = self.input.get("of", self.input)
        return found

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """Of all tables."""
        return tuple(entry for name in sorted(self.versions) for entry in self.of(name))

    def of(self, table: str) -> tuple[FileEntry, ...]:
        """A table's files, by log partition and order within it; its old name will do. Raises DamagedStore."""
        name = catalog_table(table).name
        version = self.versions.get(name)
        if version is None:
            return ()
        found = _files(self.place, name, version, self.cluster)
        count = sum(entry.rows for entry in found)
        if count != self.rows[name]:
            raise DamagedStore(
                f"table {name} in {self.place} has {count} rows at version {version}, {self.rows[name]} were "
                "published: its log is damaged"
            )
        return found

    def identity(self) -> str:
        """A hash of rows, settings and input, not of the time: equal for equal runs."""
        text = repr((self.cluster, sorted(self.settings.items()), sorted(self.made_of.items())))
        text += repr(sorted(entry.content for entry in self.files))
        return hashlib.sha256(text.encode()).hexdigest()


Root = Path | str | Place | Snapshot
"""Where to read: a folder or URI (what was published last), or a snapshot."""


def published(root: Root, cluster: str | None = None, run: int | None = None) -> Snapshot:
    """What the newest run published, or that run. `cluster` is needed if the folder holds several.

    Raises NothingPublished, OldFolder, RunExpired, DamagedStore, StoreFailed.
    """
    if isinstance(root, Snapshot):
        return root
    where = place(root)
    found = runs.chosen(where, cluster, run)
    return Snapshot(
        place=where, cluster=found.cluster, number=found.run, at_ms=found.at_ms, versions=found.versions,
        rows=found.rows, settings=found.settings, input=found.input,
    )  # fmt: skip


def tables(root: Root) -> frozenset[str]:
    """Names of the published tables."""
    return published(root).tables


def files(table: str, root: Root) -> list[str]:
    """A table's Parquet files in order, paths or URIs, for DuckDB, Polars or Spark. Raises as `read` does."""
    found, chosen = _published(table, root)
    return [found.place.whole(chosen.name, _whole(found, entry)) for entry in found.of(chosen.name)]


def dataset(table: str, root: Root) -> pd.Dataset:
    """A table's rows for an engine that reads columns and row groups by itself: this cluster's, of this run, and null
    where a file of an earlier release lacks a column. Raises as `read` does; files are looked for now."""
    found, chosen = _published(table, root)
    paths = [_whole(found, entry) for entry in found.of(chosen.name)]
    if not paths:
        return pd.dataset(chosen.schema.empty_table())
    return pd.dataset(paths, schema=chosen.schema, format="parquet", filesystem=found.place.files(chosen.name))


def read(
    table: str,
    root: Root,
    *,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    log_partitions: Collection[int] | None = None,
) -> pa.Table:
    """Rows of a table, by log partition and in the table's order within it; `columns` and `where` as in Parquet reads.
    A column that files of an earlier release lack is null there.

    Raises UnknownTable, NothingPublished, DamagedStore (a file is absent or of another size than published).
    """
    found, chosen = _published(table, root)
    schema = chosen.schema if columns is None else pa.schema([chosen.schema.field(name) for name in columns])
    parts = []
    for entry in found.of(chosen.name):
        if log_partitions is None or entry.log_partition in log_partitions:
            with found.place.files(chosen.name).open_input_file(_whole(found, entry)) as file:
                part = pq.read_table(
                    file, columns=None if columns is None else list(columns), filters=where, schema=chosen.schema
                )
            parts.append(part.select(schema.names).cast(schema))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def rows_in(found: Snapshot, entries: Iterable[FileEntry]) -> Iterator[pa.Table]:
    """All columns of these files' rows, a file at a time. Raises DamagedStore."""
    for entry in entries:
        schema = catalog_table(entry.table).schema
        with found.place.files(entry.table).open_input_file(_whole(found, entry)) as source:
            yield pq.read_table(source, schema=schema).cast(schema)


def damages(root: Root) -> list[str]:
    """One message for each file whose content is not what was published; empty if there is none."""
    snapshot = published(root)
    found = []
    for entry in snapshot.files:
        name = f"{entry.table}/{entry.path}"
        try:
            path = _whole(snapshot, entry)
            with snapshot.place.files(entry.table).open_input_stream(path) as file:
                digest = hashlib.sha256()
                while data := file.read(CHUNK_BYTES):
                    digest.update(data)
            if digest.hexdigest()[:DIGEST_DIGITS] != entry.digest:
                found.append(f"{name}: the content has changed")
        except DamagedStore as error:
            found.append(str(error))
    return found


class Published:
    """What a run published, read in batches, so that a report or an export need not hold a table in memory."""

    def __init__(self, root: Root) -> None:
        """Raises as `published` does."""
        self.snapshot = published(root)

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows in the table's order; nothing for a table without rows. Raises NothingPublished, DamagedStore."""
        found, chosen = _published(name, self.snapshot)
        schema = pa.schema([chosen.schema.field(one) for one in columns])
        for entry in found.of(chosen.name):
            with found.place.files(chosen.name).open_input_file(_whole(found, entry)) as source:
                file = pq.ParquetFile(source)
                present = [one for one in columns if one in file.schema_arrow.names]
                for batch in file.iter_batches(columns=present):
                    yield _filled(batch, schema)

    def rows_of(self, name: str, log_partition: int) -> Iterator[pa.Table]:
        """All columns of one log partition's rows, in order, a file at a time."""
        yield from rows_in(self.snapshot, (one for one in self.snapshot.of(name) if one.log_partition == log_partition))


def _filled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = batch.schema.names
    arrays = [
        batch.column(one.name).cast(one.type) if one.name in names else pa.nulls(batch.num_rows, one.type)
        for one in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _published(table: str, root: Root) -> tuple[Snapshot, Table]:
    chosen, found = catalog_table(table), published(root)
    if chosen.name not in found.tables:
        raise NothingPublished(f"table {chosen.name} is not published in {found.place}; make it first")
    return found, chosen


_known: OrderedDict[tuple[Place, str, int, str], tuple[FileEntry, ...]] = OrderedDict()
"""(place, table, version, cluster) -> its files; a version's never change. Tables are committed side by side."""
_lock = Lock()


def learn(where: Place, name: str, version: int, cluster: str, files: Iterable[FileEntry]) -> None:
    """A cluster's files of a version: of one that was read, or committed just now."""
    found = tuple(sorted(replace(one, statistics="") for one in files))
    with _lock:
        _known[where, name, version, cluster] = found
        _known.move_to_end((where, name, version, cluster))
        while len(_known) > VERSIONS_KNOWN_MAX:
            _known.popitem(last=False)


def forget() -> None:
    """Read every version's files anew."""
    with _lock:
        _known.clear()


def _files(where: Place, name: str, version: int, cluster: str) -> tuple[FileEntry, ...]:
    found = _known.get((where, name, version, cluster))
    if found is None:
        table = delta.opened(where, name, version)
        if table is None:
            raise DamagedStore(f"table {name} in {where} is gone")
        found = delta.live(table, name, cluster)
        learn(where, name, version, cluster, found)
    return found


def _whole(found: Snapshot, entry: FileEntry) -> str:
    """The file's path, once it is known to be there as it was published."""
    info = found.place.files(entry.table).get_file_info(entry.path)
    name = f"{entry.table}/{entry.path}"
    if info.type == fs.FileType.NotFound:
        raise DamagedStore(
            f"{name}: the file is gone; if run {found.number} is not the newest one, it may have expired while it was "
            "read: hold a run with `muster pipeline lease`"
        )
    if info.size != entry.bytes:
        raise DamagedStore(f"{name}: {info.size} bytes, {entry.bytes} were published")
    return entry.path
