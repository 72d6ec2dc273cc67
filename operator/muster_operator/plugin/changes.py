"""`kubectl muster pause`, `resume`, `scale`, `restart`: changes that the operator carries out.

A command writes the request into the object and waits; whether it was carried out is read from the object's status,
never guessed.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from muster_operator import naming
from muster_operator.plugin import waiting
from muster_operator.plugin.objects import GROUP, Kind, Objects, Trouble, parse_reference
from muster_operator.plugin.options import (
    Context,
    Exit,
    GroupReference,
    Kubeconfig,
    Namespace,
    Reference,
    TimeoutSeconds,
    Wait,
    plain_errors,
)

POLL_S = 1.0
REPLICAS_MAX = 1000
Progress = Callable[[Mapping[str, Any]], tuple[str, str]]


def pause(
    reference: Reference,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    wait: Wait = True,
    timeout_seconds: TimeoutSeconds = 60,
) -> None:
    """Make the operator only observe an object: its pods, members and settings stay as they are."""
    with plain_errors():
        objects, kind, name = _open(reference, kubeconfig, context, namespace)
        objects.annotate(kind, name, {naming.PAUSED_ANNOTATION: "true"})
        if wait:
            _await(objects, kind, name, lambda obj: waiting.pause_progress(obj, paused=True), timeout_seconds)
        else:
            typer.echo(f"{kind.singular}/{name}: pause requested")


def resume(
    reference: Reference,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    wait: Wait = True,
    timeout_seconds: TimeoutSeconds = 60,
) -> None:
    """Let the operator act on an object again."""
    with plain_errors():
        objects, kind, name = _open(reference, kubeconfig, context, namespace)
        changed = objects.annotate(kind, name, {naming.PAUSED_ANNOTATION: None})
        if changed["spec"].get("paused"):
            raise Trouble(f"{kind.singular}/{name} stays paused: its spec says `paused: true`; change it there")
        if wait:
            _await(objects, kind, name, lambda obj: waiting.pause_progress(obj, paused=False), timeout_seconds)
        else:
            typer.echo(f"{kind.singular}/{name}: resume requested")


def scale(
    reference: GroupReference,
    replicas: Annotated[int, typer.Argument(min=0, max=REPLICAS_MAX)],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    wait: Wait = True,
    timeout_seconds: TimeoutSeconds = 300,
) -> None:
    """Set the number of consumers. Leaving members are removed from the group at once. Coordinators cannot be
    scaled."""
    with plain_errors():
        objects, kind, name = _open(reference, kubeconfig, context, namespace)
        if kind is not GROUP:
            raise Trouble("the number of coordinators cannot change: each is a voter of every Raft group")
        spec = objects.get(kind, name)["spec"]
        if not spec.get("template") and not spec.get("workloadRef"):
            raise Trouble(f"{kind.singular}/{name} has no `template`: the operator runs no pods of it")
        objects.scale(kind, name, replicas)
        typer.echo(f"{kind.singular}/{name}: {replicas} requested")
        if wait:
            generation = objects.get(kind, name)["metadata"].get("generation", 0)
            progress = lambda obj: waiting.scale_progress(obj, replicas=replicas, generation=generation)  # noqa: E731
            _await(objects, kind, name, progress, timeout_seconds)


def restart(
    reference: Reference,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    wait: Annotated[bool, typer.Option(help="Wait until every pod has been replaced.")] = True,
    timeout_seconds: TimeoutSeconds = 900,
) -> None:
    """Replace the pods one after the other: coordinators are drained first, static consumers cause no rebalance."""
    restarted_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    with plain_errors():
        objects, kind, name = _open(reference, kubeconfig, context, namespace)
        objects.annotate(kind, name, {naming.RESTART_ANNOTATION: restarted_at})
        typer.echo(f"{kind.singular}/{name}: restart requested at {restarted_at}")
        if wait:
            progress = lambda obj: waiting.restart_progress(obj, restarted_at=restarted_at)  # noqa: E731
            _await(objects, kind, name, progress, timeout_seconds)


def _open(
    reference: str, kubeconfig: str | None, context: str | None, namespace: str | None
) -> tuple[Objects, Kind, str]:
    kind, name = parse_reference(reference)
    return Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace), kind, name


def _await(objects: Objects, kind: Kind, name: str, progress: Progress, timeout_s: float) -> None:
    """Print each new state until the change is complete. Exits with code 3 if it does not complete in time."""
    deadline_s, told = time.monotonic() + timeout_s, ""
    while time.monotonic() < deadline_s:
        state, why = progress(objects.get(kind, name))
        if why != told:
            typer.echo(f"{kind.singular}/{name}: {why}")
            told = why
        if state == "done":
            return
        if state == "halted":
            raise typer.Exit(Exit.NOT_FINISHED)
        time.sleep(POLL_S)
    typer.echo(
        f"kubectl muster: not finished after {timeout_s} s; the operator continues, this command stops waiting",
        err=True,
    )
    raise typer.Exit(Exit.NOT_FINISHED)
