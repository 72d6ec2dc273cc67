"""`runs`, `files`, `lease`, `vacuum`, `optimize`, `migrate`: the tables as a store. Without Spark."""

import json
import sys
from pathlib import Path
from typing import Any, Final

from muster_pipeline.cli.exits import say
from muster_pipeline.job.build import now_ms
from muster_pipeline.store import reader, runs
from muster_pipeline.store import vacuum as vacuums
from muster_pipeline.store.migrate import migrate as migrated
from muster_pipeline.store.optimize import optimize as optimized
from muster_pipeline.store.place import place
from muster_pipeline.store.publish import new_token
from muster_pipeline.tables.errors import NothingPublished

HOUR_MS: Final = 3_600_000


def show_runs(tables: str, *, as_json: bool) -> None:
    """One line for each run, oldest first. Raises NothingPublished."""
    ledger = runs.load(place(tables))
    if ledger is None:
        raise NothingPublished(f"nothing is published in {tables}")
    now, gone = now_ms(), ledger.expired()
    holders: dict[int, list[str]] = {}
    for one in ledger.leases(now):
        holders.setdefault(one.run, []).append(str(one.holder))
    rows: list[dict[str, Any]] = [
        {
            "run": one.run, "cluster": one.cluster, "at": runs.when(one.at_ms), "is_expired": one.run in gone,
            "kept_until": runs.when(one.until_ms or 0), "holders": holders.get(one.run, []),
            "input": one.input.get("kind"), "versions": dict(one.versions),
        }
        for one in ledger.published()
    ]  # fmt: skip
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        return
    for row in rows:
        state = "expired" if row["is_expired"] else f"kept until {row['kept_until']}"
        held = f", held by {', '.join(row['holders'])}" if row["holders"] else ""
        sys.stdout.write(f"run {row['run']}  {row['cluster']}  {row['at']}  from {row['input']}  {state}{held}\n")


def show_files(table: str, tables: str, cluster: str | None, run: int | None) -> None:
    """Paths or URIs of a table's Parquet files, one a line."""
    for name in reader.files(table, reader.published(tables, cluster, run)):
        sys.stdout.write(f"{name}\n")


def lease(tables: str, run: int | None, cluster: str | None, holder: str, hours: float, *, release: bool) -> None:
    """Hold a run, or hold it no more."""
    where, now = place(tables), now_ms()
    if release:
        number = reader.published(tables, cluster).number if run is None else run
        vacuums.release(where, number, holder, now, new_token())
        say(f"run {number} is held by {holder} no more")
        return
    until = now + int(hours * HOUR_MS)
    number = vacuums.lease(where, run, cluster, holder, until, now, new_token())
    say(f"run {number} is held by {holder} until {runs.when(until)}")
    sys.stdout.write(f"{number}\n")


def vacuum(tables: str, older_than_hours: float | None, *, force: bool, dry_run: bool) -> None:
    """Remove what nothing pins."""
    older = None if older_than_hours is None else int(older_than_hours * HOUR_MS)
    done = vacuums.vacuum(place(tables), now_ms(), new_token(), older_than_ms=older, force=force, dry=dry_run)
    named = ", ".join(map(str, done.expired)) or "none"
    say(f"{'would expire' if dry_run else 'expired'} runs: {named}; {done.files} files and {done.log_files} of the log")


def optimize(tables: str, cluster: str | None) -> None:
    """Merge small files."""
    found, fewer = optimized(reader.published(tables, cluster), now_ms(), new_token())
    say(f"{fewer} files fewer, published as run {found.number}" if fewer else "no file to merge")


def migrate(tables: str) -> None:
    """Bring a folder of an earlier release along."""
    found = migrated(place(tables), now_ms(), new_token())
    rest = Path(tables) / "data"
    say(
        f"the tables of cluster {found.cluster} are Delta tables now, run {found.number}; {rest} is not needed any more"
    )
