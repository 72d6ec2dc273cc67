"""Publications of a few rows, made by hand, so that a store can be tested without a log."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from muster_pipeline.store.files import FileEntry
from muster_pipeline.store.limits import KEPT_MS
from muster_pipeline.store.place import Place, place
from muster_pipeline.store.publish import Publication, new_token, publish, targets
from muster_pipeline.store.reader import Snapshot, published
from muster_pipeline.store.writer import TableWriter
from muster_pipeline.tables.catalog import TABLES
from muster_pipeline.tables.errors import NothingPublished

ZERO: Mapping[str, Any] = {"string": "", "double": 0.0, "bool": False, "binary": b""}


def rows(table: str, count: int, **values: object) -> pa.Table:
    """Rows of a table with these values, and nothing or zero in the other columns."""
    schema = TABLES[table].schema
    row = {
        field.name: values.get(field.name, None if field.nullable else ZERO.get(str(field.type), 0))
        for field in schema
        if not pa.types.is_list(field.type)
    }
    row |= {field.name: [] for field in schema if pa.types.is_list(field.type)}
    return pa.Table.from_pylist([row] * count, schema=schema)


def before(root: Path | str | Place, cluster: str = "c") -> Snapshot | None:
    try:
        return published(root, cluster)
    except NothingPublished:
        return None


def write(where: Place, table: str, log_partition: int, cluster: str, parts: Sequence[pa.Table]) -> list[FileEntry]:
    """One file a part."""
    found: list[FileEntry] = []
    for number, part in enumerate(parts):
        writer = TableWriter(where, table, cluster, log_partition, "a", new_token(), number)
        writer.write(part)
        found += writer.close()
    return found


def run(
    root: Path | str | Place,
    mark: int,
    *,
    cluster: str = "c",
    names: Sequence[str] = ("commits", "lag"),
    now_ms: int = 0,
    kept_ms: int = KEPT_MS,
    on: Snapshot | None = None,
) -> Snapshot:
    """Publish three rows in each of the tables; their log partition is 7, and `mark` is in two columns of each."""
    where = place(root)
    known = before(where, cluster) if on is None else on
    files = [
        entry
        for name in names
        for entry in write(
            where, name, 7, cluster, [rows(name, 3, cluster=cluster, log_partition=7, **marked(name, mark))]
        )
    ]
    return publish(publication(where, known, cluster, mark, now_ms, kept_ms), targets(known, names, files, [7]))


def marked(name: str, mark: int) -> dict[str, object]:
    number = {"commits": "log_offset", "lag": "minute_ms"}[name]
    return {"group_id": str(mark), number: mark}


def publication(
    where: Place, known: Snapshot | None, cluster: str, mark: int, now_ms: int = 0, kept_ms: int = KEPT_MS
) -> Publication:
    return Publication(
        place=where, cluster=cluster, before=known, settings={"cluster": cluster}, input={"kind": "test", "mark": mark},
        now_ms=now_ms, kept_ms=kept_ms, token=new_token(),
    )  # fmt: skip


def marks(found: Snapshot) -> set[str]:
    """The marks that a reader of all tables sees, that of the run itself too."""
    from muster_pipeline.store import read

    groups = {group for name in ("commits", "lag") for group in read(name, found)["group_id"].to_pylist()}
    return {*groups, str(found.input["mark"])}
