"""Table `runs`: what was published when, as events. It is committed last, and what it does not name is not published.

A run's row pins the version of every table, so that a reader gets one snapshot across tables. It also holds what the
run was made of, the stream's place among it: tables and place cannot come apart. Later rows say that a run is expired,
or that a reader holds it. Rows are never changed. A commit replaces the newest file by a longer one, so that a hundred
thousand runs are few files.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from muster_pipeline.schemas.runs import RUNS
from muster_pipeline.store import delta
from muster_pipeline.store.files import FileEntry
from muster_pipeline.store.limits import NO_LOG_PARTITION, RUNS_FILE_BYTES_MAX
from muster_pipeline.store.place import Place
from muster_pipeline.store.writer import TableWriter
from muster_pipeline.tables.catalog import RUNS_TABLE, TABLES
from muster_pipeline.tables.errors import (
    DamagedStore,
    FateUnknown,
    NothingPublished,
    OldFolder,
    RunExpired,
    StoreFailed,
    TablesError,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

PUBLISHED: Final = "published"
EXPIRED: Final = "expired"
LEASED: Final = "leased"
RELEASED: Final = "released"
OLD_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row. Versions, settings and input are of a publication only."""

    cluster: str
    run: int
    event: str
    at_ms: int
    until_ms: int | None = None
    holder: str | None = None
    versions: Mapping[str, int | None] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    input: Mapping[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """As the table stores it."""
        told = asdict(self)
        for name in ("versions", "rows", "settings", "input"):
            told[name] = json.dumps(told[name], sort_keys=True, ensure_ascii=False) if told[name] else None
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Table `runs` at one version, all clusters."""

    table: "DeltaTable"
    events: tuple[Event, ...]

    def clusters(self) -> list[str]:
        """Every cluster that has published."""
        return sorted({one.cluster for one in self.events})

    def published(self, cluster: str | None = None) -> list[Event]:
        """Publications, oldest first; of one cluster or of all."""
        chosen = (one for one in self.events if one.event == PUBLISHED and cluster in (None, one.cluster))
        return sorted(chosen, key=lambda one: one.run)

    def last(self, cluster: str) -> Event | None:
        """A cluster's newest publication."""
        found = self.published(cluster)
        return found[-1] if found else None

    def expired(self) -> frozenset[int]:
        """Runs that are marked as expired."""
        return frozenset(one.run for one in self.events if one.event == EXPIRED)

    def leases(self, now_ms: int) -> list[Event]:
        """Leases that hold, the longest of each holder and run."""
        found: dict[tuple[int, str | None], Event] = {}
        for one in sorted(self.events, key=lambda one: one.at_ms):
            if one.event == LEASED:
                found[one.run, one.holder] = one
            elif one.event == RELEASED:
                found.pop((one.run, one.holder), None)
        return [one for one in found.values() if (one.until_ms or 0) > now_ms]

    def next_run(self) -> int:
        """A number that no run has, in any cluster."""
        return max((one.run for one in self.events), default=0) + 1


def load(place: Place) -> Ledger | None:
    """None if nothing was ever published. Raises DamagedStore, StoreFailed."""
    found = delta.opened(place, RUNS_TABLE)
    if found is None:
        return None
    names = sorted(set(pa.table(found.get_add_actions(flatten=True))["path"].to_pylist()))
    return Ledger(table=found, events=tuple(event for name in names for event in _events(place, name)))


def chosen(place: Place, cluster: str | None, run: int | None) -> Event:
    """The publication to read: the newest one, or the one of that number. Raises NothingPublished, OldFolder,
    RunExpired, DamagedStore."""
    ledger = load(place)
    if ledger is None or not ledger.published():
        if place.local is not None and (place.local / OLD_MANIFEST).exists():
            raise OldFolder(
                f"the tables in {place} are of release 0.1: bring them along with `muster pipeline migrate "
                f"--tables {place}`"
            )
        raise NothingPublished(f"nothing is published in {place}: there is no run")
    if run is not None:
        return _numbered(place, ledger, cluster, run)
    known = ledger.clusters()
    if cluster is None and len(known) > 1:
        raise NothingPublished(f"{place} holds the clusters {', '.join(known)}: name one with --cluster")
    last = ledger.last(known[0] if cluster is None else cluster)
    if last is None:
        raise NothingPublished(f"nothing is published of cluster {cluster} in {place}; there is {', '.join(known)}")
    return last


def append(place: Place, found: "DeltaTable", events: Sequence[Event], token: str, now_ms: int) -> None:
    """Commit events of one cluster on top of the version that was read.

    A store may have committed and lost its answer; asked again by delta-rs, it says that the version exists. So the
    events themselves are looked for before anything is said. Raises delta.Overtaken (they are not there), FateUnknown.
    """
    cluster = events[0].cluster
    mine = delta.live(found, RUNS_TABLE, cluster)
    tail = mine[-1] if mine and mine[-1].bytes < RUNS_FILE_BYTES_MAX else None
    first = 0 if not mine else mine[-1].number if tail is not None else mine[-1].number + 1
    rows = pa.Table.from_pylist([one.row() for one in events], schema=RUNS)
    if tail is not None:
        rows = pa.concat_tables([_rows(place, tail.path), rows])
    writer = TableWriter(place, RUNS_TABLE, cluster, NO_LOG_PARTITION, token, token, first)
    writer.write(rows)
    written: tuple[FileEntry, ...] = writer.close()
    delta.step("row written")
    try:
        delta.commit(place, found, TABLES[RUNS_TABLE], cluster, [tail] if tail else [], written, now_ms)
    except delta.Overtaken:
        if not _hold(place, events):
            raise
    except StoreFailed as error:
        if not _held_for_sure(place, events):
            raise FateUnknown(
                f"{error}; it is not known whether the store has made this commit: `muster pipeline runs --tables "
                f"{place}` shows what is published"
            ) from error


def _hold(place: Place, events: Sequence[Event]) -> bool:
    """Are these events in the table? A publication's versions are its own, so no other run has an equal one."""
    ledger = load(place)
    known = [] if ledger is None else [one.row() for one in ledger.events]
    return all(one.row() in known for one in events)


def _held_for_sure(place: Place, events: Sequence[Event]) -> bool:
    try:
        return _hold(place, events)
    except TablesError:
        return False


def when(ms: int) -> str:
    """A time for people."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _numbered(place: Place, ledger: Ledger, cluster: str | None, run: int) -> Event:
    found = next((one for one in ledger.published() if one.run == run), None)
    if found is None or cluster not in (None, found.cluster):
        raise NothingPublished(f"there is no run {run} in {place}; `muster pipeline runs` lists them")
    gone = ledger.expired()
    if run in gone:
        marked = next(one for one in ledger.events if one.event == EXPIRED and one.run == run)
        kept = [one.run for one in ledger.published(found.cluster) if one.run not in gone]
        raise RunExpired(
            f"run {run} of cluster {found.cluster} expired at {when(marked.at_ms)}: its files may be gone; the oldest "
            f"run that is kept is {kept[0]}"
        )
    return found


def _rows(place: Place, path: str) -> pa.Table:
    try:
        with place.files(RUNS_TABLE).open_input_file(path) as file:
            return pq.read_table(file, schema=RUNS)
    except (OSError, pa.ArrowInvalid) as error:
        text = f"{place.whole(RUNS_TABLE, path)} cannot be read: {delta.reason(error)}"
        if place.local is None and isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise StoreFailed(text) from error
        raise DamagedStore(text) from error


def _events(place: Place, path: str) -> Iterable[Event]:
    for row in _rows(place, path).to_pylist():
        told = {name: json.loads(row[name]) if row[name] else {} for name in ("versions", "rows", "settings", "input")}
        yield Event(**{**row, **told})
