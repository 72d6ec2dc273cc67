"""The tree of all commands: sub-commands from the entry points of the group `muster.commands`, in one typer app.

Entry points are callables that add commands to the app. Coordinator, operator and pipeline are connected in this way
and never import each other. Commands that cannot be imported (their extra is not installed) are reported on standard
error and left out.
"""

from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from muster_coordinator.cli.output import note

COMMANDS_GROUP = "muster.commands"


def build() -> typer.Typer:
    """The app with all installed sub-commands."""
    app = typer.Typer(
        name="muster",
        help="Kafka consumer-group coordination: run a cluster, use it, inspect it.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=True,
    )
    app.callback()(_root)
    for entry in sorted(entry_points(group=COMMANDS_GROUP), key=lambda entry: entry.name):
        try:
            register = entry.load()
        except ImportError as error:
            note(f"the commands of {entry.name!r} are not available: {error}")
            continue
        register(app)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"muster {version('muster')}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
