"""Which files are kept, and the removal of the others; leases of readers.

A run pins its versions until the time in its row; the newest run of a cluster, which is a stream's checkpoint, pins
them for ever; so does a lease while it holds. A run that is pinned no more is marked in `runs` first, so that a reader
is told, then its files go. delta-rs removes them: it keeps what the newest version and the pinned ones name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyarrow import fs

from muster_pipeline.store import delta, runs
from muster_pipeline.store.limits import COMMIT_TRIES_MAX, ORPHANS_KEPT_HOURS
from muster_pipeline.store.place import Place
from muster_pipeline.store.runs import EXPIRED, LEASED, RELEASED, Event, Ledger
from muster_pipeline.tables.catalog import RUNS_TABLE, TABLES
from muster_pipeline.tables.errors import BadInput, NothingPublished, StoreBusy

_REPLACED_KEPT_HOURS: Final = 1
"""How long replaced files stay, though nothing pins them: those of `runs`, because a reader may have listed them,
and in a store of objects all: of two runs of one cluster, which no lock keeps apart there, the second may have replaced
what the first is about to publish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuumed:
    """What was removed, or would be."""

    expired: tuple[int, ...]
    files: int
    log_files: int


def broken(ledger: Ledger, now_ms: int, older_than_ms: int | None) -> list[str]:
    """One line for each run or lease that still holds and would not if runs were kept for `older_than_ms` only."""
    if older_than_ms is None:
        return []
    gone = {one.run for one in unpinned(ledger, now_ms, older_than_ms)}
    lines = [
        f"run {one.run} of cluster {one.cluster} is kept until {runs.when(one.until_ms or 0)}"
        for one in ledger.published()
        if one.run in gone and (one.until_ms or 0) > now_ms
    ]
    lines += [
        f"run {one.run} is held by {one.holder} until {runs.when(one.until_ms or 0)}"
        for one in ledger.leases(now_ms)
        if one.run in gone
    ]
    return lines


def unpinned(ledger: Ledger, now_ms: int, older_than_ms: int | None = None) -> list[Event]:
    """Runs that nothing pins and that are not marked yet. `older_than_ms`: instead of the time in their rows, and over
    leases."""
    newest = {one.run for cluster in ledger.clusters() if (one := ledger.last(cluster)) is not None}
    held = set() if older_than_ms is not None else {one.run for one in ledger.leases(now_ms)}
    marked = ledger.expired()
    return [
        one
        for one in ledger.published()
        if one.run not in newest | held | marked
        and ((one.until_ms or 0) <= now_ms if older_than_ms is None else one.at_ms + older_than_ms <= now_ms)
    ]


def vacuum(
    place: Place, now_ms: int, token: str, *, older_than_ms: int | None = None, force: bool = False, dry: bool = False
) -> Vacuumed:
    """Remove what nothing pins. Raises NothingPublished, StoreBusy, and BadInput if it needs `force`."""
    ledger = _expire(place, now_ms, token, older_than_ms, force=force, dry=dry)
    gone = {one.run for one in unpinned(ledger, now_ms, older_than_ms)} if dry else set()
    kept = [one for one in ledger.published() if one.run not in ledger.expired() | gone]
    removed, logs = 0, 0
    for name in TABLES:
        found = delta.opened(place, name)
        if found is None:
            continue
        pinned = sorted({version for one in kept if (version := one.versions.get(name)) is not None})
        hours = _REPLACED_KEPT_HOURS if name == RUNS_TABLE or place.local is None else 0
        told = found.vacuum(
            hours, dry_run=dry, enforce_retention_duration=False, keep_versions=pinned or None,
        )  # fmt: skip
        if not dry:
            told = [*told, *found.vacuum(ORPHANS_KEPT_HOURS, dry_run=False, enforce_retention_duration=False, full=True,
                                         keep_versions=pinned or None)]  # fmt: skip
            logs += _clean_log(place, name, pinned[0] if pinned else found.version())
        removed += len(told)
    expired = (
        sorted(gone) if dry else [one.run for one in ledger.events if one.event == EXPIRED and one.at_ms == now_ms]
    )
    return Vacuumed(expired=tuple(expired), files=removed, log_files=logs)


