"""Publication: what executors wrote is looked at, each table gets its next version, and `runs` names them all, last.

A reader sees the run before or this one, whenever the process ends: versions that no row of `runs` names are read by
nobody. The next run of the cluster brings each table to what it wants, whatever a dead run left there. Runs of several
clusters may publish into one folder at the same time: each touches only files of its own cluster, and whoever is
overtaken commits again on top. Of two runs of one cluster, the second to finish publishes nothing.
"""

import fcntl
import os
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from muster_pipeline.store import delta, exclusion, runs
from muster_pipeline.store.files import FileEntry, slug
from muster_pipeline.store.limits import COMMIT_TRIES_MAX, STORE_THREADS
from muster_pipeline.store.place import Place
from muster_pipeline.store.reader import Snapshot, learn
from muster_pipeline.store.runs import PUBLISHED, Event
from muster_pipeline.tables.catalog import RUNS_TABLE, TABLES, current
from muster_pipeline.tables.errors import NotShared, StoreBusy

Targets = Mapping[str, tuple[FileEntry, ...]]
"""Table -> all files that it is to have, of one cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Everything about a run but its files."""

    place: Place
    cluster: str
    before: Snapshot | None
    """What the run was built on; None: nothing of the cluster was published."""
    settings: Mapping[str, Any]
    input: Mapping[str, Any]
    now_ms: int
    kept_ms: int
    token: str


def new_token() -> str:
    """For the names of a run's files."""
    return uuid.uuid4().hex[:8]


