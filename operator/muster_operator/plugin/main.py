"""The command `kubectl-muster`, which kubectl finds as `kubectl muster`.

Exit codes: 0 done; 1 the object or the API server refused; 2 usage; 3 the change did not complete; 5 done, but
incomplete. `lag cg/NAME` and `reset` exit with the code of `muster group lag` and `reset-offsets` (docs/cli.md).
"""

import json
import os
import sys

import typer
import yaml

from muster_operator.plugin import changes, colour, logs, offsets, report
from muster_operator.plugin.objects import CLUSTER, GROUP, Objects, parse_reference
from muster_operator.plugin.options import (
    Context,
    Everywhere,
    Kubeconfig,
    Namespace,
    Output,
    OutputOption,
    Reference,
    plain_errors,
)
from muster_operator.plugin.views import (
    CLUSTER_COLUMNS,
    CLUSTER_WIDE_COLUMNS,
    GROUP_COLUMNS,
    GROUP_WIDE_COLUMNS,
    cluster_row,
    describe_cluster,
    describe_group,
    group_row,
    table,
)

app = typer.Typer(
    name="kubectl muster",
    no_args_is_help=True,
    add_completion=False,
    help="Overview of consumer groups and coordinators, and manual operations on them.",
)


@app.command()
def status(
    namespace: Namespace = None,
    everywhere: Everywhere = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List every cluster and group with its state, members and lag."""
    with plain_errors():
        objects = Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace, everywhere=everywhere)
        clusters = [cluster_row(one) for one in objects.list(CLUSTER)]
        groups = [group_row(one) for one in objects.list(GROUP)]
    if output in (Output.TABLE, Output.WIDE):
        wide = output is Output.WIDE
        parts = [
            ("Coordinator clusters", clusters, CLUSTER_COLUMNS + (CLUSTER_WIDE_COLUMNS if wide else ())),
            ("Consumer groups", groups, GROUP_COLUMNS + (GROUP_WIDE_COLUMNS if wide else ())),
        ]
        paint = {"paint": colour.painted} if colour.wanted(sys.stdout, os.environ) else {}
        for title, rows, columns in parts:
            print(f"{title}\n{table(rows, columns, **paint) if rows else 'none'}\n")
        return
    plain = {"clusters": clusters, "groups": groups}
    typer.echo(json.dumps(plain, indent=2) if output is Output.JSON else yaml.safe_dump(plain, sort_keys=False))


@app.command()
def describe(
    reference: Reference,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show one object: conditions with problems first, members by pod, the last rebalance."""
    with plain_errors():
        kind, name = parse_reference(reference)
        objects = Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace)
        obj = objects.get(kind, name)
    typer.echo(describe_group(obj) if kind is GROUP else describe_cluster(obj))


for command in (
    offsets.lag, changes.scale, changes.pause, changes.resume, changes.restart, offsets.reset, logs.logs, report.report,
):  # fmt: skip
    app.command()(command)


def main() -> None:
    """Run the plug-in; raises SystemExit."""
    app()
