"""The manifest: the list of files of which the tables consist.

One JSON file, replaced as a whole (write, fsync, rename, fsync of the folder). A reader sees the old tables or the new
ones, never a mixture; it ignores files that the manifest does not name. The manifest holds no time and no host, so
equal input gives equal bytes. It also holds what a run depended on: settings and inputs.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from muster_pipeline.tables.catalog import TABLES, current
from muster_pipeline.tables.errors import DamagedStore, NothingPublished

FORMAT: Final = 1
NAME: Final = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FileEntry:
    """One data file. `table` is its name of today, whatever the file calls it; `path` is relative to the root, with
    slashes."""

    table: str
    log_partition: int
    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is published. `tables`: names of the tables that were made, empty ones included."""

    tables: frozenset[str]
    files: tuple[FileEntry, ...]
    run: Mapping[str, Any] = field(default_factory=dict)
    """Settings and inputs of the runs that made the tables: plain JSON values."""

    def of(self, table: str) -> tuple[FileEntry, ...]:
        """A table's files, by log partition and order within it. `table` may be its old name."""
        name = current(table)
        return tuple(entry for entry in self.files if entry.table == name)

    def with_partitions(
        self, made: Iterable[str], files: Iterable[FileEntry], log_partitions: Iterable[int], run: Mapping[str, Any]
    ) -> "Manifest":
        """A manifest in which `files` replace these log partitions of the tables `made`; all other files stay."""
        names, replaced = frozenset(map(current, made)), frozenset(log_partitions)
        kept = [one for one in self.files if one.table not in names or one.log_partition not in replaced]
        return Manifest(tables=self.tables | names, files=tuple(sorted([*kept, *files])), run={**self.run, **run})


EMPTY: Final = Manifest(tables=frozenset(), files=())


def fingerprint(schema: pa.Schema) -> str:
    """A hash of names, types and nullability. Comments are left out, so that a new comment keeps tables readable."""
    text = "\n".join(f"{one.name} {one.type} {one.nullable}" for one in schema)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode(manifest: Manifest) -> bytes:
    """The file's bytes. Raises DamagedStore for tables of which this release does not know the columns."""
    unknown = sorted(manifest.tables - TABLES.keys())
    if unknown:
        raise DamagedStore(f"the manifest names {', '.join(unknown)}, of which this release does not know the columns")
    tables = {
        TABLES[name].stored_as: {
            "schema": fingerprint(TABLES[name].schema),
            "rows": sum(entry.rows for entry in manifest.of(name)),
            "files": [_without_table(entry) for entry in sorted(manifest.of(name))],
        }
        for name in sorted(manifest.tables)
    }
    body = {"format": FORMAT, "run": dict(manifest.run), "tables": tables}
    return (json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def decode(data: bytes) -> Manifest:
    """Raises DamagedStore."""
    try:
        body = json.loads(data)
        if body["format"] != FORMAT:
            raise DamagedStore(f"manifest of format {body['format']}, this release reads {FORMAT}")
        files: list[FileEntry] = []
        names: set[str] = set()
        for stored_as, entry in body["tables"].items():
            name = current(stored_as)
            if name in names:
                raise DamagedStore(f"the manifest has table {name} twice, once under its old name")
            names.add(name)
            if name in TABLES and entry["schema"] != fingerprint(TABLES[name].schema):
                raise DamagedStore(f"table {name} was written with other columns: make it again with this release")
            files += [FileEntry(table=name, **one) for one in entry["files"]]
        return Manifest(tables=frozenset(names), files=tuple(sorted(files)), run=body["run"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedStore(f"the manifest cannot be read: {error!r}") from error


def load(root: Path) -> Manifest:
    """What is published under `root`. Raises NothingPublished, DamagedStore."""
    try:
        return decode((root / NAME).read_bytes())
    except FileNotFoundError as error:
        raise NothingPublished(f"nothing is published in {root}: there is no {NAME}") from error


def publish(root: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically and durably. Precondition: the files that it names are durable."""
    replace(root / NAME, encode(manifest))


def replace(path: Path, data: bytes) -> None:
    """Replace a file's content. It has the old content or the new one at any time, also after a power loss."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in it durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _without_table(entry: FileEntry) -> dict[str, Any]:
    return {name: value for name, value in asdict(entry).items() if name != "table"}
