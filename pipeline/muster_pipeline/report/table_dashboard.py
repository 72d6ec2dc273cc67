"""A Grafana dashboard over the tables by SQL, for the file that `export` writes and Grafana's DuckDB data source.

One page: how old the numbers are, what is wrong and since when, who is behind and how long, when records will be lost,
what comes in and goes out, what moved and why, what stood still, who owns what, how many consumers are needed. The
questions are in `table_queries`. All answers are of one run a cluster, because the file holds no other.
"""

from collections.abc import Iterator
from typing import Any, Final

from muster_pipeline.report import grafana
from muster_pipeline.report import table_queries as ask
from muster_pipeline.report.grafana import Panel
from muster_pipeline.report.troubles import ERR, UNKNOWN, WARN

UID: Final = "muster-pipeline-tables"
SOURCE: Final = "motherduck-duckdb-datasource"
"""The type of Grafana's DuckDB data source."""
TABLES: Final = (
    "lag",
    "commit_rate",
    "rebalances",
    "stalls",
    "balance",
    "partition_status",
    "generations",
    "memberships",
    "assignments",
)
"""What it asks, beside `runs`."""
OLD_AFTER_S: Final = (3_600, 600, 86_400)
"""Of what age numbers are old, to choose from; the first unless somebody chooses."""
_TIME_SERIES, _TABLE = 0, 1
"""`format` of a query: the source makes series of rows, or leaves them."""

_LINE: Final = {"spanNulls": True, "showPoints": "auto"}
_BARS: Final = {"drawStyle": "bars", "fillOpacity": 80, "stacking": {"mode": "normal", "group": "A"}}
_OF_GROUP: Final = "${__field.labels.cluster} ${__field.labels.group}"
_SPANS: Final = {"gone in": "ms", "lost in": "ms"}
_RATES: Final = {"read": "rps", "written": "rps"}
_BAD: Final = ((None, "green"), (1, "red"))
_SOME: Final = ((None, "green"), (1, "orange"))


def _stat(title: str, text: str, query: str, steps: tuple[tuple[float | None, str], ...], unit: str = "short") -> Panel:
    return Panel(kind="stat", title=title, text=text, queries=((query, ""),), unit=unit, steps=steps, width=6, height=4)


def _course(title: str, text: str, query: str, unit: str = "short") -> Panel:
    return Panel(kind="timeseries", title=title, text=text, queries=((query, _OF_GROUP),), unit=unit, drawn=_LINE)


def _table(title: str, text: str, query: str, units: dict[str, str], width: int = 24, height: int = 9) -> Panel:
    return Panel(kind="table", title=title, text=text, queries=((query, ""),), units=units, width=width, height=height)


PANELS: Final = (
    _stat(
        "Age of the numbers",
        "Since the run of a live log, or the newest time in files; of several clusters the oldest",
        ask.AGE,
        ((None, "green"), (120, "orange"), (OLD_AFTER_S[0], "red")),
        "s",
    ),
    _stat("Groups in ERR", "A partition stands still, went back, or lost records", ask.counted(ERR), _BAD),
    _stat("Groups in WARN", "They fall behind, or their offsets expire within a day", ask.counted(WARN), _SOME),
    _stat("Groups of which nothing is proven", "Too few samples of log ends, or commits", ask.counted(UNKNOWN), _SOME),
    _table(
        "Groups now",
        "A group is as bad as its worst partition; since: the oldest of its troubles. The worst first",
        ask.GROUPS_NOW,
        _SPANS,
    ),
    _table(
        "Partitions in trouble",
        "The newest first, with who owns them (docs/tables.md, partition_status)",
        ask.TROUBLES,
        _SPANS | _RATES,
    ),
    _course("Records behind", f"The {ask.GROUPS_DRAWN_MAX} groups that are furthest behind", ask.LAG_RECORDS),
    _course("Time behind", "Age of the oldest record that is not read, on the worst partition", ask.LAG_TIME, "s"),
    _course("Written, records a second", "What the log ends of a group's partitions grew by", ask.RATE_IN, "rps"),
    _course("Read, records a second", "What a group's commits went on by", ask.RATE_OUT, "rps"),
    _table(
        "Records will be lost in",
        "Until retention passes the committed offset, at the rates of now. The first to lose first",
        ask.LOST,
        _SPANS | _RATES,
        12,
    ),
    Panel(
        kind="timeseries",
        title="Rebalances by cause",
        text="As far as the log proves it; avoided: a static member came back",
        queries=((ask.CAUSES, "${__field.labels.cause}"),),
        drawn=_BARS,
        height=9,
    ),
    _table(
        "Rebalances",
        "In the chosen time, the newest first",
        ask.REBALANCES,
        {"lasted": "ms", "at least": "ms", "at most": "ms"},
    ),
    _table(
        "Stalls",
        "Offsets that did not move within the chosen time; those that last first",
        ask.STALLS,
        {"lasted": "ms"},
    ),
    _table(
        "Consumers needed",
        "For the rate of now, and to have read all of it in an hour (docs/pipeline.md, the report)",
        ask.CONSUMERS,
        _RATES,
        12,
    ),
    _table("Owners of partitions", "At the end of the log", ask.OWNERS, {}, 12),
)


def text() -> str:
    """As Grafana imports it."""
    return grafana.text(board())


def board() -> dict[str, Any]:
    """The dashboard as plain JSON values."""
    old_after: dict[str, Any] = {
        "name": "old_after_s",
        "label": "old after (s)",
        "type": "custom",
        "query": ",".join(map(str, OLD_AFTER_S)),
    }
    return grafana.board(
        title="Muster pipeline: tables",
        uid=UID,
        source=SOURCE,
        refresh="1m",
        variables=(
            grafana.variable("cluster", ask.CLUSTERS, SOURCE, ask.ALL_CLUSTERS),
            grafana.variable("group", ask.GROUPS, SOURCE, ask.ALL_GROUPS),
            old_after,
        ),
        panels=_panels(),
    )


def _panels() -> Iterator[dict[str, Any]]:
    for number, one, place in grafana.placed(PANELS):
        form = _TIME_SERIES if one.kind == "timeseries" else _TABLE
        targets = [
            {"rawSql": query, "rawQuery": True, "editorMode": "code", "format": form} for query, _ in one.queries
        ]
        panel = grafana.panel(number, one, place, SOURCE, targets)
        names = [legend for _, legend in one.queries if legend]
        if names:
            panel["fieldConfig"]["defaults"]["displayName"] = names[0]
        yield panel
