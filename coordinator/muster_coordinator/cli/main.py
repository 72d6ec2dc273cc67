"""Entry point of `muster`: runs one command, turns failures into one sentence and an exit code.

Commands are those of `command_tree`. A replica's own line is run without the tree (`server_line`).
"""

import os
import sys
from collections.abc import Sequence

from muster_coordinator.cli import server_line
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.output import note
from muster_coordinator.errors import CallerError, EnvironmentFault

COMPLETING = "_MUSTER_COMPLETE"
"""In the environment while a shell asks for completions: the line is looked at and not run."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `muster`; always raises SystemExit."""
    try:
        _run(sys.argv[1:] if arguments is None else list(arguments))
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


def _run(words: list[str]) -> None:
    line = server_line.read(words)
    if line is not None and COMPLETING not in os.environ:
        raise SystemExit(server_line.serve(line))
    from muster_coordinator.cli.command_tree import build

    build()(args=words, prog_name="muster")


def _fail(sentence: str, code: Exit) -> None:
    note(sentence)
    raise SystemExit(int(code))


if __name__ == "__main__":
    main()
