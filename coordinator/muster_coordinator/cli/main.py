"""Entry point of `muster`: runs one command, turns failures into one sentence and an exit code.

Commands are those of `command_tree`. A replica's own line is run without the tree (`server_line`).
"""

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from muster_coordinator.cli import server_line
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.output import note
from muster_coordinator.errors import CallerError, EnvironmentFault

COMPLETING = "_MUSTER_COMPLETE"
"""In the environment while a shell asks for completions: the line is looked at and not run."""
ABORTS_AT_EXIT = "pyarrow"
"""A thread of Arrow's may let go of an object of Python's (a file of a remote store) after the interpreter has begun to
end; then C++ aborts the process, and a command that had done everything is told as failed."""


def program() -> NoReturn:
    """The process `muster`: as `main`, but without the interpreter's end if Arrow was loaded (`muster pipeline`)."""
    code: object = 0
    try:
        main()
    except SystemExit as end:
        if ABORTS_AT_EXIT not in sys.modules:
            raise
        code = end.code
    if isinstance(code, str):
        note(code)
    with suppress(BrokenPipeError):  # its reader has gone: there is nobody to tell
        sys.stdout.flush()
        sys.stderr.flush()
    logging.shutdown()
    os._exit(code if isinstance(code, int) else int(code is not None))


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
    program()
