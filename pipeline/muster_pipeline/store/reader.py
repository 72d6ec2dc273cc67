"""Reading published tables: through the manifest only, checked against the catalog. A renamed table is also read by its
old name."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from muster_pipeline.store import manifest as manifests
from muster_pipeline.store.manifest import FileEntry, Manifest
from muster_pipeline.tables.catalog import table as catalog_table
from muster_pipeline.tables.errors import DamagedStore, NothingPublished


def published(root: Path | str) -> Manifest:
    """The manifest of `root`. Raises NothingPublished, DamagedStore."""
    return manifests.load(Path(root))


def tables(root: Path | str) -> frozenset[str]:
    """Names of the published tables."""
    return published(root).tables


def files(table: str, root: Path | str) -> list[Path]:
    """A table's Parquet files in order, for DuckDB, Polars or Spark. Raises as `read` does."""
    base = Path(root)
    found = published(base)
    name = catalog_table(table).name
    if name not in found.tables:
        raise NothingPublished(f"table {name} is not published in {base}; make it first")
    return [_whole(base, entry) for entry in found.of(name)]


def read(
    table: str,
    root: Path | str,
    *,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    log_partitions: Collection[int] | None = None,
) -> pa.Table:
    """Rows of a table, by log partition and in the table's order within it; `columns` and `where` as in Parquet reads.

    Raises UnknownTable, NothingPublished, DamagedStore (a file is absent or of another size than published).
    """
    base = Path(root)
    chosen = catalog_table(table)
    found = published(base)
    if chosen.name not in found.tables:
        raise NothingPublished(f"table {chosen.name} is not published in {base}; make it first")
    parts = [
        pq.read_table(_whole(base, entry), columns=columns, filters=where, partitioning=None)
        for entry in found.of(chosen.name)
        if log_partitions is None or entry.log_partition in log_partitions
    ]
    schema = chosen.schema if columns is None else pa.schema([chosen.schema.field(name) for name in columns])
    return (
        pa.concat_tables([part.select(schema.names).cast(schema) for part in parts]) if parts else schema.empty_table()
    )


def damages(root: Path | str) -> list[str]:
    """One message for each file whose content is not what was published; empty if there is none."""
    base = Path(root)
    found = []
    for entry in published(base).files:
        try:
            with _whole(base, entry).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
                    found.append(f"{entry.path}: the content has changed")
        except DamagedStore as error:
            found.append(str(error))
    return found


def _whole(base: Path, entry: FileEntry) -> Path:
    path = base / entry.path
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise DamagedStore(f"{entry.path}: the file is gone") from error
    if size != entry.bytes:
        raise DamagedStore(f"{entry.path}: {size} bytes, {entry.bytes} were published")
    return path


class Published:
    """The tables of a folder, read in batches, so that a report or an export need not hold a table in memory."""

    def __init__(self, root: Path | str) -> None:
        """Raises NothingPublished, DamagedStore."""
        self._root = Path(root)
        self.manifest = published(root)

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows in the table's order; nothing for a table without rows. Raises NothingPublished, DamagedStore."""
        chosen = catalog_table(name)
        schema = chosen.schema
        if chosen.name not in self.manifest.tables:
            raise NothingPublished(f"table {chosen.name} is not published in {self._root}; make it first")
        for entry in self.manifest.of(chosen.name):
            with pq.ParquetFile(_whole(self._root, entry)) as file:
                for batch in file.iter_batches(columns=list(columns)):
                    yield batch.select(list(columns)).cast(pa.schema([schema.field(one) for one in columns]))
