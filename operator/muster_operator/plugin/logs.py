"""`kubectl muster logs`: the logs of one object's pods, each line prefixed with its pod."""

import queue
import sys
import threading
from typing import Annotated, Any

import typer

from muster_operator.plugin.coordinators import selector_of
from muster_operator.plugin.objects import Objects, Trouble, parse_reference
from muster_operator.plugin.options import Context, Exit, Kubeconfig, Namespace, Reference, plain_errors
from muster_operator.plugin.pods import Pods, containers

TAIL_DEFAULT = 100
FOLLOWED_MAX = 50
"""Logs that are followed at the same time: each one is a connection."""
QUEUED_LINES_MAX = 10_000
"""Lines buffered between the connections and the terminal; a slow terminal slows down reading."""
MAIN_CONTAINERS = ("coordinator", "consumer")


def logs(
    reference: Reference,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    container: Annotated[str | None, typer.Option("--container", "-c", help="Default: the main container.")] = None,
    all_containers: Annotated[bool, typer.Option("--all-containers")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f")] = False,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Logs of the container before its last restart.")
    ] = False,
    tail: Annotated[int, typer.Option(min=-1, help="Number of last lines per container; -1: all.")] = TAIL_DEFAULT,
    since_seconds: Annotated[int | None, typer.Option("--since-seconds", min=1)] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps")] = False,
) -> None:
    """Print the logs of a cluster's or group's pods, each line prefixed with its pod."""
    with plain_errors():
        kind, name = parse_reference(reference)
        objects = Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace)
        obj = objects.get(kind, name)
        pods = Pods(obj["metadata"]["namespace"])
        sources = []
        for pod in pods.list(selector_of(kind, obj)):
            there = containers(pod)
            chosen = there if all_containers else [container] if container else _main(there)
            sources += [(pod["metadata"]["name"], one) for one in chosen]
        if not sources:
            raise Trouble(f"{kind.singular}/{name} has no pods")
        if follow and len(sources) > FOLLOWED_MAX:
            raise Trouble(f"{len(sources)} logs are more than can be followed at once ({FOLLOWED_MAX})")
    options: dict[str, Any] = {"follow": follow, "previous": previous, "timestamps": timestamps}
    if tail >= 0:
        options["tail_lines"] = tail
    if since_seconds is not None:
        options["since_seconds"] = since_seconds
    failed = _follow(pods, sources, options) if follow else _in_turn(pods, sources, options)
    raise typer.Exit(_code(failed, len(sources)))


def _main(there: list[str]) -> list[str]:
    """The container that the operator names; all containers of a workload that it did not create."""
    known = [one for one in there if one in MAIN_CONTAINERS]
    return known or there


def _in_turn(pods: Pods, sources: list[tuple[str, str]], options: dict[str, Any]) -> int:
    failed = 0
    for pod, container in sources:
        try:
            for line in pods.log_lines(pod, container, **options):
                print(f"[{pod}/{container}] {line}")
        except Trouble as error:
            failed += 1
            sys.stderr.write(f"kubectl muster: {error}\n")
    return failed


def _follow(pods: Pods, sources: list[tuple[str, str]], options: dict[str, Any]) -> int:
    """Follow all logs at once, until each has ended or the caller interrupts."""
    lines: queue.Queue[str | Trouble | None] = queue.Queue(QUEUED_LINES_MAX)

    def read(pod: str, container: str) -> None:
        try:
            for line in pods.log_lines(pod, container, **options):
                lines.put(f"[{pod}/{container}] {line}")
        except Trouble as error:
            lines.put(error)
        finally:
            lines.put(None)

    for source in sources:
        threading.Thread(target=read, args=source, daemon=True).start()
    left, failed = len(sources), 0
    while left:
        said = lines.get()
        if said is None:
            left -= 1
        elif isinstance(said, Trouble):
            failed += 1
            sys.stderr.write(f"kubectl muster: {said}\n")
        else:
            print(said, flush=True)
    return failed


def _code(failed: int, asked: int) -> int:
    if failed == asked:
        return Exit.REFUSED
    return Exit.INCOMPLETE if failed else Exit.OK
