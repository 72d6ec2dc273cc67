"""A Grafana dashboard over the metrics of `report --prometheus`, made here and held by a test to names in a scrape.

One page: how old the numbers are, what is in trouble, who is behind and how long, what moved, what could not be read.
It asks for our own names only, so that it works whichever names are told beside them.
"""

from collections.abc import Iterator
from typing import Any, Final

from muster_pipeline.report import grafana
from muster_pipeline.report.grafana import Panel

UID: Final = "muster-pipeline"
SOURCE: Final = "prometheus"
_WHERE: Final = 'cluster_name=~"$cluster"'
_GROUPS: Final = f'{_WHERE}, group=~"$group"'
OLD_AFTER_S: Final = 600
"""Numbers of that age are no numbers of now."""
_TROUBLE: Final = "STOP|STALL|REWIND|TRUNCATED|WARN|EXPIRING"


_BAD: Final = ((None, "green"), (1, "red"))
_SOME: Final = ((None, "green"), (1, "orange"))


def _counted(status: str) -> str:
    """Groups of a status; nothing, and so no green, where the numbers are old."""
    young = f"time() - muster_pipeline_as_of_timestamp_seconds{{{_WHERE}}} < {OLD_AFTER_S}"
    return f'muster_pipeline_groups{{{_WHERE}, status="{status}"}} and on (cluster_name) ({young})'


PANELS: Final = (
    Panel(
        kind="stat",
        title="Age of the numbers",
        unit="s",
        width=6,
        height=4,
        text="Since the newest time in what was read: a dead stream shows here, and all below is old then",
        queries=(
            (
                f"time() - max by (cluster_name) (muster_pipeline_as_of_timestamp_seconds{{{_WHERE}}})",
                "{{cluster_name}}",
            ),
        ),
        steps=((None, "green"), (120, "orange"), (OLD_AFTER_S, "red")),
    ),
    Panel(
        kind="stat",
        title="Groups in ERR",
        width=6,
        height=4,
        steps=_BAD,
        text="A partition stands still, went back, or lost records",
        queries=((_counted("ERR"), "{{cluster_name}}"),),
    ),
    Panel(
        kind="stat",
        title="Groups in WARN",
        width=6,
        height=4,
        steps=_SOME,
        text="They fall behind, or their offsets expire within a day",
        queries=((_counted("WARN"), "{{cluster_name}}"),),
    ),
    Panel(
        kind="stat",
        title="Groups of which nothing is proven",
        width=6,
        height=4,
        steps=_SOME,
        text="Too few samples of log ends, or commits",
        queries=((_counted("UNKNOWN"), "{{cluster_name}}"),),
    ),
    Panel(
        kind="timeseries",
        title="Partitions in trouble",
        text="By status (docs/tables.md, partition_status)",
        queries=(
            (f'sum by (status) (muster_pipeline_group_partitions{{{_GROUPS}, status=~"{_TROUBLE}"}})', "{{status}}"),
        ),
    ),
    Panel(
        kind="table",
        title="Groups in trouble",
        text="Partitions by status, now",
        queries=(
            (f'sum by (group, status) (muster_pipeline_group_partitions{{{_GROUPS}, status=~"{_TROUBLE}"}})', ""),
        ),
    ),
    Panel(
        kind="timeseries",
        title="Records behind",
        text="The groups that are furthest behind",
        queries=((f"topk(20, sum by (group) (muster_pipeline_group_lag{{{_GROUPS}}}))", "{{group}}"),),
    ),
    Panel(
        kind="timeseries",
        title="Time behind",
        unit="s",
        text="Age of the oldest record that is not read",
        queries=((f"topk(20, max by (group) (muster_pipeline_group_lag_seconds{{{_GROUPS}}}))", "{{group}}"),),
    ),
    Panel(
        kind="timeseries",
        title="Rebalances in the last hour",
        text="And static members that came back without one",
        queries=(
            (f"topk(20, sum by (group) (delta(muster_pipeline_group_rebalances{{{_GROUPS}}}[1h])))", "{{group}}"),
            (f"sum(delta(muster_pipeline_group_rebalances_avoided{{{_GROUPS}}}[1h]))", "avoided"),
        ),
    ),
    Panel(
        kind="timeseries",
        title="Partitions of unknown lag",
        text="No sample of their log end",
        queries=(
            (f"topk(20, sum by (group) (muster_pipeline_group_partitions_lag_unknown{{{_GROUPS}}}))", "{{group}}"),
        ),
    ),
    Panel(
        kind="timeseries",
        title="Groups that have left",
        text="Deleted, without members, abandoned, without offsets",
        queries=((f"sum by (why) (muster_pipeline_groups_left{{{_WHERE}}})", "{{why}}"),),
    ),
    Panel(
        kind="timeseries",
        title="Records that they left behind",
        text="Nobody reads them any more",
        queries=(
            (f"topk(20, sum by (group, why) (muster_pipeline_group_left_behind{{{_GROUPS}}}))", "{{group}} {{why}}"),
        ),
    ),
    Panel(
        kind="timeseries",
        title="What could not be read",
        unit="bytes",
        text="Bytes in quarantine",
        queries=((f"sum by (cluster_name) (muster_pipeline_quarantined_bytes{{{_WHERE}}})", "{{cluster_name}}"),),
    ),
    Panel(
        kind="timeseries",
        title="Log offsets without a record",
        text="Compaction removed them: history is a lower bound",
        queries=((f"sum by (cluster_name) (muster_pipeline_offsets_missing{{{_WHERE}}})", "{{cluster_name}}"),),
    ),
)


def text() -> str:
    """As Grafana imports it."""
    return grafana.text(board())


def board() -> dict[str, Any]:
    """The dashboard as plain JSON values."""
    groups = f"label_values(muster_pipeline_group_partitions_lag_unknown{{{_WHERE}}}, group)"
    return grafana.board(
        title="Muster pipeline",
        uid=UID,
        source=SOURCE,
        refresh="30s",
        variables=(
            grafana.variable("cluster", "label_values(muster_pipeline_groups, cluster_name)", SOURCE, ".*"),
            grafana.variable("group", groups, SOURCE, ".*"),
        ),
        panels=_panels(),
    )


def _panels() -> Iterator[dict[str, Any]]:
    for number, one, place in grafana.placed(PANELS):
        now = {"instant": True, "format": "table"} if one.kind == "table" else {}
        targets = [{"expr": query, "legendFormat": legend, **now} for query, legend in one.queries]
        yield grafana.panel(number, one, place, SOURCE, targets)
