"""`report`, `whatif`, `verify`: from published tables to files, text and an exit code. Without Spark."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from urllib.parse import quote

import pyarrow as pa
from muster_coordinator.groups.assignors.registry import ASSIGNORS
from rich.console import Console
from rich.table import Table

from muster_pipeline.cli.exits import Exit, leave, say
from muster_pipeline.report import page
from muster_pipeline.report.group_page import build_group, by_group, render_group
from muster_pipeline.report.group_status import group_status
from muster_pipeline.report.owners import owners
from muster_pipeline.report.peer_names import BY_DEFAULT, Peer
from muster_pipeline.report.prometheus import exported, prometheus_text
from muster_pipeline.report.replayed import comparisons, restless
from muster_pipeline.store import runs
from muster_pipeline.store.durable import replace
from muster_pipeline.store.limits import ROUND_KEPT_MS
from muster_pipeline.store.reader import Published, Root, Snapshot
from muster_pipeline.store.reader import published as what_is_published
from muster_pipeline.tables.errors import BadInput
from muster_pipeline.verify import tables as invariants
from muster_pipeline.verify.finding import INVARIANTS, Verdict
from muster_pipeline.whatif.compare import compare, skipped, summary

NAME_BYTES_MAX = 200
"""Longest file name of a group; a longer one is cut and ends in a hash."""
PAGES_A_SCAN = 50
"""Groups whose rows are in memory at a time while their pages are made."""
RHYTHM_ROUNDS = 6
"""Rounds of a stream from which its rhythm is told."""
OWN_LINE_MAX = 2
"""The first columns, which name a row; the others are numbers, aligned to the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What `report` is to write; None: not."""

    html: Path | None = None
    pages: Path | None = None
    """Folder for the page of the fleet and those of its groups."""
    prometheus: Path | None = None
    status_dir: Path | None = None
    names: tuple[Peer, ...] = BY_DEFAULT
    """Whose metric names go beside ours."""
    every_s: float | None = None
    """How often the tables are made, if that is known."""

    @property
    def is_nothing(self) -> bool:
        """No file is to be written."""
        return not (self.html or self.pages or self.prometheus or self.status_dir)


def report(tables: Root, outputs: Outputs) -> None:
    """Write the requested files, each replaced as a whole. Raises TablesError, OSError."""
    html, prometheus, status_dir = outputs.html, outputs.prometheus, outputs.status_dir
    if outputs.is_nothing:
        raise BadInput("nothing to write: give --html, --pages, --prometheus or --status-dir")
    found = made(tables, outputs.every_s)
    if html is not None:
        _write(html, page.render(found).encode())
    if outputs.pages is not None:
        _pages(Published(tables), found, outputs.pages)
    if prometheus is not None:
        owned = owners(Published(tables), frozenset(exported(found)))
        _write(prometheus, prometheus_text(found, outputs.names, owned))
    if status_dir is not None:
        names = groups_of(found)
        for name in names:
            _write(status_dir / status_name(name), group_status(found, name))
        say(f"{len(names)} groups in {status_dir}")


def group(tables: Root, name: str, html: Path, every_s: float | None = None) -> None:
    """Write one group's page. Raises BadInput if no table knows it, TablesError, OSError."""
    published = Published(tables)
    replayed = comparisons(published.snapshot, [name])
    made_page = build_group(about(published.snapshot, every_s), published, name, replayed[0] if replayed else None)
    if made_page is None:
        raise BadInput(f"no table knows group {name!r}: see `muster pipeline report --html`")
    _write(html, render_group(made_page).encode())


def _pages(published: Published, found: page.Report, folder: Path) -> None:
    """The page of the fleet, and one of each group that it names in full."""
    chosen = list(dict.fromkeys([*(one.group for one in found.troubles.newest), *(row.group for row in found.fleet)]))
    replayed = {one.group: one for one in found.whatif}
    links = {}
    for start in range(0, len(chosen), PAGES_A_SCAN):
        part = chosen[start : start + PAGES_A_SCAN]
        split = by_group(published, part)
        for name in part:
            made_page = build_group(found.about, split[name], name, replayed.get(name))
            if made_page is not None:
                file = Path("groups", status_name(name).removesuffix(".json") + ".html")
                links[name] = quote(file.as_posix())
                _write(folder / file, render_group(made_page, home="../index.html").encode())
    _write(folder / "index.html", page.render(found, links).encode())
    say(f"{len(links)} groups have pages in {folder}")


def made(tables: Root, every_s: float | None = None) -> page.Report:
    """The report of the published tables. Raises NothingPublished, DamagedStore."""
    published = Published(tables)
    groups, hidden = restless(published)
    return page.build(about(published.snapshot, every_s), published, comparisons(published.snapshot, groups), hidden)


def about(found: Snapshot, every_s: float | None = None) -> page.About:
    """The report's origin, without the run's number, so that equal tables of files give an equal report. Those of a
    live log are true as of their publication, however long nobody has written."""
    told = found.made_of
    is_live = told.get("kind") == "live"
    source = "a live cluster" if is_live else f"{len(told.get('files', ()))} segment files"
    try:
        release = version("muster")
    except PackageNotFoundError:
        release = "of an unknown version"
    return page.About(
        cluster=found.cluster,
        source=source,
        run=found.identity()[:12],
        version=release,
        as_of_ms=found.at_ms if is_live else None,
        every_ms=rhythm_ms(found) if every_s is None else int(every_s * 1_000),
    )


def rhythm_ms(found: Snapshot) -> int | None:
    """From round to round of the stream that made these tables, the middle of the last ones; None if none did."""
    ledger = runs.load(found.place)
    every = [] if ledger is None else ledger.published(found.cluster)
    rounds = [one for one in every if one.run <= found.number and one.until_ms == one.at_ms + ROUND_KEPT_MS]
    if not rounds or rounds[-1].run != found.number:
        return None
    between = [later.at_ms - earlier.at_ms for earlier, later in pairwise(rounds[-RHYTHM_ROUNDS:])]
    return median_low(between) if between else None


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
