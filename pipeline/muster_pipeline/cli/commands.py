"""The sub-commands of `muster pipeline` and their options; the work is in the other files of this folder.

Exit codes: 0 done; 1 the cluster, the disk or Spark failed; 2 options or input that cannot be used, or a package is not
installed; 3 with --strict: published, but something is in quarantine; 4 an invariant is broken; 69 Java is missing.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster_pipeline.cli.choices import LIVE, SUBMIT, Form
from muster_pipeline.cli.exits import Exit, leave, say
from muster_pipeline.cli.failures import failures_told
from muster_pipeline.cli.in_pod import add_pod_commands
from muster_pipeline.report.peer_names import BY_DEFAULT, Peer

if TYPE_CHECKING:
    from muster_pipeline.cli.running import Run
    from muster_pipeline.store.place import Place
    from muster_pipeline.store.reader import Snapshot

STALL_MIN_MS = 300_000
OFFSETS_RETENTION_MS = 604_800_000

Tables = Annotated[
    str,
    typer.Option(
        "--tables",
        help="Folder of the tables, which every Spark executor must see; or s3a://, abfss://, gs://, hdfs://.",
    ),
]
Number = Annotated[int | None, typer.Option("--run", help="Number of a run (`muster pipeline runs`); else the newest.")]
Which = Annotated[str | None, typer.Option("--cluster", help="Needed if the folder holds several clusters.")]
Segments = Annotated[
    str | None, typer.Option("--segments", help="Folder or URI below which the partitions' .log files lie.")
]
Bootstrap = Annotated[str | None, typer.Option("--bootstrap", help="host:port,... of a live cluster, Muster or Kafka.")]
Name = Annotated[str, typer.Option("--cluster", help="Name of the cluster, for column `cluster`.")]
LogEndOffsets = Annotated[
    str | None,
    typer.Option(
        "--log-end-offsets",
        help="Samples of log end offsets, for lag: a recorded file (.parquet, .jsonl), or `live` with --bootstrap.",
    ),
]
Heads = Annotated[str | None, typer.Option("--heads", hidden=True)]
Master = Annotated[str, typer.Option("--master", help="Spark master; `submit`: what spark-submit says.")]
Conf = Annotated[list[str] | None, typer.Option("--conf", help="Spark setting name=value; may be repeated.")]
Client = Annotated[list[str] | None, typer.Option("--client", help="Client setting such as security.protocol=SSL.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 3 if anything is in quarantine.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be read; read and write nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
StallMin = Annotated[
    int, typer.Option("--stall-min-ms", min=1, help="A committed offset that long unmoved is a stall.")
]
Retention = Annotated[
    int, typer.Option("--offsets-retention-ms", min=1, help="offsets.retention.minutes of the cluster, in ms.")
]


def register(app: typer.Typer) -> None:
    """Add `pipeline` to `app` (entry-point group `muster.commands`), and what Spark calls in pods."""
    group = typer.Typer(
        name="pipeline", help="The offsets log as tables and a report, with Spark.", no_args_is_help=True,
        epilog="Exit: 0 done, 1 failed, 2 usage, 3 quarantine (--strict), 4 invariant broken, 69 no Java.",
    )  # fmt: skip
    add_commands(group)
    app.add_typer(group)
    add_pod_commands(app)


def add_commands(group: typer.Typer) -> None:
    """The sub-commands themselves."""
    for command in (
        ingest,
        stream,
        gold,
        report,
        explain,
        whatif,
        verify,
        runs,
        files,
        lease,
        vacuum,
        optimize,
        migrate,
        sql,
        weekly,
        dashboard,
        export,
        fleet,
    ):
        group.command(command.__name__)(command)


def ingest(
    tables: Tables,
    cluster: Name,
    segments: Segments = None,
    bootstrap: Bootstrap = None,
    log_end_offsets: LogEndOffsets = None,
    heads: Heads = None,
    master: Master = "local[2]",
    conf: Conf = None,
    client: Client = None,
    stall_min_ms: StallMin = STALL_MIN_MS,
    offsets_retention_ms: Retention = OFFSETS_RETENTION_MS,
    strict: Strict = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Read a log, files or live, into all tables: bronze, silver and gold."""
    log_ends = _log_ends(log_end_offsets, heads)
    if log_ends == LIVE and bootstrap is None:
        leave(Exit.USAGE, "--log-end-offsets live needs --bootstrap")
    if segments is None and bootstrap is None:
        leave(Exit.USAGE, "give --segments or --bootstrap")
    if segments is not None and bootstrap is not None and log_ends != LIVE:
        leave(Exit.USAGE, "give one of --segments and --bootstrap (both only with --log-end-offsets live)")
    with failures_told():
        from muster_pipeline.cli import running
        from muster_pipeline.job.inputs import Input, SegmentInput
        from muster_pipeline.job.live import LiveInput

        run = _run(tables, cluster, log_ends, master, conf, client, bootstrap, stall_min_ms, offsets_retention_ms)
        source: Input
        if segments is not None:
            source = SegmentInput.listed(segments, cluster)
        else:
            source = LiveInput.whole(str(bootstrap), cluster, run.properties)
        if dry_run:
            running.show_plan(source, as_json=as_json)
        else:
            running.ingest(run, source, strict=strict)


