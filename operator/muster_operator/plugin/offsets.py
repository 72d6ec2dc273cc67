"""`kubectl muster lag` and `reset`: current offsets from the coordinators, and changing them.

A reset is a dry run unless `--execute` is given, and then the coordinators themselves refuse a group with members: the
status is not trusted for that. Targets and output are those of `muster group reset-offsets` (docs/cli.md), which runs
in a coordinator's pod (`coordinators`).
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
import yaml

from muster_operator.plugin import views
from muster_operator.plugin.coordinators import Coordinators, cluster_of
from muster_operator.plugin.objects import GROUP, Objects, Trouble, parse_reference
from muster_operator.plugin.options import (
    Context,
    Everywhere,
    Exit,
    GroupReference,
    Kubeconfig,
    Namespace,
    Output,
    OutputOption,
    plain_errors,
)
from muster_operator.plugin.pods import Finished

TARGETS = (
    "--to-earliest", "--to-latest", "--to-current", "--to-offset", "--to-datetime", "--by-duration", "--shift-by",
)  # fmt: skip


def lag(
    reference: Annotated[str | None, typer.Argument(help="cg/NAME: current lag partition by partition.")] = None,
    namespace: Namespace = None,
    everywhere: Everywhere = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show lag: of all groups from their status, or of one group from its coordinators, now."""
    with plain_errors():
        objects = Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace, everywhere=everywhere)
        if reference is not None:
            _, name = parse_reference(reference, (GROUP,))
            group = objects.get(GROUP, name)
            said = _in_a_coordinator(objects, group, ["group", "lag", f"--output={_plain(output)}"], counting=True)
            raise typer.Exit(hand_on(said))
        rows = [views.lag_row(one) for one in objects.list(GROUP)]
    show(rows, views.LAG_COLUMNS, views.LAG_WIDE_COLUMNS, output)


def reset(
    reference: GroupReference,
    topic: Annotated[list[str] | None, typer.Option(help="topic or topic:0,1; may be repeated.")] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every topic in which the group has offsets.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest record.")] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="To the log end offset, after the newest record.")
    ] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To the current offset, moved into the log if it is outside.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="This offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option(help="To the first record at or after this time (ISO 8601).")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(help="To the first record of the last such duration (ISO 8601, e.g. PT1H).")
    ] = None,
    shift_by: Annotated[int | None, typer.Option(help="By this many records forward (backward if negative).")] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Change the offsets. Without this option nothing changes.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move the committed offsets of a group without members. A dry run unless --execute is given."""
    given = dict(zip(
        TARGETS, (to_earliest, to_latest, to_current, to_offset, to_datetime, by_duration, shift_by), strict=True
    ))  # fmt: skip
    words = [_word(option, value) for option, value in given.items() if value is not None and value is not False]
    if len(words) != 1:
        raise typer.BadParameter(f"choose one of {', '.join(TARGETS)}")
    if bool(topic) == all_topics:
        raise typer.BadParameter("name the topics with --topic, or take --all-topics")
    with plain_errors():
        _, name = parse_reference(reference, (GROUP,))
        objects = Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace)
        group = objects.get(GROUP, name)
        argv = ["group", "reset-offsets", *words]
        argv += ["--all-topics"] if all_topics else [f"--topic={one}" for one in topic or ()]
        argv += ["--execute"] if execute else []
        said = _in_a_coordinator(objects, group, [*argv, f"--output={_plain(output)}"])
    code = hand_on(said)
    if code == Exit.REFUSED and execute:
        typer.echo(f"kubectl muster: stop its consumers first: kubectl muster scale cg/{name} 0", err=True)
    raise typer.Exit(code)


def show(rows: Sequence[views.Row], columns: Sequence[str], wide: Sequence[str], output: Output) -> None:
    """Print rows in the format `output`."""
    match output:
        case Output.JSON:
            typer.echo(json.dumps(rows, indent=2))
        case Output.YAML:
            typer.echo(yaml.safe_dump(list(rows), sort_keys=False), nl=False)
        case _:
            shown = (*columns, *wide) if output is Output.WIDE else columns
            typer.echo(views.table(rows, shown) if rows else "none")


def hand_on(said: Finished) -> int:
    """Print a command's standard output and standard error as it did; returns its exit code."""
    sys.stdout.write(said.out)
    sys.stdout.flush()
    sys.stderr.write(said.err)
    return said.code


def _in_a_coordinator(
    objects: Objects, group: Mapping[str, Any], argv: Sequence[str], *, counting: bool = False
) -> Finished:
    """`counting`: with the options by which records are counted, where offsets have gaps."""
    if objects.namespace is None:
        raise Trouble("a single object needs one namespace: give --namespace instead of --all-namespaces")
    coordinators = Coordinators(objects, cluster_of(group, argv))
    more = coordinators.counting() if counting else []
    return coordinators.run([*argv, *more], group["spec"]["groupId"])


def _plain(output: Output) -> str:
    return Output.TABLE if output is Output.WIDE else output


def _word(option: str, value: object) -> str:
    return option if value is True else f"{option}={value}"
