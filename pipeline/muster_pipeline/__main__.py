"""`python -m muster_pipeline …`, and `spark-submit …/__main__.py … --master submit`: the same commands."""

import logging
import os
import sys
from contextlib import suppress
from typing import NoReturn

import typer

from muster_pipeline.cli.commands import add_commands

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
add_commands(app)


def main() -> NoReturn:
    """Run a command, and end the process with its exit code, but without the interpreter's own end.

    A thread of Arrow's may hold an object of Python's a moment longer, a file of a store say. If it lets go of that
    after the interpreter has begun to end, C++ aborts the process ("terminate called without an active exception"):
    a run that had published everything was told as failed, and YARN did it again.
    """
    code: object = 0
    try:
        app(prog_name="muster pipeline")
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    with suppress(BrokenPipeError):  # its reader has gone: there is nobody to tell
        sys.stdout.flush()
        sys.stderr.flush()
    logging.shutdown()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
