"""`report`, `whatif`, `verify`: from published tables to files, text and an exit code. Without Spark."""

import hashlib
import json
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from muster_coordinator.groups.assignors.registry import ASSIGNORS
from rich.console import Console
from rich.table import Table

from muster_pipeline.cli.exits import Exit, leave, say
from muster_pipeline.report import page
from muster_pipeline.report.group_status import group_status
from muster_pipeline.report.prometheus import prometheus_text
from muster_pipeline.report.replayed import comparisons, restless
from muster_pipeline.store.durable import replace
from muster_pipeline.store.reader import Published, Root, Snapshot
from muster_pipeline.store.reader import published as what_is_published
from muster_pipeline.tables.errors import BadInput
from muster_pipeline.verify import tables as invariants
from muster_pipeline.verify.finding import INVARIANTS, Verdict
from muster_pipeline.whatif.compare import compare, skipped, summary

NAME_BYTES_MAX = 200
"""Longest file name of a group; a longer one is cut and ends in a hash."""
OWN_LINE_MAX = 2
"""The first columns, which name a row; the others are numbers, aligned to the right."""


def report(tables: Root, html: Path | None, prometheus: Path | None, status_dir: Path | None) -> None:
    """Write the requested files, each replaced as a whole. Raises TablesError, OSError."""
    if html is None and prometheus is None and status_dir is None:
        raise BadInput("nothing to write: give --html, --prometheus or --status-dir")
    found = made(tables)
    if html is not None:
        _write(html, page.render(found).encode())
    if prometheus is not None:
        _write(prometheus, prometheus_text(found))
    if status_dir is not None:
        names = groups_of(found)
        for name in names:
            _write(status_dir / status_name(name), group_status(found, name))
        say(f"{len(names)} groups in {status_dir}")


def made(tables: Root) -> page.Report:
    """The report of the published tables. Raises NothingPublished, DamagedStore."""
    published = Published(tables)
    groups, hidden = restless(published)
    return page.build(about(published.snapshot), published, comparisons(published.snapshot, groups), hidden)


def about(found: Snapshot) -> page.About:
    """The report's origin, without number and time of the run, so that equal tables give an equal report."""
    told = found.made_of
    source = "a live cluster" if told.get("kind") == "live" else f"{len(told.get('files', ()))} segment files"
    try:
        release = version("muster")
    except PackageNotFoundError:
        release = "of an unknown version"
    return page.About(cluster=found.cluster, source=source, run=found.identity()[:12], version=release)


def groups_of(found: page.Report) -> list[str]:
    """Every group that occurs in a table."""
    names: set[str] = set().union(found.lag, found.left, found.rebalances.groups, found.balance, found.calendar.states)
    return sorted(names)


def status_name(group: str) -> str:
    """A unique file name for any group name, percent-encoded so that no name leads out of the folder."""
    encoded = quote(group, safe="").replace(".", "%2E") or "%"
    if len(encoded) > NAME_BYTES_MAX:
        encoded = f"{encoded[:NAME_BYTES_MAX]}~{hashlib.sha256(group.encode()).hexdigest()[:16]}"
    return f"{encoded}.json"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, data)


def whatif(tables: Root, groups: Sequence[str] | None, assignors: Sequence[str], *, as_json: bool) -> None:
    """Assignors side by side on standard output. Raises UnknownAssignor, TablesError."""
    unknown = sorted(set(assignors) - set(ASSIGNORS))
    if unknown:
        raise BadInput(f"unknown assignor {unknown[0]}; known: {', '.join(ASSIGNORS)}")
    tables = what_is_published(tables)
    if groups is None:
        groups, hidden = restless(Published(tables))
        if hidden:
            say(f"{hidden} more groups with rebalances are left out: name them with --group")
    rows = summary(compare(tables, groups, assignors or tuple(ASSIGNORS)), skipped(tables, groups))
    if as_json:
        sys.stdout.write(json.dumps(rows.to_pylist(), indent=1, ensure_ascii=False) + "\n")
        return
    if not rows.num_rows:
        say("no classic group with a known generation")
        return
    show(rows)


def show(rows: pa.Table) -> None:
    """A table on standard output; null is shown as "unknown", not as zero."""
    table = Table(box=None, header_style="")
    for place, name in enumerate(rows.schema.names):
        table.add_column(name, justify="left" if place < OWN_LINE_MAX else "right", overflow="fold")
    for row in rows.to_pylist():
        table.add_row(*("unknown" if value is None else _text(value) for value in row.values()))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200, markup=False, highlight=False).print(table)


def _text(value: object) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def verify(tables: Root, same_as: Root | None, stream_of: Root | None) -> None:
    """I1, I2, I5, I6 and the content of files; I3 beside a second run, I4 beside a batch. Exit 4 if one is broken."""
    tables = what_is_published(tables)
    verdicts = [*invariants.check(tables)]
    if same_as is not None:
        verdicts.append(invariants.same_bytes(tables, what_is_published(same_as, tables.cluster)))
    if stream_of is not None:
        verdicts.append(invariants.same_rows(tables, what_is_published(stream_of, tables.cluster)))
    for one in verdicts:
        sys.stdout.write(f"{told(one)}\n")
        for finding in one.findings:
            sys.stdout.write(f"   {finding.where}: {finding.what}\n")
    broken = sorted({one.invariant for one in verdicts if not one.holds})
    if broken:
        leave(Exit.BROKEN, f"broken: {', '.join(broken)}")


def told(one: Verdict) -> str:
    """One line about an invariant."""
    count = len(one.findings) + one.more
    state = "ok" if one.holds else f"BROKEN at {count} places"
    return f"{one.invariant} {state}: {INVARIANTS[one.invariant]} ({one.checked:,} checked)"
