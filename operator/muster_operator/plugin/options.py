"""Options that several commands of the plug-in share, and the exit of a command that fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, StrEnum
from typing import Annotated

import typer

from muster_operator.plugin.objects import Trouble

Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Default: the namespace of the context.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A")]
Context = Annotated[str | None, typer.Option("--context")]
Kubeconfig = Annotated[str | None, typer.Option("--kubeconfig", envvar="KUBECONFIG")]
Reference = Annotated[str, typer.Argument(help="cg/NAME or cc/NAME")]
GroupReference = Annotated[str, typer.Argument(help="cg/NAME")]
Wait = Annotated[bool, typer.Option(help="Wait until the operator has carried it out.")]
TimeoutSeconds = Annotated[int, typer.Option("--timeout-seconds", min=1)]


class Exit(IntEnum):
    """The exit codes; scripts rely on them (docs/kubectl-muster.md)."""

    OK = 0
    REFUSED = 1
    """The object or the API server refused."""
    USAGE = 2
    NOT_FINISHED = 3
    """The change did not complete, or cannot complete."""
    INCOMPLETE = 5
    """Done, but incomplete; standard error says what is missing."""


class Output(StrEnum):
    """Values of `--output`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print the answer.")]


@contextmanager
def plain_errors() -> Iterator[None]:
    """Print Trouble as one sentence and exit with 1."""
    try:
        yield
    except Trouble as error:
        typer.echo(f"kubectl muster: {error}", err=True)
        raise typer.Exit(Exit.REFUSED) from error
