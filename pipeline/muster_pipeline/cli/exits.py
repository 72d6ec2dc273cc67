"""Exit codes (docs/pipeline.md), how a command ends with one, and the last words of a failed task."""

import sys
from enum import IntEnum
from typing import NoReturn

import typer


class Exit(IntEnum):
    """The exit codes; scripts rely on them."""

    OK = 0
    FAILED = 1
    """The environment: a cluster did not answer, a file changed under the reader, another run holds the tables."""
    USAGE = 2
    """Options, files or folders that cannot be used; a package that is not installed."""
    QUARANTINE = 3
    """With --strict: the tables are published, and something is in quarantine."""
    BROKEN = 4
    """An invariant does not hold."""
    NO_SPARK = 69
    """Java is missing or too old, or Spark does not start; the message says what to install."""


_ABORTED = "Job aborted due to stage failure: "
INSTALL = "pip install 'muster[pipeline]'"


def say(text: str) -> None:
    """One line for a person, on standard error."""
    sys.stderr.write(f"{text}\n")


def leave(code: Exit, sentence: str) -> NoReturn:
    """Print `sentence` on standard error and exit with `code`."""
    say(sentence)
    raise typer.Exit(int(code))


def worker_error(text: str) -> str:
    """The cause in Spark's report of a failed task: the last line of a worker's traceback, or Spark's own reason."""
    _, found, traceback = text.partition("Traceback (most recent call last):")
    lines = [line for line in traceback.splitlines() if line and not line[0].isspace()]
    if found and lines:
        return lines[0].strip()
    aborted = next((line for line in text.splitlines() if _ABORTED in line), None)
    if aborted is not None:
        return aborted.partition(_ABORTED)[2].rpartition("Exception: ")[2].strip()
    return last_line(text)


def last_line(text: str) -> str:
    """The last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")
