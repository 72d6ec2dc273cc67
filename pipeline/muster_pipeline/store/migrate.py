"""A folder of release 0.1 becomes Delta tables: `manifest.json` named its Parquet files.

The files themselves stay as they are; they get a second name in their table's folder (a copy where the file system has
no hard links). The manifest is renamed when the tables are published. A migration that dies is simply run again.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from muster_pipeline.store import runs
from muster_pipeline.store.durable import sync_folder
from muster_pipeline.store.files import FileEntry, file_name, folder, statistics
from muster_pipeline.store.limits import KEPT_MS
from muster_pipeline.store.place import Place
from muster_pipeline.store.publish import Publication, publish, writing
from muster_pipeline.store.reader import Snapshot, published
from muster_pipeline.tables.catalog import TABLES, current
from muster_pipeline.tables.errors import BadInput, DamagedStore, NothingPublished

FORMAT: Final = 1
MIGRATED: Final = "manifest.json.migrated"


def migrate(place: Place, now_ms: int, token: str) -> Snapshot:
    """Publish the old tables; returns the snapshot. Raises NothingPublished, BadInput, DamagedStore, StoreBusy."""
    root = place.local
    if root is None:
        raise BadInput(f"{place}: tables of release 0.1 are in a folder of this machine")
    manifest = root / runs.OLD_MANIFEST
    try:
        told = json.loads(manifest.read_bytes())
        run, tables = told["run"], told["tables"]
        cluster = str(run["settings"]["cluster"])
        if told["format"] != FORMAT:
            raise DamagedStore(f"{manifest} is of format {told['format']}, this release reads {FORMAT}")
    except FileNotFoundError as error:
        raise NothingPublished(f"there is no {runs.OLD_MANIFEST} in {place}: nothing to migrate") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedStore(f"{manifest} cannot be read: {error!r}") from error
    with writing(place, cluster):
        ledger = runs.load(place)
        if ledger is not None and ledger.last(cluster) is not None:
            snapshot = published(place, cluster)  # all but the manifest's new name was done
        else:
            wanted = _linked(place, root, cluster, tables, token)
            snapshot = publish(
                Publication(
                    place=place, cluster=cluster, before=None, settings=run["settings"], input=run["input"],
                    now_ms=now_ms, kept_ms=KEPT_MS, token=token,
                ),
                wanted,
            )  # fmt: skip
        manifest.rename(root / MIGRATED)
        sync_folder(root)
    return snapshot


def _linked(
    place: Place, root: Path, cluster: str, tables: Mapping[str, Any], token: str
) -> dict[str, tuple[FileEntry, ...]]:
    unknown = sorted(one for one in tables if current(one) not in TABLES)
    if unknown:
        raise BadInput(f"the manifest has table {unknown[0]}, which this release does not know")
    wanted: dict[str, tuple[FileEntry, ...]] = {}
    for stored_as, told in tables.items():
        name = current(stored_as)
        files = sorted(told["files"], key=lambda one: (one["log_partition"], one["path"]))
        places: dict[int, int] = {}
        entries = []
        for one in files:
            number = places.setdefault(one["log_partition"], 0)
            places[one["log_partition"]] += 1
            entries.append(_link(root, name, cluster, one, number, token))
        wanted[name] = tuple(sorted(entries))
    return wanted


def _link(root: Path, name: str, cluster: str, told: Mapping[str, Any], number: int, token: str) -> FileEntry:
    source = root / told["path"]
    try:
        size, metadata = source.stat().st_size, pq.read_metadata(source)
    except (OSError, pa.ArrowInvalid) as error:
        raise DamagedStore(f"{told['path']} cannot be read: {error}") from error
    if size != told["bytes"]:
        raise DamagedStore(f"{told['path']}: {size} bytes, {told['bytes']} were published")
    schema, known = TABLES[name].schema, metadata.schema.to_arrow_schema()
    for field in known:
        if field.name in schema.names and schema.field(field.name).type != field.type:
            raise BadInput(f"column {field.name} of {told['path']} is {field.type}: make the tables again")
    path = f"{folder(cluster, told['log_partition'])}/{file_name(number, told['sha256'], token)}"
    target = root / name / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
    sync_folder(target.parent)
    return FileEntry(
        table=name, log_partition=told["log_partition"], path=path, rows=told["rows"], bytes=size,
        statistics=statistics(metadata, schema),
    )  # fmt: skip