def lease(
    place: Place, run: int | None, cluster: str | None, holder: str, until_ms: int, now_ms: int, token: str
) -> int:
    """Hold a run, the newest one by default; returns its number. Raises NothingPublished, RunExpired, StoreBusy."""
    found = runs.chosen(place, cluster, run)
    event = Event(cluster=found.cluster, run=found.run, event=LEASED, at_ms=now_ms, until_ms=until_ms, holder=holder)

    def events(ledger: Ledger) -> list[Event]:
        runs.chosen(place, found.cluster, found.run)  # it may have expired meanwhile
        return [event]

    _append(place, events, token, now_ms)
    return found.run


def release(place: Place, run: int, holder: str, now_ms: int, token: str) -> None:
    """End a lease. Raises NothingPublished, BadInput if there is none, StoreBusy."""

    def events(ledger: Ledger) -> list[Event]:
        held = [one for one in ledger.leases(now_ms) if (one.run, one.holder) == (run, holder)]
        if not held:
            raise BadInput(f"{holder} does not hold run {run} in {place}")
        return [Event(cluster=held[0].cluster, run=run, event=RELEASED, at_ms=now_ms, holder=holder)]

    _append(place, events, token, now_ms)


def _expire(place: Place, now_ms: int, token: str, older_than_ms: int | None, *, force: bool, dry: bool) -> Ledger:
    def allowed(ledger: Ledger) -> list[Event]:
        breaks = broken(ledger, now_ms, older_than_ms)
        if breaks and not force:
            raise BadInput(f"--force is needed, for this would break: {'; '.join(breaks)}")
        return unpinned(ledger, now_ms, older_than_ms)

    def marks(ledger: Ledger) -> list[Event]:
        return [Event(cluster=one.cluster, run=one.run, event=EXPIRED, at_ms=now_ms) for one in allowed(ledger)]

    if dry:
        found = _ledger(place)
        allowed(found)
        return found
    return _append(place, marks, token, now_ms)


def _append(place: Place, events: Callable[[Ledger], list[Event]], token: str, now_ms: int) -> Ledger:
    """Append what `events` makes of the ledger, cluster by cluster; returns the ledger afterwards."""
    overtaken = 0
    while overtaken < COMMIT_TRIES_MAX:
        ledger = _ledger(place)
        new = events(ledger)
        if not new:
            return ledger
        first = [one for one in new if one.cluster == new[0].cluster]
        try:
            runs.append(place, ledger.table, first, token, now_ms)
        except delta.Overtaken:
            overtaken += 1
            continue
        if len(first) == len(new):
            return _ledger(place)
    raise StoreBusy(f"{place} was written by others {COMMIT_TRIES_MAX} times in a row: try again")


def _ledger(place: Place) -> Ledger:
    found = runs.load(place)
    if found is None:
        raise NothingPublished(f"nothing is published in {place}")
    return found


def _clean_log(place: Place, name: str, oldest: int) -> int:
    """Remove the log before the newest checkpoint that is not behind the oldest version that is pinned."""
    system = place.files(name)
    found = system.get_file_info(fs.FileSelector(delta.LOG, allow_not_found=True))
    numbers: dict[str, int] = {}
    for info in found:
        number = info.base_name.partition(".")[0]
        if info.type == fs.FileType.File and number.isdigit():
            numbers[info.path] = int(number)
    checkpoints = [at for path, at in numbers.items() if ".checkpoint" in path and at <= oldest]
    if not checkpoints:
        return 0
    due = [path for path, at in numbers.items() if at < max(checkpoints)]
    for path in due:
        system.delete_file(path)
    return len(due)
