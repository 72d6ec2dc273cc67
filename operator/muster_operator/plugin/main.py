"""The command `kubectl-muster`, found by kubectl as `kubectl muster`.

Exit codes: 0 done; 1 the object or the API server says no; 2 usage; 3 a restart that was waited for has not ended.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
import yaml

from muster_operator import naming
from muster_operator.plugin.objects import CLUSTER, GROUP, Objects, Trouble, parse_reference
from muster_operator.plugin.views import (
    CLUSTER_COLUMNS,
    GROUP_COLUMNS,
    cluster_row,
    describe_cluster,
    describe_group,
    group_row,
    table,
)
from muster_operator.plugin.waiting import restart_progress

POLL_S = 1.0
app = typer.Typer(no_args_is_help=True, add_completion=False, help="Consumer groups and coordinators at a glance.")

Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Default: the context's.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A")]
Context = Annotated[str | None, typer.Option("--context")]
Kubeconfig = Annotated[str | None, typer.Option("--kubeconfig", envvar="KUBECONFIG")]


class Output(StrEnum):
    """Values of `--output`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except Trouble as error:
        typer.echo(f"kubectl muster: {error}", err=True)
        raise typer.Exit(1) from error


@app.command()
def status(
    namespace: Namespace = None,
    everywhere: Everywhere = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
) -> None:
    """Every cluster and group with its state, members and lag."""
    with _plain_errors():
        objects = Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace, everywhere=everywhere)
        clusters = [cluster_row(one) for one in objects.list(CLUSTER)]
        groups = [group_row(one) for one in objects.list(GROUP)]
    if output is Output.TABLE:
        parts = [("Coordinator clusters", clusters, CLUSTER_COLUMNS), ("Consumer groups", groups, GROUP_COLUMNS)]
        for title, rows, columns in parts:
            typer.echo(f"{title}\n{table(rows, columns) if rows else 'none'}\n")
        return
    plain = {"clusters": clusters, "groups": groups}
    typer.echo(json.dumps(plain, indent=2) if output is Output.JSON else yaml.safe_dump(plain, sort_keys=False))


@app.command()
def describe(
    reference: Annotated[str, typer.Argument(help="cg/NAME or cc/NAME")],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """One object: conditions with the troubling ones first, members by pod, the last rebalance."""
    with _plain_errors():
        kind, name = parse_reference(reference)
        objects = Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace, everywhere=False)
        obj = objects.get(kind, name)
    typer.echo(describe_group(obj) if kind is GROUP else describe_cluster(obj))


@app.command()
def restart(
    reference: Annotated[str, typer.Argument(help="cg/NAME or cc/NAME")],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    wait: Annotated[bool, typer.Option(help="Wait until every pod has been replaced.")] = True,
    timeout_seconds: Annotated[int, typer.Option("--timeout-seconds", min=1)] = 900,
) -> None:
    """Replace the pods one after the other: coordinators are drained first, static consumers cause no rebalance."""
    restarted_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    with _plain_errors():
        kind, name = parse_reference(reference)
        objects = Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace, everywhere=False)
        objects.annotate(kind, name, {naming.RESTART_ANNOTATION: restarted_at})
        typer.echo(f"{kind.singular}/{name}: restart asked for at {restarted_at}")
        if not wait:
            return
        deadline_s, told = time.monotonic() + timeout_seconds, ""
        while time.monotonic() < deadline_s:
            state, why = restart_progress(objects.get(kind, name), restarted_at=restarted_at)
            if why != told:
                typer.echo(f"{kind.singular}/{name}: {why}")
                told = why
            if state == "done":
                return
            if state == "halted":
                raise typer.Exit(3)
            time.sleep(POLL_S)
    typer.echo(f"kubectl muster: not finished after {timeout_seconds} s; it goes on without being watched", err=True)
    raise typer.Exit(3)


def main() -> None:
    """Run the plug-in; ends in SystemExit."""
    app()