def stream(
    tables: Tables,
    cluster: Name,
    bootstrap: Annotated[str, typer.Option("--bootstrap", help="host:port,... of the cluster to follow.")],
    log_end_offsets: LogEndOffsets = None,
    heads: Heads = None,
    every_s: Annotated[float, typer.Option("--every-s", min=1.0, help="Begin of a round to begin of the next.")] = 30.0,
    once: Annotated[bool, typer.Option("--once", help="One round: what is there now, then end.")] = False,
    master: Master = "local[2]",
    conf: Conf = None,
    client: Client = None,
    stall_min_ms: StallMin = STALL_MIN_MS,
    offsets_retention_ms: Retention = OFFSETS_RETENTION_MS,
    strict: Strict = False,
) -> None:
    """Follow a live cluster: rounds that go on where the published tables end."""
    log_ends = _log_ends(log_end_offsets, heads)
    with failures_told():
        from muster_pipeline.cli import running

        run = _run(tables, cluster, log_ends, master, conf, client, bootstrap, stall_min_ms, offsets_retention_ms)
        running.stream(run, bootstrap, every_s=every_s, once=once, strict=strict)


def gold(
    tables: Tables,
    cluster: Which = None,
    log_end_offsets: LogEndOffsets = None,
    heads: Heads = None,
    bootstrap: Bootstrap = None,
    master: Master = "local[2]",
    conf: Conf = None,
    client: Client = None,
    stall_min_ms: StallMin = STALL_MIN_MS,
    offsets_retention_ms: Retention = OFFSETS_RETENTION_MS,
    strict: Strict = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make silver and gold anew from the published records: other settings, or other samples of log end offsets."""
    log_ends = _log_ends(log_end_offsets, heads)
    with failures_told():
        from muster_pipeline.cli import running

        source, known = running.gold_input(_place(tables), cluster)
        run = _run(tables, known, log_ends, master, conf, client, bootstrap, stall_min_ms, offsets_retention_ms)
        if dry_run:
            running.show_plan(source, as_json=as_json)
        else:
            running.ingest(run, source, strict=strict)


def report(
    tables: Tables,
    html: Annotated[Path | None, typer.Option("--html", help="One self-contained page.")] = None,
    prometheus: Annotated[Path | None, typer.Option("--prometheus", help="Text for a textfile collector.")] = None,
    status_dir: Annotated[Path | None, typer.Option("--status-dir", help="Folder for one JSON a group.")] = None,
    pages: Annotated[
        Path | None, typer.Option("--pages", help="Folder for the page, with a page for each group that it names.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="With --html: the page of this group alone.")] = None,
    names: Annotated[
        list[Peer] | None,
        typer.Option("--names", help="With --prometheus: whose metric names go beside ours; may be repeated."),
    ] = None,
    every_s: Annotated[
        float | None,
        typer.Option(
            "--every-s", min=1.0, help="How often the tables are made; after twice that the page calls itself old."
        ),
    ] = None,
    cluster: Which = None,
    run: Number = None,
) -> None:
    """Write the report of the published tables."""
    with failures_told():
        from muster_pipeline.cli import reporting

        found = _snapshot(tables, cluster, run)
        if group is None:
            outputs = reporting.Outputs(
                html=html, pages=pages, prometheus=prometheus, status_dir=status_dir, every_s=every_s,
                names=tuple(names or BY_DEFAULT),
            )  # fmt: skip
            reporting.report(found, outputs)
        elif html is None or pages or prometheus or status_dir:
            leave(Exit.USAGE, "--group goes with --html, and with nothing else to write")
        else:
            reporting.group(found, group, html, every_s)


def explain(
    group: Annotated[str, typer.Argument(help="The group.")],
    tables: Tables,
    at: Annotated[
        str | None, typer.Option("--at", help="ISO time, UTC unless it says otherwise; else the end of what was read.")
    ] = None,
    as_json: AsJson = False,
    cluster: Which = None,
    run: Number = None,
) -> None:
    """Say why a group lagged at a time, with the rows that prove it."""
    with failures_told():
        from muster_pipeline.cli import explaining

        explaining.explain(_snapshot(tables, cluster, run), group, at, as_json=as_json)


def whatif(
    tables: Tables,
    group: Annotated[list[str] | None, typer.Option("--group", help="May be repeated; else the most restless.")] = None,
    assignor: Annotated[list[str] | None, typer.Option("--assignor", help="May be repeated; else all.")] = None,
    as_json: AsJson = False,
    cluster: Which = None,
    run: Number = None,
) -> None:
    """Replay recorded memberships through other assignors."""
    with failures_told():
        from muster_pipeline.cli import reporting

        reporting.whatif(_snapshot(tables, cluster, run), group, assignor or [], as_json=as_json)


def verify(
    tables: Tables,
    same_as: Annotated[
        str | None, typer.Option("--same-as", help="Tables of the same input: equal bytes (I3).")
    ] = None,
    stream_of: Annotated[
        str | None, typer.Option("--stream-of", help="Tables of a batch: equal silver and gold (I4).")
    ] = None,
    cluster: Which = None,
    run: Number = None,
) -> None:
    """Check the invariants of published tables."""
    with failures_told():
        from muster_pipeline.cli import reporting

        reporting.verify(_snapshot(tables, cluster, run), same_as, stream_of)


def runs(tables: Tables, as_json: AsJson = False) -> None:
    """List what was published, until when it is kept, and who holds it."""
    with failures_told():
        from muster_pipeline.cli import storing

        storing.show_runs(tables, as_json=as_json)


def files(
    table: Annotated[str, typer.Argument(help="Name of a table.")],
    tables: Tables,
    cluster: Which = None,
    run: Number = None,
) -> None:
    """Print the Parquet files of a table, in order, for programs that read no Delta."""
    with failures_told():
        from muster_pipeline.cli import storing

        storing.show_files(table, tables, cluster, run)


def lease(
    tables: Tables,
    holder: Annotated[str, typer.Option("--holder", help="Who reads; a name of your own.")],
    hours: Annotated[float, typer.Option("--hours", min=0.01, help="For how long.")] = 24.0,
    release: Annotated[bool, typer.Option("--release", help="Hold it no more.")] = False,
    cluster: Which = None,
    run: Number = None,
) -> None:
    """Hold a run, so that its files stay while they are read; prints its number."""
    with failures_told():
        from muster_pipeline.cli import storing

        storing.lease(tables, run, cluster, holder, hours, release=release)


def vacuum(
    tables: Tables,
    older_than_hours: Annotated[
        float | None, typer.Option("--older-than-hours", min=0.0, help="Expire runs of that age; may need --force.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also what is still kept or held.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove files that no run, no stream and no lease needs."""
    with failures_told():
        from muster_pipeline.cli import storing

        storing.vacuum(tables, older_than_hours, force=force, dry_run=dry_run)


def optimize(tables: Tables, cluster: Which = None) -> None:
    """Merge small files into large ones; rows and their order stay."""
    with failures_told():
        from muster_pipeline.cli import storing

        storing.optimize(tables, cluster)


def migrate(tables: Tables) -> None:
    """Make Delta tables of a folder that release 0.1 wrote."""
    with failures_told():
        from muster_pipeline.cli import storing

        storing.migrate(tables)


def sql(
    statement: Annotated[str, typer.Argument(help="SELECT, SHOW TABLES, DESCRIBE lag, ...; - reads standard input.")],
    tables: Tables,
    form: Annotated[Form, typer.Option("--format", help="How rows are printed.")] = Form.TABLE,
    cluster: Which = None,
    run: Number = None,
) -> None:
    """Ask the tables of one run in SQL (DuckDB); nothing can be written."""
    with failures_told():
        from muster_pipeline.cli import querying

        querying.ask(_snapshot(tables, cluster, run), statement, form)


def weekly(
    tables: Tables,
    at: Annotated[
        str | None, typer.Option("--at", help="End of the week, ISO time; else the end of what was read.")
    ] = None,
    as_json: AsJson = False,
    cluster: Which = None,
    run: Number = None,
) -> None:
    """Say what was worst in a week and what changed against the week before, with the rows that prove it."""
    with failures_told():
        from muster_pipeline.cli import summing_up

        summing_up.weekly(_snapshot(tables, cluster, run), at, as_json=as_json)


def dashboard(
    by_sql: Annotated[
        bool, typer.Option("--sql", help="One over the tables, for the file that `export` writes.")
    ] = False,
) -> None:
    """Print a Grafana dashboard over the metrics of `report --prometheus`, to be imported as it is."""
    with failures_told():
        from muster_pipeline.report import dashboard as metrics
        from muster_pipeline.report import table_dashboard

        sys.stdout.write(table_dashboard.text() if by_sql else metrics.text())


def export(
    tables: Tables,
    duckdb: Annotated[Path, typer.Option("--duckdb", help="DuckDB file to write, replaced as a whole.")],
    cluster: Annotated[
        list[str] | None, typer.Option("--cluster", help="May be repeated; else every cluster in the folder.")
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="A table more than the SQL dashboard asks; may be repeated."),
    ] = None,
    run: Number = None,
) -> None:
    """Copy tables of one run a cluster into a DuckDB file, for Grafana's DuckDB data source."""
    with failures_told():
        from muster_pipeline.cli import exporting

        exporting.export(_place(tables), duckdb, cluster or (), table or (), run)


