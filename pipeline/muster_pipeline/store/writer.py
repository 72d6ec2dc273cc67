"""Rows to Parquet files whose bytes depend on the rows alone.

Rows are buffered and written in groups of exactly ROW_GROUP_ROWS. A file gets its final name, which contains the hash
of its content, only when it is complete and durable. So a run that dies leaves only drafts and files that no version of
a table names. In a store of objects a file is made on this machine's disk and sent as a whole.

Numbers are delta-encoded, strings use a dictionary. Parquet's default, a dictionary for every column, hashes every
offset and time of a log although nearly all differ: twice the CPU and up to twenty times the bytes (measured).
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from muster_pipeline.store.durable import sync_folder
from muster_pipeline.store.files import FileEntry, file_name, folder, statistics
from muster_pipeline.store.limits import CLOSING_THREADS, FILE_ROWS, ROW_GROUP_ROWS
from muster_pipeline.store.place import Place
from muster_pipeline.tables.catalog import table as catalog_table

DRAFT_SUFFIX: Final = ".draft"


class TableWriter:
    """Writes one table's rows of one log partition of a cluster.

    `attempt` keeps the drafts of several attempts apart, `token` the files of several runs.
    """

    def __init__(
        self, place: Place, table: str, cluster: str, log_partition: int, attempt: str, token: str, first: int = 0
    ) -> None:
        """`first`: the place of the first file in its log partition."""
        self._place = place
        self._table = catalog_table(table)
        self._log_partition = log_partition
        self._attempt = attempt
        self._token = token
        self._first = first
        self._folder = folder(cluster, log_partition)
        self._unwritten: list[pa.Table] = []
        self._unwritten_rows = 0
        self._draft: Path | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._footer: list[Any] = []
        self._file_rows = 0
        self._done: list[FileEntry] = []

    def write(self, rows: pa.Table) -> None:
        """Rows of the table's schema, in its order."""
        if not rows.num_rows:
            return
        self._unwritten.append(rows)
        self._unwritten_rows += rows.num_rows
        if self._unwritten_rows >= ROW_GROUP_ROWS:
            joined = pa.concat_tables(self._unwritten)
            whole = joined.num_rows - joined.num_rows % ROW_GROUP_ROWS
            for start in range(0, whole, ROW_GROUP_ROWS):
                self._group(joined.slice(start, ROW_GROUP_ROWS))
            rest = joined.slice(whole)
            self._unwritten, self._unwritten_rows = ([_compact(rest)] if rest.num_rows else []), rest.num_rows

    def flush(self) -> None:
        """Write the remaining rows."""
        if self._unwritten_rows:
            rows, self._unwritten, self._unwritten_rows = pa.concat_tables(self._unwritten), [], 0
            self._group(rows)

    def close(self) -> tuple[FileEntry, ...]:
        """Write the remaining rows; returns the files, durable under their final names."""
        self.flush()
        self._end_file()
        return tuple(self._done)

    def abort(self) -> None:
        """Remove the draft."""
        if self._parquet is not None:
            self._parquet.close()
            self._parquet = None
        if self._draft is not None:
            self._draft.unlink(missing_ok=True)

    def _group(self, rows: pa.Table) -> None:
        if self._parquet is None:
            self._draft = self._drafted()
            self._footer = []
            self._parquet = pq.ParquetWriter(
                self._draft, self._table.schema, metadata_collector=self._footer, **encodings(self._table.schema)
            )
        self._parquet.write_table(_compact(rows), row_group_size=ROW_GROUP_ROWS)
        self._file_rows += rows.num_rows
        if self._file_rows >= FILE_ROWS:
            self._end_file()

    def _drafted(self) -> Path:
        name = f"{len(self._done):04}-{self._attempt}{DRAFT_SUFFIX}"
        local = self._place.local
        if local is None:
            handle, path = tempfile.mkstemp(DRAFT_SUFFIX, "muster-")
            os.close(handle)
            return Path(path)
        target = local / self._table.name / self._folder
        target.mkdir(parents=True, exist_ok=True)
        return target / name

    def _end_file(self) -> None:
        if self._parquet is None or self._draft is None:
            return
        self._parquet.close()
        with self._draft.open("rb+") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        size = self._draft.stat().st_size
        path = f"{self._folder}/{file_name(self._first + len(self._done), digest, self._token)}"
        self._give_name(self._draft, path)
        self._done.append(
            FileEntry(
                table=self._table.name,
                log_partition=self._log_partition,
                path=path,
                rows=self._file_rows,
                bytes=size,
                statistics=statistics(self._footer[0], self._table.schema),
            )
        )
        self._parquet, self._draft, self._file_rows = None, None, 0

    def _give_name(self, draft: Path, path: str) -> None:
        local = self._place.local
        if local is not None:
            final = local / self._table.name / path
            draft.replace(final)
            sync_folder(final.parent)
            return
        with draft.open("rb") as source, self._place.files(self._table.name).open_output_stream(path) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        draft.unlink()


def close_all(writers: Iterable[TableWriter]) -> tuple[FileEntry, ...]:
    """Close the writers in parallel: that is mostly waiting for the disk, which syncs several files at once. The last
    rows are encoded before, one table after the other: that is work, and takes memory."""
    writers = tuple(writers)
    for writer in writers:
        writer.flush()
    with ThreadPoolExecutor(CLOSING_THREADS) as pool:
        return tuple(entry for entries in pool.map(TableWriter.close, writers) for entry in entries)


def encodings(schema: pa.Schema) -> dict[str, Any]:
    """Settings of the Parquet writer for rows of such columns."""
    words = [field.name for field in schema if pa.types.is_string(field.type)]
    words += [f"{field.name}.list.element" for field in schema if pa.types.is_list(field.type)]
    numbers = [field.name for field in schema if field.type in (pa.int32(), pa.int64())]
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": words,
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    }


def _compact(rows: pa.Table) -> pa.Table:
    """One chunk a column."""
    return rows.combine_chunks()