@contextmanager
def writing(place: Place, cluster: str) -> Iterator[None]:
    """Hold the cluster's writer lock of a local folder. The kernel releases it when the process ends, even if killed.

    In a store of objects there is none: two runs exclude each other when they publish, as the store is asked to show
    first. Raises StoreBusy, NotExclusive, StoreFailed.
    """
    local = place.local
    if local is None:
        exclusion.check(place, new_token())
        yield
        return
    local.mkdir(parents=True, exist_ok=True)
    handle = os.open(local / f".lock-{slug(cluster)}", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreBusy(f"another run of cluster {cluster} writes into {place}") from error
        yield
    finally:
        os.close(handle)


def targets(
    before: Snapshot | None, made: Iterable[str], files: Iterable[FileEntry], log_partitions: Collection[int]
) -> dict[str, tuple[FileEntry, ...]]:
    """The tables in which `files` replace these log partitions of the tables `made`; all other files stay."""
    found = {} if before is None else {name: before.of(name) for name in before.tables}
    written = list(files)
    for name in map(current, made):
        kept = [one for one in found.get(name, ()) if one.log_partition not in log_partitions]
        found[name] = tuple(sorted([*kept, *(one for one in written if one.table == name)]))
    return found


def keeping_equal(place: Place, before: Snapshot | None, wanted: Targets) -> dict[str, tuple[FileEntry, ...]]:
    """The tables with published files in place of new ones of equal content, which are removed."""
    if before is None:
        return dict(wanted)
    found = {}
    for name, entries in wanted.items():
        known = {one.content: one for one in before.of(name)}
        found[name] = tuple(known.get(one.content, one) for one in entries)
        for mine, kept in zip(entries, found[name], strict=True):
            if mine.path != kept.path:
                place.files(name).delete_file(mine.path)
    return found


def publish(run: Publication, wanted: Targets) -> Snapshot:
    """Publish; returns what a reader sees from now on.

    Raises NotShared, StoreBusy, StoreFailed, BadInput, DamagedStore; readers see what was published before then. Raises
    FateUnknown if they may see this run, because the store did not answer the last commit.
    """
    known = set() if run.before is None else {(one.table, one.path) for one in run.before.files}
    new = [one for entries in wanted.values() for one in entries if (one.table, one.path) not in known]
    with ThreadPoolExecutor(STORE_THREADS) as pool:
        list(pool.map(lambda one: check_readable(run.place, one), new))
        delta.step("files checked")
        names = sorted(wanted)
        versions = dict(zip(names, pool.map(lambda name: _commit(run, name, wanted[name]), names), strict=True))
    delta.step("tables committed")
    rows = {name: sum(one.rows for one in entries) for name, entries in wanted.items()}
    event = _record(run, versions, rows)
    delta.step("published")
    for name, version in versions.items():
        if version is not None:
            learn(run.place, name, version, run.cluster, wanted[name])
    return Snapshot(
        place=run.place, cluster=run.cluster, number=event.run, at_ms=event.at_ms, versions=versions,
        rows=rows, settings=run.settings, input=run.input,
    )  # fmt: skip


def check_readable(place: Place, entry: FileEntry) -> None:
    """The driver sees the file that an executor wrote, whole. Raises NotShared."""
    name = place.whole(entry.table, entry.path)
    try:
        with place.files(entry.table).open_input_file(entry.path) as file:
            size, rows = file.size(), pq.read_metadata(file).num_rows
    except (OSError, pa.ArrowInvalid) as error:
        raise NotShared(
            f"{name} was written by an executor and cannot be read here ({delta.reason(error)}): the folder of "
            "tables must be one that driver and executors share, or a store of objects such as s3a://bucket/tables; "
            "nothing was published"
        ) from error
    if (size, rows) != (entry.bytes, entry.rows):
        raise NotShared(
            f"{name} has {size} bytes and {rows} rows, an executor wrote {entry.bytes} and {entry.rows}: another file "
            "is seen here; nothing was published"
        )


def _commit(run: Publication, name: str, wanted: tuple[FileEntry, ...]) -> int | None:
    """Bring a table to `wanted`; returns the version at which it is that."""
    known = _unchanged(run, name, wanted)
    if known is not None:
        return known
    table = TABLES[name]
    for _ in range(COMMIT_TRIES_MAX):
        if not wanted and delta.opened(run.place, name) is None:
            return None
        try:
            found = delta.made(run.place, table)
            head = {one.path: one for one in delta.live(found, name, run.cluster)}
            paths = {one.path for one in wanted}
            removed = [one for path, one in head.items() if path not in paths]
            added = [one for one in wanted if one.path not in head]
            if not removed and not added:
                return int(found.version())
            return delta.commit(run.place, found, table, run.cluster, removed, added, run.now_ms)
        except delta.Overtaken:
            continue
    raise StoreBusy(
        f"table {name} in {run.place} was changed by others {COMMIT_TRIES_MAX} times in a row: run it again"
    )


def _unchanged(run: Publication, name: str, wanted: tuple[FileEntry, ...]) -> int | None:
    """The version of the run before, if it is what is wanted and nobody has made a later one: a dead run, or a run of
    another cluster."""
    version = None if run.before is None else run.before.versions.get(name)
    if run.before is None or version is None or run.before.of(name) != wanted:
        return None
    return version if delta.is_newest(run.place, name, version) else None


def _record(run: Publication, versions: Mapping[str, int | None], rows: Mapping[str, int]) -> Event:
    base = None if run.before is None else run.before.number
    for _ in range(COMMIT_TRIES_MAX):
        ledger = runs.load(run.place)
        last = None if ledger is None else ledger.last(run.cluster)
        if (None if last is None else last.run) != base:
            raise StoreBusy(
                f"another run of cluster {run.cluster} has published into {run.place} since this one began; nothing of "
                "this one is published"
            )
        event = Event(
            cluster=run.cluster, run=1 if ledger is None else ledger.next_run(), event=PUBLISHED, at_ms=run.now_ms,
            until_ms=run.now_ms + run.kept_ms, versions=versions, rows=rows, settings=run.settings, input=run.input,
        )  # fmt: skip
        try:
            found = delta.made(run.place, TABLES[RUNS_TABLE])
            if ledger is not None and found.version() != ledger.table.version():
                continue
            if ledger is None and found.version() > 0:
                continue
            runs.append(run.place, found, [event], run.token, run.now_ms)
            return event
        except delta.Overtaken:
            continue
    raise StoreBusy(f"{run.place} was written by others {COMMIT_TRIES_MAX} times in a row: run it again")