def fleet(
    clusters: Annotated[
        str, typer.Option("--clusters", help='File that names clusters, one {"cluster": …, "segments": …} a line.')
    ],
    tables: Tables,
    master: Master = "local[2]",
    conf: Conf = None,
    stall_min_ms: StallMin = STALL_MIN_MS,
    offsets_retention_ms: Retention = OFFSETS_RETENTION_MS,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Read the logs of many clusters, packed by bytes into tasks; each cluster is published by itself."""
    with failures_told():
        from muster_pipeline.cli import fleet as running

        if dry_run:
            running.plan(clusters, as_json=as_json)
        else:
            running.ingest(
                _run(tables, "", None, master, conf, None, None, stall_min_ms, offsets_retention_ms), clusters
            )


def _place(tables: str) -> "Place":
    from muster_pipeline.store.place import place

    return place(tables)


def _snapshot(tables: str, cluster: str | None, run: int | None) -> "Snapshot":
    from muster_pipeline.store.reader import published

    return published(tables, cluster, run)


def _log_ends(given: str | None, by_old_name: str | None) -> str | None:
    """The option's value under either of its names. `--heads` goes with the release after 0.2."""
    if by_old_name is None:
        return given
    if given is not None:
        leave(Exit.USAGE, "give --log-end-offsets without --heads, which is its old name")
    say("--heads is called --log-end-offsets now; the old name goes with the next release")
    return by_old_name


def _run(
    tables: str,
    cluster: str,
    log_ends: str | None,
    master: str,
    conf: list[str] | None,
    client: list[str] | None,
    bootstrap: str | None,
    stall_min_ms: int,
    offsets_retention_ms: int,
) -> "Run":
    from muster_pipeline.cli.running import Run
    from muster_pipeline.transforms.settings import FoldSettings

    return Run(
        tables=_place(tables),
        settings=FoldSettings(cluster=cluster, stall_min_ms=stall_min_ms, offsets_retention_ms=offsets_retention_ms),
        log_ends=log_ends,
        master=None if master == SUBMIT else master,
        spark=_pairs("--conf", conf),
        bootstrap=bootstrap,
        properties=_pairs("--client", client),
    )


def _pairs(option: str, given: list[str] | None) -> dict[str, Any]:
    pairs = [one.partition("=") for one in given or ()]
    for name, equals, _ in pairs:
        if not name or not equals:
            leave(Exit.USAGE, f"{option} takes name=value, not {name!r}")
    return {name: value for name, _, value in pairs}
