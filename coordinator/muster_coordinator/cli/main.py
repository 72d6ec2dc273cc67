"""Entry point of `muster`: collects sub-commands, runs one, turns failures into one sentence and an exit code.

Sub-commands come from the entry points of the group `muster.commands`: callables that add commands to a typer app.
Coordinator, operator and pipeline are connected in this way and never import each other. Commands that cannot be
imported (their extra is not installed) are reported on standard error and left out.
"""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.output import note
from muster_coordinator.errors import CallerError, EnvironmentFault

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `muster`; always raises SystemExit."""
    try:
        build()(args=None if arguments is None else list(arguments), prog_name="muster")
    except CliError as error:
        _fail(str(error), error.code)
    except CallerError as error:
        _fail(str(error), Exit.USAGE)
    except EnvironmentFault as error:
        _fail(str(error), Exit.REFUSED)
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output has closed the pipe: without this the interpreter would report an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(Exit.REFUSED) from None


def _fail(sentence: str, code: Exit) -> None:
    note(sentence)
    raise SystemExit(int(code))


if __name__ == "__main__":
    main()
