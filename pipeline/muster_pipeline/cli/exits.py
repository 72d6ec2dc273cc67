"""Exit codes, and the one place where exceptions become a message and an exit code (docs/pipeline.md)."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def failures_told() -> Iterator[None]:
    """Wraps a sub-command: known exceptions end it with a message and an exit code. Any other is a bug and keeps its
    traceback."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException, PySparkRuntimeError

        from muster_pipeline.session.spark import SparkMissing
        from muster_pipeline.sources.errors import AmbiguousLog, BadOption, NoLog, SourceError
        from muster_pipeline.store.keeping import StoreBusy
        from muster_pipeline.tables.errors import TablesError
    except ImportError as error:
        leave(Exit.USAGE, f"the pipeline needs the package {error.name}, which is not installed: {INSTALL}")
    try:
        yield
    except SparkMissing as error:
        leave(Exit.NO_SPARK, str(error))
    except PermissionError as error:
        leave(
            Exit.FAILED, f"may not use {error.filename}: {error.strerror}; give this user the right, or another folder"
        )
    except (StoreBusy, OSError) as error:
        leave(Exit.FAILED, str(error))
    except (TablesError, BadOption, NoLog, AmbiguousLog) as error:
        leave(Exit.USAGE, str(error))
    except SourceError as error:
        leave(Exit.FAILED, str(error))
    except PySparkRuntimeError as error:
        leave(Exit.NO_SPARK, f"Spark does not start: {_last_line(str(error))}; it needs Java 17 or newer and PySpark 4")
    except (PySparkException, Py4JError) as error:
        from muster_pipeline.cli.causes import cause

        leave(*cause(str(error)))


def worker_error(text: str) -> str:
    """The cause in Spark's report of a failed task: the last line of a worker's traceback, or Spark's own reason."""
    _, found, traceback = text.partition("Traceback (most recent call last):")
    lines = [line for line in traceback.splitlines() if line and not line[0].isspace()]
    if found and lines:
        return lines[0].strip()
    aborted = next((line for line in text.splitlines() if _ABORTED in line), None)
    if aborted is not None:
        return aborted.partition(_ABORTED)[2].rpartition("Exception: ")[2].strip()
    return _last_line(text)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")
