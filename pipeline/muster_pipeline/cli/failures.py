"""The one place where exceptions become a message and an exit code (docs/pipeline.md)."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from muster_pipeline.cli.causes import cause
from muster_pipeline.cli.exits import INSTALL, Exit, last_line, leave


@contextmanager
def failures_told() -> Iterator[None]:
    """Wraps a sub-command: known exceptions end it with a message and an exit code. Any other is a bug and keeps its
    traceback."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException, PySparkRuntimeError

        import_module("muster_pipeline.store.reader")  # Arrow and Delta
        from muster_pipeline.session.spark import SparkMissing
        from muster_pipeline.sources.errors import AmbiguousLog, BadOption, NoLog, SourceError
        from muster_pipeline.tables.errors import StoreBusy, StoreFailed, TablesError
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
    except (StoreBusy, StoreFailed, OSError) as error:
        leave(Exit.FAILED, str(error))
    except (TablesError, BadOption, NoLog, AmbiguousLog) as error:
        leave(Exit.USAGE, str(error))
    except SourceError as error:
        leave(Exit.FAILED, str(error))
    except PySparkRuntimeError as error:
        leave(Exit.NO_SPARK, f"Spark does not start: {last_line(str(error))}; it needs Java 17 or newer and PySpark 4")
    except (PySparkException, Py4JError) as error:
        leave(*cause(str(error)))
