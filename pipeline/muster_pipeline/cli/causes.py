"""A failed task's last words as a sentence with its cure, and the exit code that goes with it.

Workers fail in other processes, so that what arrives is text: the last line of a traceback, or Spark's own reason.
Words that are not known are passed on as they are.
"""

import re
from typing import Final

from muster_pipeline.cli.exits import INSTALL, Exit, worker_error

_OUR_ERRORS: Final = re.compile(r"^muster_pipeline\.(?:tables|sources)\.errors\.(\w+): (.*)$", re.DOTALL)
_USAGE: Final = frozenset(
    {"LimitReached", "BadInput", "BadOption", "DamagedStore", "NothingPublished", "NoLog", "NotShared"}
)
"""Errors that come again however often the same is tried."""
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_DENIED: Final = re.compile(r"PermissionError: \[Errno \d+\] [^:]*: '?([^']*)'?")
_ABSENT: Final = re.compile(r"FileNotFoundError: \[Errno \d+\] [^:]*: '?([^']*)'?")
_DEAD: Final = ("Python worker exited unexpectedly", "ExecutorLostFailure", "exited with code", "Worker died")


def cause(text: str) -> tuple[Exit, str]:
    """The exit code and a sentence, from Spark's report of a failed task."""
    if "AssertionError" in text:
        return Exit.BROKEN, f"a task failed: {worker_error(text)}"
    last = worker_error(text)
    ours = _OUR_ERRORS.match(last)
    if ours is not None:
        code = Exit.USAGE if ours[1] in _USAGE else Exit.FAILED
        return code, ours[2]
    missing = _NO_MODULE.search(text)
    if missing is not None:
        package = missing[1].partition(".")[0]
        by_archive = (
            "the zip of `make pipeline-archive` with spark-submit --py-files"
            if package.startswith("muster_")
            else "an environment that has it with spark-submit --archives and PYSPARK_PYTHON"
        )
        return Exit.USAGE, (
            f"the executors do not have the package {package}: {INSTALL} in their Python, or hand over {by_archive}"
        )
    denied = _DENIED.search(last)
    if denied is not None:
        return Exit.FAILED, (
            f"an executor may not use {denied[1]}: give the user that executors run as read access to the log and "
            "write access to the folder of tables"
        )
    absent = _ABSENT.search(last)
    if absent is not None:
        return Exit.FAILED, (
            f"an executor does not find {absent[1]}: log and tables must be in folders that every executor sees by the "
            "same path"
        )
    if any(word in text for word in _DEAD):
        return Exit.FAILED, (
            f"an executor died: {last}; most often it was out of memory: raise spark.executor.memoryOverhead (a worker "
            "needs 600 MiB), or lower spark.executor.cores; nothing was published, so run it again"
        )
    return Exit.FAILED, f"a task failed: {last}"
